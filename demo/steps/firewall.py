# SPDX-License-Identifier: MPL-2.0
TITLE = "web reaches db's server; replies need no inbound rule; a port without a rule is refused and counted"


def run(world, report):
    web, db = world.guest(world.web), world.guest(world.db)
    db.serve("acme-prod-db", 5432, 6379, 9999)
    api = world.node_of(world.db).api
    for address, source in ((world.db.ip4, world.web.ip4), (world.db.ip6, world.web.ip6)):
        before = api.rule_hits(world.db.id)
        talk = web.connect(address, 5432)
        greeting = talk.line() if talk else None
        report.check(f"web connects to [{address}]:5432, the server sees", f"acme-prod-db {source}",
                     greeting and greeting.rsplit(" ", 1)[0])
        report.check("and answers on the same connection", "acme-prod-db: hello", talk and talk.ask("hello"))
        if talk:
            talk.close()
        report.check("decided by rule 'postgres', once more", 1,
                     api.rule_hits(world.db.id)["postgres"] - before["postgres"])
    for address in (world.db.ip4, world.db.ip6):
        before = api.rule_hits(world.db.id)
        report.check(f"web connects to [{address}]:9999, where a server listens but no rule allows", None,
                     web.connect(address, 9999, timeout=1.5))
        refused = api.rule_hits(world.db.id)["default-in"] - before["default-in"]
        report.check("refusals counted at 'default-in', one a SYN", "1 or more", refused, ok=refused >= 1)
    drops = api.port(world.db.id)["counters"]["in"]["drops"]
    report.check("db's port counts drops as firewall-deny", "2 or more", drops.get("firewall-deny", 0),
                 ok=drops.get("firewall-deny", 0) >= 2)
