// SPDX-License-Identifier: MPL-2.0
// walk.h: the six layers, walked once per connection.
//
// The walk judges a connection's opening packet, layer by layer (outbound: gateway, posture, firewall, router, nat,
// overlay; inbound reversed), then simulates the reply through the same layers the other way. Each layer reads and
// changes the tuple as it then is, and adds its part to the transposition. The answer is one verdict with both
// directions' transpositions, for the engine to remember.
//
// A re-walk is the same walk with the connection's binding held: it judges the opening direction, whichever
// side sends next, and never takes a new binding.
#ifndef NEREUS_VPC_WALK_H
#define NEREUS_VPC_WALK_H

#include "engine/connection.h"
#include "vpc/policy.h"
#include "vpc/snat.h"
#include "vpc/trace.h"

#define DEPENDS_OUTSIDE 0xffffffffu // dependency on vpc_tables.outside_version, in place of a mapping slot

// What the walk needs to know of the node; one per node, immutable.
struct walk_env {
    const struct vpc_tables *tables;
    const struct flow_secret *secret;
    struct mac_addr service_mac;
    bool service_up; // the metadata service's link exists
    void *ctx;
    // Index of the port here with this VNI and MAC; 0 = none.
    uint32_t (*local_port)(void *ctx, uint32_t vni, const struct mac_addr *mac);
    // Number of the external link that carries this external address.
    uint32_t (*external_link)(void *ctx, const struct ip_addr *external);
    uint64_t (*random)(void *ctx);
    // [port lock] Does a connection of this port have the key already?
    bool (*key_taken)(void *ctx, const struct flow_key *key);
};

struct vip_binding { // of a connection to a virtual IP, besides its conn_binding; network order
    struct ip_addr target;
    uint16_t target_port, client_port; // client_port: the guest's own unless the target knows it from another flow
};

struct walk {
    // In.
    const struct walk_env *env;
    const struct policy *policy;
    struct snat *snat; // the port's
    uint32_t port;     // index
    uint8_t opener;    // enum flow_dir of the opening packet
    bool rewalk;       // `binding` (and `vip`) are held by a live connection
    bool skip_rules;   // re-walk of an established connection under `established: keep`
    uint32_t now_ms;
    struct flow_key key;   // the opening packet as it came; key.realm says from where
    struct trace_log *log; // or NULL

    // Out.
    struct conn_binding binding;
    struct vip_binding vip;   // with binding.kind CONN_NAT_VIP
    struct conn_flow flow[2]; // by enum flow_dir
    uint32_t rule, posture_rule;
    bool answer_reject; // the deciding rule says reject
    uint8_t took_snat;  // `binding` was taken from a slice by this walk: release it if the connection is not made

    // Between layers: the pass under way.
    uint8_t dir;         // direction of this pass
    bool reply;          // it simulates the answer
    struct flow_key now; // the tuple as the layers so far made it
    struct transposition xp;
    const struct blueprint_target *target; // what the router chose (outbound)
    bool same_subnet, finished;
    uint32_t dependency, dependency_version;
};

// DROP_NONE: allowed, flow[] made (a reply that cannot be routed yet has xp.to == XP_NOWHERE). Else the reason.
enum drop walk_flow(struct walk *w);

// Address that stands for a port at the metadata service, and back (0 = none).
struct ip_addr service_address(uint32_t port, bool v4);
uint32_t service_port(const struct ip_addr *address);

// The layers, for walk_flow: DROP_NONE to go on.
struct layer {
    const char *name;
    enum drop (*out)(struct walk *w);
    enum drop (*in)(struct walk *w);
};
extern const struct layer layer_gateway, layer_posture, layer_firewall, layer_router, layer_nat, layer_overlay;

// [layer_router.c] Looks up the way again after nat changed the destination.
enum drop walk_route(struct walk *w);
// [layer_nat_vip.c] Virtual IPs. Is the opening packet one for a virtual IP?
bool walk_to_vip(const struct walk *w);
enum drop vip_out(struct walk *w); // opened by the guest
enum drop vip_in(struct walk *w);  // opened from outside
void vip_reply(struct walk *w);    // the answer, either way: the virtual IP again
void walk_to_self(struct walk *w); // the packet turns round to the port's inbound side
static inline bool walk_leads_outside(const struct walk *w)
{
    return w->target->kind == BLUEPRINT_TARGET_EXTERNAL || w->target->kind == BLUEPRINT_TARGET_NAT;
}

// The opening packet came from an external link, not from the VPC.
static inline bool walk_from_outside(const struct walk *w)
{
    return w->key.realm == REALM_OUTSIDE;
}

static inline struct text walk_note(struct walk *w, const char *layer, const char *result)
{
    return trace_add(w->log, layer, result);
}

#endif
