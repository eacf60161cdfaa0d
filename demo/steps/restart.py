# SPDX-License-Identifier: MPL-2.0
from world import INTERNET, SNAT

TITLE = "trace, flow list, and a nereusd that is killed and comes back with its policy and its connections"

INBOUND = ("router", "firewall", "posture", "gateway")


def run(world, report):
    a = world.nodes["a"]
    world.guest(world.db).serve("acme-prod-db-only", 7000)
    explain(world, report)
    db_talk, snat_talk = connections(world, report)
    code, flows = a.cli("flow", "list", "--port", world.web.id)
    report.check("nereus flow list: exit code", 0, code)
    live = [line for line in flows.splitlines() if "established" in line]
    report.note("\n".join(flows.splitlines()[:1] + live))
    for wanted in (f"{world.db.ip4}", f"{INTERNET}", f"{SNAT}"):
        report.check(f"an established connection with {wanted} in it", True, any(wanted in line for line in live))
    before = policy(a)
    connections_before = a.api.port(world.web.id)["connections"]
    a.kill()
    report.note(f"node A's nereusd was killed with SIGKILL, {connections_before} connections of web live")
    a.start()
    after = policy(a)
    report.check("node A's generations, hashes, mappings and external mappings after it, from disk",
                 f"the same {len(before)}", f"{len(after)}, {len(before ^ after)} differ", ok=before and before == after)
    health = a.api.get("/v1/health")
    report.check("connections adopted", "2 or more", health["adopted"], ok=health["adopted"] >= 2)
    report.check("web's connection to db, allowed by its outbound default only", "acme-prod-db: after",
                 db_talk and db_talk.ask("after", 10))
    report.check("web's connection to the internet through SNAT", "internet: after",
                 snat_talk and snat_talk.ask("after", 10))
    report.check("new connections as before: web to db", "acme-prod-db",
                 (world.guest(world.web).greeting(world.db.ip4, 5432) or [None])[0])
    report.check("and still none to a port without a rule", None,
                 world.guest(world.web).connect(world.db.ip4, 9999, timeout=1.5))


def explain(world, report):
    c = world.node_of(world.db)
    for port, verdict in ((5432, "delivered"), (9999, "dropped")):
        packet = {"src": world.web.ip4, "dst": world.db.ip4, "proto": "tcp", "sport": 50000, "dport": port,
                  "flags": "S"}
        answer = c.api.post("/v1/trace", {"port": world.db.id, "dir": "in", "packet": packet})
        question = ["trace", "--port", "db", "--in", "--src", world.web.ip4, "--proto", "tcp", "--sport", 50000,
                    "--dport", port, "--flags", "S"]
        code, text = c.cli(*question)
        report.note("$ nereus " + " ".join(map(str, question)))
        report.note(text)
        report.check("nereus trace: exit code", 0, code)
        layers = [step["layer"] for step in answer["steps"]]
        report.check(f"trace of a SYN from web to db:{port}: verdict", verdict, answer["verdict"])
        rule = "postgres" if port == 5432 else "default-in"
        said = next((step["detail"] for step in answer["steps"] if step["layer"] == "firewall"), None)
        report.check("trace names the firewall's rule", rule, said, ok=said and rule in said)
        if port == 5432:
            report.check("the layers from router to gateway said something", "router firewall posture gateway",
                         " ".join(layers), ok=[l for l in layers if l in INBOUND] == list(INBOUND))
        else:
            report.check("the last layer that said something", "firewall", layers[-1] if layers else None)


def connections(world, report):
    web = world.guest(world.web)
    db_talk, snat_talk = web.connect(world.db.ip4, 5432), web.connect(INTERNET, 8080)
    report.check("web to db", "acme-prod-db: before", db_talk and db_talk.line() and db_talk.ask("before"))
    report.check("web to the internet", "internet: before", snat_talk and snat_talk.line() and snat_talk.ask("before"))
    return db_talk, snat_talk


def policy(node):
    """What a person would compare: each port's generation and hash, and every mapping."""
    ports = {(b["port"], b["generation"], b["hash"]) for b in node.api.items("/v1/blueprints")}
    mappings = {(m["vni"], m["ip"], m["node"], m["epoch"], m["state"]) for m in node.api.items("/v1/mappings")}
    outside = {(m["address"], m["ports"], m["node"], m["epoch"]) for m in node.api.items("/v1/external-mappings")}
    return ports | mappings | outside
