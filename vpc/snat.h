// SPDX-License-Identifier: MPL-2.0
// snat.h: the port slices of a guest port's shared external addresses. Ports are drawn at random within the
// slice, one per protocol; a freed TCP port rests for the quarantine before it serves again, so that late
// segments of the old connection never meet a new one.
//
// State belongs to the port, not to its policy: it outlives blueprints, and a port that some slice of the address had
// before a change and has after it is the same port, taken or resting. Threads: under the port's connection lock,
// except snat_prepare and snat_discard (control thread).
#ifndef NEREUS_VPC_SNAT_H
#define NEREUS_VPC_SNAT_H

#include "api/types/blueprint.h"
#include "engine/connection.h"

#define SNAT_SLICES 16

enum snat_protocol { SNAT_TCP, SNAT_UDP, SNAT_ICMP, SNAT_PROTOCOLS };

struct snat_slice {
    struct ip_addr address;
    uint16_t first, last;            // host order
    bool live;                       // in the policy in force; a dead slice only waits for its last connections
    uint32_t used[SNAT_PROTOCOLS];   // ports taken, quarantine included
    uint64_t *taken[SNAT_PROTOCOLS]; // bitmap
    struct snat_rest {
        uint32_t freed_ms;
        uint16_t port;
        uint16_t zero;
    } * resting; // TCP ports in quarantine: a ring as long as the slice
    uint32_t rest_head, rest_count;
};

struct snat {
    struct snat_slice *slice[SNAT_SLICES];
    uint32_t quarantine_ms;
    uint64_t exhausted; // new flows refused
};

// -1 for a protocol that has no ports to share.
int snat_protocol(uint8_t ip_protocol);

// Control thread, no lock: memory for the slices of `nat` that `s` does not have yet. false: no memory.
bool snat_prepare(const struct env *env, const struct snat *s, const struct blueprint_nat *nat,
                  struct snat_slice *fresh[SNAT_SLICES]);
void snat_discard(const struct env *env, struct snat_slice *fresh[SNAT_SLICES]);
// [port lock] Puts the policy's slices in force. Slices that fell out of use are handed back in `fresh`.
void snat_commit(struct snat *s, const struct blueprint_nat *nat, struct snat_slice *fresh[SNAT_SLICES]);
void snat_fini(const struct env *env, struct snat *s);

// [port lock] A free port of the slices listed in nat (those usable for `network` and the family of `internal`).
enum drop snat_take(struct snat *s, const struct blueprint_nat *nat, const struct blueprint_target *target, bool v4,
                    uint8_t protocol, uint32_t now_ms, uint64_t random, struct conn_binding *out);
// [port lock] Undoes a take: no connection came of it.
void snat_undo(struct snat *s, const struct conn_binding *b, uint8_t protocol);
// [port lock] The connection ended.
void snat_release(struct snat *s, const struct conn_binding *b, uint8_t protocol, uint32_t now_ms);
// [port lock] A connection from a former process holds this binding. false: no such slice, or taken by another.
bool snat_claim(struct snat *s, const struct conn_binding *b, uint8_t protocol);
// [port lock] Is the binding still the policy's?
bool snat_valid(const struct snat *s, const struct conn_binding *b);

#endif
