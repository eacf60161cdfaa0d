# SPDX-License-Identifier: MPL-2.0
TITLE = "rival's web and db talk at the same time with the same 5-tuple, and nothing crosses"

SOURCE_PORT, ROUNDS = 40000, 50


def run(world, report):
    lab = world.lab
    world.guest(world.rdb).serve("rival-prod-db", 5432)
    captures = {port: lab.capture(world.guest(port).namespace, "eth0") for port in world.ports}
    talks = {}
    for client, server in ((world.web, world.db), (world.rweb, world.rdb)):
        talks[client] = world.guest(client).connect(server.ip4, 5432, source_port=SOURCE_PORT)
        greeting = talks[client] and talks[client].line()
        report.check(f"{client.vpc.name}: 10.0.0.3:{SOURCE_PORT} to 10.0.0.4:5432 is greeted by",
                     f"{client.vpc.name}-db 10.0.0.3 {SOURCE_PORT}", greeting)
    right = {client: 0 for client in talks}
    for number in range(ROUNDS):
        for client, talk in talks.items():
            text = f"secret-of-{client.vpc.name}-{number}"
            right[client] += bool(talk) and talk.ask(text, 2) == f"{client.vpc.name}-db: {text}"
    for client, count in right.items():
        report.check(f"{client.vpc.name}: questions answered by its own db", ROUNDS, count)
    for node in (world.nodes["a"], world.nodes["b"]):
        same = [flow for flow in node.api.items("/v1/flows")
                if flow["protocol"] == "tcp" and SOURCE_PORT in (flow["out"].get("sport"), flow["out"].get("dport"))]
        report.check(f"node {node.letter}: connections with that 5-tuple, one a VPC", 2, len({f["port"] for f in same}))
    for talk in talks.values():
        if talk:
            talk.close()
    for port, capture in captures.items():
        capture.stop()
        other = b"secret-of-rival" if port.vpc is world.web.vpc else b"secret-of-acme"
        own = b"secret-of-acme" if port.vpc is world.web.vpc else b"secret-of-rival"
        report.check(f"frames at {port.vpc.name} {port.name} with its own secrets", "many",
                     len(capture.seen(lambda frame: own in frame)), ok=len(capture.seen(lambda f: own in f)) >= ROUNDS)
        report.check(f"frames at {port.vpc.name} {port.name} with the other's secrets", 0,
                     len(capture.seen(lambda frame: other in frame)))
