# SPDX-License-Identifier: MPL-2.0
from blueprints import external_mapping
from world import FLOATING, INTERNET, INTERNET6, SNAT, SNAT6

TITLE = "node A is the edge: SNAT from both nodes, a floating IP from outside and from web itself"


def run(world, report):
    web, db, edge = world.guest(world.web), world.guest(world.db), world.nodes["a"]
    world.internet.serve("internet", 8080)
    web.serve("acme-prod-web", 80)
    for guest, ports in ((web, range(1024, 3072)), (db, range(3072, 5120))):
        way = "directly" if guest is web else "from node B through the edge"
        for address, source in ((INTERNET, SNAT), (INTERNET6, SNAT6)):
            seen = guest.greeting(address, 8080)
            report.check(f"{guest.name} reaches the internet {way}; {address} sees",
                         f"{source}, port {ports[0]} to {ports[-1]}", seen and " ".join(seen[1:]),
                         ok=seen and seen[1] == source and int(seen[2]) in ports)
        report.check(f"{guest.name} pings {INTERNET}", 2, guest.ping(INTERNET, count=2))
    report.check(f"the internet connects to the shared {SNAT}:80 without a connection", None,
                 world.internet.connect(SNAT, 80, timeout=1.5))
    floating_ip(world, report, web, edge)


def floating_ip(world, report, web, edge):
    owner = external_mapping(FLOATING, "0-65535", edge.address, world.web)
    edge.api.post("/v1/external-mappings", {"items": [owner]})
    world.web.floating = [{"external": FLOATING, "internal": world.web.ip4}]
    edge.api.put_blueprint(world.web.next())
    report.note(f"web now has the floating IP {FLOATING}")
    seen = world.internet.greeting(FLOATING, 80)
    report.check(f"the internet connects to {FLOATING}:80, web's server sees", f"acme-prod-web {INTERNET}",
                 seen and " ".join(seen[:2]))
    report.check(f"the internet pings {FLOATING}", 2, world.internet.ping(FLOATING, count=2))
    seen = web.greeting(INTERNET, 8080)
    report.check("web's new connections leave as", FLOATING, seen and seen[1])
    seen = web.greeting(FLOATING, 80)
    report.check(f"web connects to its own {FLOATING}:80 and reaches its own server", "acme-prod-web",
                 seen and seen[0])
    report.check("no rule, no entry: the internet connects to the floating IP's port 22", None,
                 world.internet.connect(FLOATING, 22, timeout=1.5))
    world.web.floating = []
    edge.api.put_blueprint(world.web.next())
    edge.api.post("/v1/external-mappings", {"items": [{**owner, "epoch": 2, "state": "tombstone"}]})
    seen = web.greeting(INTERNET, 8080)
    report.check("without the floating IP web leaves by the NAT gateway again as", SNAT, seen and seen[1])
