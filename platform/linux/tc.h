// SPDX-License-Identifier: MPL-2.0
// tc.h: keeps the host's stack away from frames that are ours: a BPF program on a device's ingress, after packet
// sockets have seen the frame. The programs are a handful of instructions, assembled here.
#ifndef NEREUS_PLATFORM_LINUX_TC_H
#define NEREUS_PLATFORM_LINUX_TC_H

#include <linux/bpf.h>

#include "platform/linux/netlink.h"

// Everything that comes in on the device is dropped. 0 or a negative errno. Idempotent; outlives the process.
int tc_drop_all(struct netlink *n, int ifindex);
// Geneve (IPv6, UDP port 6081) to `address` is dropped; all else goes its way.
int tc_drop_geneve(struct netlink *n, int ifindex, const struct ip_addr *address);

// For tests: writes the program, returns its length in instructions (at most TC_PROGRAM_MAX).
#define TC_PROGRAM_MAX 40
unsigned tc_program_drop_geneve(struct bpf_insn *out, const struct ip_addr *address);

#endif
