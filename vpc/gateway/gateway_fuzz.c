// SPDX-License-Identifier: MPL-2.0
// The input is a frame: two bytes of options and packet metadata in front.
#include "vpc/gateway/fuzz_gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    struct packet out, err, rst;
    enum gateway_verdict verdict;
    enum drop reason, reason_in;
    bool has_err, has_rst;
};

static struct packet lend(const uint8_t *data, size_t size, uint8_t fill)
{
    uint32_t len = (uint32_t)size - 2, head = data[0] & 0x10 ? MIN(len, 256) : len;
    struct packet p = fuzz_packet(data + 2, len, head, fill);
    p.csum = data[0] & 0x20 ? CSUM_VERIFIED : data[0] & 0x40 ? CSUM_PARTIAL : CSUM_FULL;
    p.csum_start = data[1];
    p.csum_offset = data[1] & 1 ? 16 : 2;
    return p;
}

static void run(const struct gateway *g, const uint8_t *data, size_t size, uint8_t fill, struct outcome *o)
{
    struct parsed pp;
    struct gateway_note note;
    memset(o, 0, sizeof(*o));
    o->out = lend(data, size, fill);
    o->err = lend(data, size, fill);
    o->rst = lend(data, size, fill);
    o->reason = parse_frame(&o->out, &pp);
    if (o->reason)
        return;
    gateway_in(g, &o->out, &pp, &o->reason_in);
    o->verdict = gateway_out(g, &o->out, &pp, &o->reason, &note);
    const struct blueprint_gateway *gw = &g->b->gateway;
    const struct ip_addr *from = pp.ip_version == 4 ? &gw->v4 : &gw->v6;
    o->has_err = icmp_make_error(&o->err, &pp, data[1] % 4, g->b->vpc.mtu, from, &gw->mac, &pp.src_mac);
    o->has_rst = tcp_make_reset(&o->rst, &pp, &gw->mac, &pp.src_mac);
    if (o->verdict == GATEWAY_ANSWER)
        fuzz_check_answer(&o->out);
    if (o->has_err)
        fuzz_check_answer(&o->err);
    if (o->has_rst)
        fuzz_check_answer(&o->rst);
}

static void end(struct outcome *o)
{
    free(o->out.driver);
    free(o->err.driver);
    free(o->rst.driver);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct blueprint b;
    struct gateway g;
    struct outcome a, twin;
    if (size < 2 || size > 4096)
        return 0;
    fuzz_world(&b, &g, data[0]);
    run(&g, data, size, 0, &a);
    run(&g, data, size, 0xff, &twin);
    if (a.verdict != twin.verdict || a.reason != twin.reason || a.reason_in != twin.reason_in ||
        a.has_err != twin.has_err || a.has_rst != twin.has_rst)
        abort();
    fuzz_check_same(&a.out, &twin.out);
    fuzz_check_same(&a.err, &twin.err);
    fuzz_check_same(&a.rst, &twin.rst);
    end(&a);
    end(&twin);
    return 0;
}
