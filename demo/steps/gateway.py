# SPDX-License-Identifier: MPL-2.0
from blueprints import GATEWAY4, GATEWAY6, GATEWAY_MAC
from geneve import is_geneve

TITLE = "the gateway is answered on the node: ARP, ND, ping; nothing crosses the underlay"


def run(world, report):
    web, lab = world.guest(world.web), world.lab
    # An on-link route makes the guest ask for the gateway's global address too, not only for its link-local one.
    lab.ip(web.namespace, "-6", "route", "add", GATEWAY6, "dev", "eth0")
    lab.ip(web.namespace, "neigh", "flush", "dev", "eth0")
    capture = lab.capture("nrs-fabric", "node-a")
    report.check("ping 10.0.0.1", 3, web.ping(GATEWAY4, count=3))
    report.check("ping fd00:10::1", 3, web.ping(GATEWAY6, count=3))
    report.check("ping 10.0.0.1 with odd and large payload", 1, web.ping(GATEWAY4, size=world.vpc_mtu - 29))
    report.check("ARP says 10.0.0.1 is at", GATEWAY_MAC, web.neighbour(GATEWAY4))
    report.check("ND says fd00:10::1 is at", GATEWAY_MAC, web.neighbour(GATEWAY6))
    capture.stop()
    report.check("Geneve frames on node A's underlay meanwhile", 0, len(capture.seen(is_geneve)))
    lab.ip(web.namespace, "-6", "route", "del", GATEWAY6, "dev", "eth0")
