// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/neighbours.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "platform/linux/internal.h"

#define SECOND 1000000000ull
#define REFRESH (20 * SECOND)

#define NUD_USABLE (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP)

struct lookup {
    struct ip_addr next_hop;
    bool found, local;
    int ifindex;
    uint16_t nud;
    uint64_t mac;
};

bool neighbours_init(struct neighbours *n)
{
    memset(n, 0, sizeof(*n));
    pthread_mutex_init(&n->lock, NULL);
    return netlink_open(&n->netlink);
}

static struct tunnel *tunnel_at(struct neighbours *n, uint32_t tunnel)
{
    if (tunnel / NEIGHBOURS_CHUNK >= NEIGHBOURS_CHUNKS)
        return NULL;
    struct tunnel *chunk = load_acquire(&n->chunks[tunnel / NEIGHBOURS_CHUNK]);
    return chunk ? &chunk[tunnel % NEIGHBOURS_CHUNK] : NULL;
}

static void discard_waiting(struct linux_platform *l, struct tunnel *t, uint64_t *counter) // under the lock
{
    struct neighbours *n = &l->neighbours;
    for (unsigned i = 0; i < t->n_waiting; i++)
        buffers_free(&l->buffers, UINT32_MAX, t->waiting[i]);
    n->n_waiting -= t->n_waiting;
    fetch_add_relaxed(counter, t->n_waiting);
    t->n_waiting = 0;
}

void neighbours_destroy(struct linux_platform *l)
{
    struct neighbours *n = &l->neighbours;
    for (uint32_t i = 0; i < NEIGHBOURS_CHUNKS; i++)
        free(n->chunks[i]); // waiting packets go with their pool
    if (n->netlink.socket)
        netlink_close(&n->netlink);
    pthread_mutex_destroy(&n->lock);
}

void neighbours_open(void *ctx, uint32_t tunnel, const struct ip_addr *node)
{
    struct linux_platform *l = ctx;
    struct neighbours *n = &l->neighbours;
    uint32_t chunk = tunnel / NEIGHBOURS_CHUNK;
    if (chunk >= NEIGHBOURS_CHUNKS) {
        linux_event(l, "tunnel-limit", 0, "tunnel number %u is too large", tunnel);
        return;
    }
    if (!load_acquire(&n->chunks[chunk])) {
        struct tunnel *fresh = calloc(NEIGHBOURS_CHUNK, sizeof(*fresh));
        if (!fresh)
            return; // stays closed: packets are dropped as NEXT_HOP_FAILED
        store_release(&n->chunks[chunk], fresh);
    }
    struct tunnel *t = tunnel_at(n, tunnel);
    pthread_mutex_lock(&n->lock);
    if (hop_state(load_relaxed(&t->hop)) == HOP_CLOSED || !ip_equal(&t->node, node)) {
        discard_waiting(l, t, &n->dropped_failed);
        t->node = *node;
        t->next_hop = *node;
        store_relaxed(&t->lookup, 1);
        store_release(&t->hop, (uint64_t)HOP_PENDING << 48);
    }
    pthread_mutex_unlock(&n->lock);
    if (tunnel >= load_relaxed(&n->end))
        store_release(&n->end, tunnel + 1);
    linux_wake(l->monitor_wake);
}

void neighbours_close(void *ctx, uint32_t tunnel)
{
    struct linux_platform *l = ctx;
    struct tunnel *t = tunnel_at(&l->neighbours, tunnel);
    if (!t)
        return;
    pthread_mutex_lock(&l->neighbours.lock);
    store_release(&t->hop, (uint64_t)HOP_CLOSED << 48);
    discard_waiting(l, t, &l->neighbours.dropped_failed);
    pthread_mutex_unlock(&l->neighbours.lock);
}

uint64_t neighbours_hop(struct linux_platform *l, uint32_t tunnel)
{
    struct tunnel *t = tunnel_at(&l->neighbours, tunnel);
    if (!t)
        return (uint64_t)HOP_CLOSED << 48;
    uint64_t hop = load_acquire(&t->hop);
    if (!load_relaxed(&t->used))
        store_relaxed(&t->used, 1);
    return hop;
}

// Packets that wait are held in small buffers where they fit: large ones are few.
static struct packet *compact(struct linux_platform *l, unsigned worker, struct packet *p)
{
    if (buffers_class(p->len) != BUFFER_CLASS_SMALL || ((struct buffer *)p)->class == BUFFER_CLASS_SMALL)
        return p;
    struct packet *copy = buffers_clone(&l->buffers, worker, p);
    if (!copy)
        return p;
    buffers_free(&l->buffers, worker, p);
    return copy;
}

static void wait_one(struct linux_platform *l, unsigned worker, struct tunnel *t, struct packet *p)
{
    struct neighbours *n = &l->neighbours;
    bool full = t->n_waiting == NEIGHBOURS_WAITING;
    if (!full && n->n_waiting == NEIGHBOURS_WAITING_ALL) {
        buffers_free(&l->buffers, worker, p);
        fetch_add_relaxed(&n->dropped_pending, 1);
        return;
    }
    if (full) {
        buffers_free(&l->buffers, worker, t->waiting[0]);
        memmove(t->waiting, t->waiting + 1, sizeof(t->waiting[0]) * --t->n_waiting);
        n->n_waiting--;
        fetch_add_relaxed(&n->dropped_pending, 1);
    }
    t->waiting[t->n_waiting++] = compact(l, worker, p);
    n->n_waiting++;
}

bool neighbours_wait(struct linux_platform *l, unsigned worker, uint32_t tunnel, struct packet **packets, unsigned n)
{
    struct tunnel *t = tunnel_at(&l->neighbours, tunnel);
    if (!t)
        return false;
    pthread_mutex_lock(&l->neighbours.lock);
    bool pending = hop_state(load_relaxed(&t->hop)) == HOP_PENDING;
    for (unsigned i = 0; pending && i < n; i++)
        wait_one(l, worker, t, packets[i]);
    pthread_mutex_unlock(&l->neighbours.lock);
    return pending;
}

// ---- Lookups: monitor thread

static int route_answer(const struct nlmsghdr *h, void *data)
{
    struct lookup *r = data;
    const struct rtmsg *rt = mnl_nlmsg_get_payload(h);
    const struct nlattr *a;
    r->found = h->nlmsg_type == RTM_NEWROUTE && rt->rtm_type == RTN_UNICAST;
    r->local = rt->rtm_type == RTN_LOCAL;
    mnl_attr_for_each(a, h, sizeof(*rt))
    {
        if (mnl_attr_get_type(a) == RTA_GATEWAY && mnl_attr_get_payload_len(a) == 16)
            r->next_hop = ip_from_v6(mnl_attr_get_payload(a));
        if (mnl_attr_get_type(a) == RTA_OIF && mnl_attr_get_payload_len(a) == 4)
            r->ifindex = (int)mnl_attr_get_u32(a);
    }
    return MNL_CB_OK;
}

// The next hop on the underlay's interface, if the kernel has a route there.
static bool find_route(struct linux_platform *l, const struct ip_addr *node, struct lookup *r)
{
    for (int with_oif = 0; with_oif < 2; with_oif++) {
        char buffer[NETLINK_REQUEST_BYTES];
        struct nlmsghdr *h = netlink_message(buffer, RTM_GETROUTE, 0, sizeof(struct rtmsg));
        struct rtmsg *rt = mnl_nlmsg_get_payload(h);
        rt->rtm_family = AF_INET6;
        rt->rtm_dst_len = 128;
        mnl_attr_put(h, RTA_DST, 16, node->b);
        if (with_oif)
            mnl_attr_put_u32(h, RTA_OIF, (uint32_t)l->underlay_ifindex);
        *r = (struct lookup){.next_hop = *node};
        int rc = netlink_request(&l->neighbours.netlink, h, route_answer, r);
        if (rc == 0 && r->found && r->ifindex == l->underlay_ifindex)
            return true;
    }
    return false;
}

static bool read_neighbour(const struct nlmsghdr *h, int ifindex, struct lookup *r)
{
    const struct ndmsg *nd = mnl_nlmsg_get_payload(h);
    const struct nlattr *a;
    if (mnl_nlmsg_get_payload_len(h) < sizeof(*nd) || nd->ndm_family != AF_INET6 || nd->ndm_ifindex != ifindex)
        return false;
    r->nud = nd->ndm_state;
    mnl_attr_for_each(a, h, sizeof(*nd))
    {
        if (mnl_attr_get_type(a) == NDA_DST && mnl_attr_get_payload_len(a) == 16) {
            r->next_hop = ip_from_v6(mnl_attr_get_payload(a));
            r->found = true;
        }
        if (mnl_attr_get_type(a) == NDA_LLADDR && mnl_attr_get_payload_len(a) == 6)
            memcpy(&r->mac, mnl_attr_get_payload(a), 6);
    }
    return r->found;
}

struct neighbour_query {
    int ifindex;
    struct lookup *result;
};

static int neighbour_answer(const struct nlmsghdr *h, void *data)
{
    struct neighbour_query *q = data;
    read_neighbour(h, q->ifindex, q->result);
    return MNL_CB_OK;
}

static bool find_neighbour(struct linux_platform *l, const struct ip_addr *next_hop, struct lookup *r)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_GETNEIGH, 0, sizeof(struct ndmsg));
    struct ndmsg *nd = mnl_nlmsg_get_payload(h);
    nd->ndm_family = AF_INET6;
    nd->ndm_ifindex = l->underlay_ifindex;
    mnl_attr_put(h, NDA_DST, 16, next_hop->b);
    *r = (struct lookup){.found = false};
    struct neighbour_query q = {l->underlay_ifindex, r};
    return netlink_request(&l->neighbours.netlink, h, neighbour_answer, &q) == 0 && r->found;
}

// Makes the kernel resolve or confirm the neighbour, as if it had sent a packet itself.
static void provoke(struct linux_platform *l, const struct ip_addr *next_hop)
{
    char buffer[NETLINK_REQUEST_BYTES];
    struct nlmsghdr *h = netlink_message(buffer, RTM_NEWNEIGH, NLM_F_CREATE, sizeof(struct ndmsg));
    struct ndmsg *nd = mnl_nlmsg_get_payload(h);
    nd->ndm_family = AF_INET6;
    nd->ndm_ifindex = l->underlay_ifindex;
    nd->ndm_flags = NTF_USE;
    mnl_attr_put(h, NDA_DST, 16, next_hop->b);
    netlink_request(&l->neighbours.netlink, h, NULL, NULL); // a refusal shows as a hop that stays pending
}

static void set_failed(struct linux_platform *l, struct tunnel *t)
{
    pthread_mutex_lock(&l->neighbours.lock);
    if (hop_state(load_relaxed(&t->hop)) != HOP_CLOSED) {
        store_release(&t->hop, (uint64_t)HOP_FAILED << 48);
        discard_waiting(l, t, &l->neighbours.dropped_failed);
    }
    pthread_mutex_unlock(&l->neighbours.lock);
}

// What waited goes first: the hop becomes ready for the workers when nothing waits any more.
static void set_ready(struct linux_platform *l, struct tunnel *t, uint64_t mac)
{
    struct neighbours *n = &l->neighbours;
    struct packet *batch[NEIGHBOURS_WAITING];
    for (;;) {
        pthread_mutex_lock(&n->lock);
        unsigned count = t->n_waiting;
        memcpy(batch, t->waiting, sizeof(batch[0]) * count);
        t->n_waiting = 0;
        n->n_waiting -= count;
        if (count == 0 && hop_state(load_relaxed(&t->hop)) != HOP_CLOSED)
            store_release(&t->hop, (uint64_t)HOP_READY << 48 | mac);
        pthread_mutex_unlock(&n->lock);
        if (count == 0)
            return;
        enum drop why = DROP_NONE;
        unsigned sent = underlay_send(l, l->config.workers, mac, batch, count, &why);
        fetch_add_relaxed(&n->dropped_failed, count - sent);
    }
}

static void apply(struct linux_platform *l, struct tunnel *t, const struct lookup *r)
{
    if (r->nud & NUD_USABLE)
        set_ready(l, t, r->mac);
    else if (r->nud & NUD_FAILED)
        set_failed(l, t);
}

static void look_up(struct linux_platform *l, struct tunnel *t, uint64_t now)
{
    struct lookup r;
    pthread_mutex_lock(&l->neighbours.lock);
    struct ip_addr node = t->node;
    pthread_mutex_unlock(&l->neighbours.lock);
    t->looked_at = now;
    if (!find_route(l, &node, &r)) {
        set_failed(l, t);
        return;
    }
    struct ip_addr next_hop = r.next_hop;
    pthread_mutex_lock(&l->neighbours.lock);
    if (ip_equal(&t->node, &node))
        t->next_hop = next_hop;
    pthread_mutex_unlock(&l->neighbours.lock);
    bool known = find_neighbour(l, &next_hop, &r);
    if (known && r.nud & NUD_USABLE)
        set_ready(l, t, r.mac);
    if (!known || r.nud & (NUD_STALE | NUD_FAILED))
        provoke(l, &next_hop); // a ready hop stays so: its address is good until we hear otherwise
}

static bool leads_to(struct neighbours *n, struct tunnel *t, const struct ip_addr *next_hop)
{
    pthread_mutex_lock(&n->lock);
    bool yes = ip_equal(&t->next_hop, next_hop);
    pthread_mutex_unlock(&n->lock);
    return yes;
}

void neighbours_notice(struct linux_platform *l, const struct nlmsghdr *h)
{
    struct neighbours *n = &l->neighbours;
    if (h->nlmsg_type == RTM_NEWROUTE || h->nlmsg_type == RTM_DELROUTE) {
        store_relaxed(&n->lookup_all, 1);
        return;
    }
    struct lookup r = {.found = false};
    if ((h->nlmsg_type != RTM_NEWNEIGH && h->nlmsg_type != RTM_DELNEIGH) || !read_neighbour(h, l->underlay_ifindex, &r))
        return;
    uint32_t end = load_acquire(&n->end);
    for (uint32_t i = 0; i < end; i++) {
        struct tunnel *t = tunnel_at(n, i);
        if (!t || hop_state(load_relaxed(&t->hop)) == HOP_CLOSED || !leads_to(n, t, &r.next_hop))
            continue;
        if (h->nlmsg_type == RTM_DELNEIGH)
            store_relaxed(&t->lookup, 1); // collected as unused: the address is good until we hear otherwise
        else
            apply(l, t, &r);
    }
}

static bool is_due(struct tunnel *t, bool all, uint64_t now)
{
    uint64_t age = now - t->looked_at;
    switch (hop_state(load_acquire(&t->hop))) {
    case HOP_CLOSED:
        return false;
    case HOP_PENDING:
        return all || load_relaxed(&t->lookup) || age > SECOND;
    case HOP_FAILED:
        return all || load_relaxed(&t->lookup) || (load_relaxed(&t->used) && age > SECOND);
    case HOP_READY:
        return all || load_relaxed(&t->lookup) || (load_relaxed(&t->used) && age > REFRESH);
    }
    return false;
}

void neighbours_work(struct linux_platform *l, uint64_t now)
{
    struct neighbours *n = &l->neighbours;
    bool all = __atomic_exchange_n(&n->lookup_all, 0, __ATOMIC_RELAXED);
    uint32_t end = load_acquire(&n->end);
    for (uint32_t i = 0; i < end; i++) {
        struct tunnel *t = tunnel_at(n, i);
        if (!t || !is_due(t, all, now))
            continue;
        store_relaxed(&t->lookup, 0);
        store_relaxed(&t->used, 0);
        look_up(l, t, now);
    }
}
