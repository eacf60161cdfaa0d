// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/tc.h"

#include <errno.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/geneve.h"
#include "engine/parse.h"

#define FILTER_PRIORITY 1
#define FILTER_HANDLE 0x4e52 // "NR": ours, replaced in place by a restarted process

#define INSN(code_, dst, src, off_, imm_) \
    ((struct bpf_insn){ \
        .code = (code_), .dst_reg = (dst), .src_reg = (src), .off = (int16_t)(off_), .imm = (int32_t)(imm_)})
#define MOV_IMM(dst, imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, imm)
#define MOV_REG(dst, src) INSN(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define LOAD_CTX(dst, field) INSN(BPF_LDX | BPF_MEM | BPF_W, dst, BPF_REG_6, offsetof(struct __sk_buff, field), 0)
#define LOAD_ABS(size, offset) INSN(BPF_LD | BPF_ABS | (size), 0, 0, 0, offset) // R0, host order; R6 is the context
#define JUMP_NE(reg, imm, off) INSN(BPF_JMP | BPF_JNE | BPF_K, reg, 0, off, imm)
#define JUMP_NE32(reg, imm, off) INSN(BPF_JMP32 | BPF_JNE | BPF_K, reg, 0, off, imm)
#define JUMP_LT(reg, imm, off) INSN(BPF_JMP | BPF_JLT | BPF_K, reg, 0, off, imm)
#define EXIT() INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

static unsigned program_drop_all(struct bpf_insn *out)
{
    out[0] = MOV_IMM(BPF_REG_0, TC_ACT_SHOT);
    out[1] = EXIT();
    return 2;
}

unsigned tc_program_drop_geneve(struct bpf_insn *out, const struct ip_addr *address)
{
    enum { TO_PASS = 0 }; // patched below
    unsigned n = 0;
    out[n++] = MOV_REG(BPF_REG_6, BPF_REG_1);
    out[n++] = LOAD_CTX(BPF_REG_0, len);
    out[n++] = JUMP_LT(BPF_REG_0, GENEVE_ENCAP_LEN - 8, TO_PASS);
    out[n++] = LOAD_CTX(BPF_REG_0, vlan_present);
    out[n++] = JUMP_NE(BPF_REG_0, 0, TO_PASS);
    out[n++] = LOAD_ABS(BPF_H, 12);
    out[n++] = JUMP_NE(BPF_REG_0, ETHERTYPE_IPV6, TO_PASS);
    out[n++] = LOAD_ABS(BPF_B, 20);
    out[n++] = JUMP_NE(BPF_REG_0, IPPROTO_UDP4, TO_PASS);
    out[n++] = LOAD_ABS(BPF_H, 56);
    out[n++] = JUMP_NE(BPF_REG_0, GENEVE_UDP_PORT, TO_PASS);
    for (unsigned i = 0; i < 4; i++) {
        out[n++] = LOAD_ABS(BPF_W, 38 + 4 * i);
        out[n++] = JUMP_NE32(BPF_REG_0, load_be32(&address->w[i]), TO_PASS);
    }
    out[n++] = MOV_IMM(BPF_REG_0, TC_ACT_SHOT);
    out[n++] = EXIT();
    unsigned pass = n;
    out[n++] = MOV_IMM(BPF_REG_0, TC_ACT_UNSPEC); // other filters may have their say
    out[n++] = EXIT();
    for (unsigned i = 0; i + 4 < n; i++)
        if (BPF_OP(out[i].code) != BPF_EXIT &&
            (BPF_CLASS(out[i].code) == BPF_JMP || BPF_CLASS(out[i].code) == BPF_JMP32))
            out[i].off = (int16_t)(pass - i - 1);
    return n;
}

static int program_load(const struct bpf_insn *program, unsigned n)
{
    union bpf_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    attr.insns = (uintptr_t)program;
    attr.insn_cnt = n;
    attr.license = (uintptr_t) "Dual MPL/GPL";
    memcpy(attr.prog_name, "nereus", 7);
    long fd = syscall(__NR_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
    return fd < 0 ? -errno : (int)fd;
}

static int clsact_add(struct netlink *n, int ifindex)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct tcmsg));
    struct tcmsg *t = mnl_nlmsg_get_payload(h);
    t->tcm_ifindex = ifindex;
    t->tcm_parent = TC_H_CLSACT;
    t->tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
    mnl_attr_put_strz(h, TCA_KIND, "clsact");
    int rc = netlink_request(n, h, NULL, NULL);
    return rc == -EEXIST ? 0 : rc;
}

static int filter_put(struct netlink *n, int ifindex, int program)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWTFILTER, NLM_F_CREATE, sizeof(struct tcmsg));
    struct tcmsg *t = mnl_nlmsg_get_payload(h);
    t->tcm_ifindex = ifindex;
    t->tcm_parent = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
    t->tcm_handle = FILTER_HANDLE;
    t->tcm_info = TC_H_MAKE(FILTER_PRIORITY << 16, __builtin_bswap16(0x0003 /* ETH_P_ALL */));
    mnl_attr_put_strz(h, TCA_KIND, "bpf");
    struct nlattr *options = mnl_attr_nest_start(h, TCA_OPTIONS);
    mnl_attr_put_u32(h, TCA_BPF_FD, (uint32_t)program);
    mnl_attr_put_strz(h, TCA_BPF_NAME, "nereus");
    mnl_attr_put_u32(h, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    mnl_attr_nest_end(h, options);
    return netlink_request(n, h, NULL, NULL);
}

static int attach(struct netlink *n, int ifindex, const struct bpf_insn *program, unsigned length)
{
    int fd = program_load(program, length);
    if (fd < 0)
        return fd;
    int rc = clsact_add(n, ifindex);
    if (rc == 0)
        rc = filter_put(n, ifindex, fd);
    close(fd);
    return rc;
}

int tc_drop_all(struct netlink *n, int ifindex)
{
    struct bpf_insn program[TC_PROGRAM_MAX];
    return attach(n, ifindex, program, program_drop_all(program));
}

int tc_drop_geneve(struct netlink *n, int ifindex, const struct ip_addr *address)
{
    struct bpf_insn program[TC_PROGRAM_MAX];
    return attach(n, ifindex, program, tc_program_drop_geneve(program, address));
}
