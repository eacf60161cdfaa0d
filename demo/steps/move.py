# SPDX-License-Identifier: MPL-2.0
TITLE = "db moves to a third node mid-connection; then a security group changes mid-connection"


def run(world, report):
    web = world.guest(world.web)
    postgres, redis = web.connect(world.db.ip4, 5432), web.connect(world.db.ip4, 6379)
    postgres6 = web.connect(world.db.ip6, 5432)
    talks = {"postgres": postgres, "redis": redis, "postgres, IPv6": postgres6}
    for name, talk in talks.items():
        report.check(f"before: {name} answers", "acme-prod-db: before", talk and talk.line() and talk.ask("before"))
    move(world, report)
    for name, talk in talks.items():
        report.check(f"after the move: {name} answers on the same connection", "acme-prod-db: moved",
                     talk and talk.ask("moved", 10))
    b, c = world.nodes["b"], world.nodes["c"]
    report.check("node B no longer has the port", False, world.db.id in {p["id"] for p in b.api.items("/v1/ports")})
    counters = c.api.port(world.db.id)["counters"]
    sent = counters["out"]["sent"], counters["in"]["sent"]
    report.check("node C carries it", "packets both ways", f"{sent[0]} out, {sent[1]} in", ok=all(sent))
    change_group(world, report, talks)


def move(world, report):
    lab, db = world.lab, world.db
    a, b = world.nodes["a"], world.nodes["b"]
    c = world.add_node("c").start()
    world.teach(c)
    lab.ip(b.namespace, "link", "set", db.ifname, "netns", c.namespace)
    lab.ip(c.namespace, "link", "set", db.ifname, "up")
    c.api.put_blueprint(db.next())
    world.home[db] = "c"
    moved = db.mappings(c.address, epoch=2)
    for node in (a, b, c):
        for mapping in moved:
            node.api.put_mapping(mapping)
    a.api.post("/v1/external-mappings", {"items": [{**m, "epoch": 2} for m in world.external_mappings()]})
    b.api.delete(f"/v1/blueprints/{db.id}")
    report.note("node C came up, took the veth and the blueprint; the mappings of db say C since epoch 2")


def change_group(world, report, talks):
    world.db.rules = [rule for rule in world.db.rules if rule["id"] != "redis"]
    world.nodes["c"].api.put_blueprint(world.db.next())
    report.note("db's security group no longer has the rule 'redis'")
    report.check("postgres, still allowed, answers", "acme-prod-db: still here", talks["postgres"] and
                 talks["postgres"].ask("still here"))
    report.check("postgres over IPv6 too", "acme-prod-db: still here", talks["postgres, IPv6"] and
                 talks["postgres, IPv6"].ask("still here"))
    report.check("redis, no longer allowed, answers", None, talks["redis"] and talks["redis"].ask("anyone?", 2))
    drops = world.nodes["c"].api.port(world.db.id)["counters"]["in"]["drops"]
    named = {name: count for name, count in drops.items() if name in ("revalidate-deny", "firewall-deny") and count}
    report.check("its packets end under a named reason", "revalidate-deny", ", ".join(sorted(named)) or None,
                 ok="revalidate-deny" in named)
    for talk in talks.values():
        if talk:
            talk.close()
