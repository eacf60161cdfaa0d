// SPDX-License-Identifier: MPL-2.0
#include "cli/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libmnl/libmnl.h>

enum { STEP_NAMESPACE = 1, STEP_LOAD, STEP_NETLINK, STEP_CLSACT, STEP_FILTER }; // the child's failures

static int load_program(void)
{
    const struct bpf_insn drop[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = TC_ACT_SHOT},
                                    {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SCHED_CLS,
                           .insn_cnt = sizeof(drop) / sizeof(drop[0]),
                           .insns = (uintptr_t)drop,
                           .license = (uintptr_t) "Dual MPL/GPL"};
    return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

static bool exchange(struct mnl_socket *socket, struct nlmsghdr *request)
{
    char buffer[8192];
    if (mnl_socket_sendto(socket, request, request->nlmsg_len) < 0)
        return false;
    ssize_t n = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
    return n >= 0 && mnl_cb_run(buffer, (size_t)n, 0, mnl_socket_get_portid(socket), NULL, NULL) >= 0;
}

static struct nlmsghdr *request(char *buffer, uint16_t type, uint32_t handle, uint32_t parent, uint32_t info,
                                const char *kind)
{
    struct nlmsghdr *header = mnl_nlmsg_put_header(buffer);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    struct tcmsg *tc = mnl_nlmsg_put_extra_header(header, sizeof(*tc));
    tc->tcm_family = AF_UNSPEC;
    tc->tcm_ifindex = 1; // lo, the namespace's only link
    tc->tcm_handle = handle;
    tc->tcm_parent = parent;
    tc->tcm_info = info;
    mnl_attr_put_strz(header, TCA_KIND, kind);
    return header;
}

static int attach(struct mnl_socket *socket, int program)
{
    char buffer[1024];
    struct nlmsghdr *qdisc = request(buffer, RTM_NEWQDISC, TC_H_MAKE(TC_H_CLSACT, 0), TC_H_CLSACT, 0, "clsact");
    if (!exchange(socket, qdisc))
        return STEP_CLSACT;
    struct nlmsghdr *filter = request(buffer, RTM_NEWTFILTER, 1, TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS),
                                      TC_H_MAKE(1u << 16, htons(ETH_P_ALL)), "bpf");
    struct nlattr *options = mnl_attr_nest_start(filter, TCA_OPTIONS);
    mnl_attr_put_u32(filter, TCA_BPF_FD, (uint32_t)program);
    mnl_attr_put_strz(filter, TCA_BPF_NAME, "nereus-check");
    mnl_attr_put_u32(filter, TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
    mnl_attr_nest_end(filter, options);
    return exchange(socket, filter) ? 0 : STEP_FILTER;
}

// In the child. 0, or the step that failed with errno.
static int try_all(void)
{
    if (unshare(CLONE_NEWNET) != 0)
        return STEP_NAMESPACE;
    int program = load_program();
    if (program < 0)
        return STEP_LOAD;
    struct mnl_socket *socket = mnl_socket_open(NETLINK_ROUTE);
    if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) != 0)
        return STEP_NETLINK;
    return attach(socket, program);
}

void check_cls_bpf(struct check *k)
{
    static const char *const steps[] = {[STEP_NAMESPACE] = "cannot make a network namespace to try it",
                                        [STEP_LOAD] = "the kernel does not load a program",
                                        [STEP_NETLINK] = "no netlink socket",
                                        [STEP_CLSACT] = "no clsact queueing discipline (CONFIG_NET_SCH_INGRESS)",
                                        [STEP_FILTER] = "no bpf classifier (CONFIG_NET_CLS_BPF)"};
    int ends[2];
    if (pipe(ends) != 0) {
        check_set(k, CHECK_FAIL, "cannot try: %s", strerror(errno));
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        int outcome[2] = {try_all(), errno};
        _exit(write(ends[1], outcome, sizeof(outcome)) == sizeof(outcome) ? 0 : 1);
    }
    close(ends[1]);
    int outcome[2];
    bool told = child > 0 && read(ends[0], outcome, sizeof(outcome)) == sizeof(outcome);
    close(ends[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (!told)
        check_set(k, CHECK_FAIL, "cannot try");
    else if (outcome[0] == 0)
        check_set(k, CHECK_OK, "a program loads and attaches");
    else if (geteuid() != 0 && outcome[1] == EPERM)
        check_set(k, CHECK_WARN, "not known: only root may try");
    else
        check_set(k, CHECK_FAIL, "%s: %s", steps[outcome[0]], strerror(outcome[1]));
}
