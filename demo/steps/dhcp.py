# SPDX-License-Identifier: MPL-2.0
import re

from blueprints import GATEWAY_LINK_LOCAL
from lab import wait_for

TITLE = "stock DHCP clients configure the guests: address, MTU, routes, DNS; IPv6 by RA and DHCPv6"


def run(world, report):
    for guest in world.guests.values():
        guest.dhcp()
    for port, guest in world.guests.items():
        who = f"{port.vpc.name} {port.name}"
        guest.wait_addresses()
        report.check(f"{who}: addresses", {f"{port.ip4}/32", f"{port.ip6}/128"},
                     world.lab.addresses(guest.namespace, "eth0"))
        report.check(f"{who}: MTU", world.vpc_mtu, guest.mtu())
    web = world.guest(world.web)
    report.check("web: IPv4 routes", {("10.0.0.1", "link"), ("default", "10.0.0.1")}, web.routes(4))
    report.check("web: IPv6 default route, by router advertisement", [GATEWAY_LINK_LOCAL],
                 [gateway for destination, gateway in web.routes(6) if destination == "default"])
    report.check("web: DNS by DHCPv4", ["10.0.0.2"], offered(web, "-4", "domain-name-servers"))
    report.check("web: DNS by DHCPv6", ["fd00:10::2"], offered(web, "-6", "dhcp6.name-servers"))
    servers = {"nameserver 10.0.0.2", "nameserver fd00:10::2"}
    resolv_conf = wait_for("resolv.conf", lambda: set(web.resolv_conf.read_text().splitlines()) & servers)
    report.check("web: resolv.conf, written by the last of the two clients", "one of them", sorted(resolv_conf)[0],
                 ok=len(resolv_conf) == 1)


def offered(guest, version, option):
    leases = (guest.directory / f"dhclient{version}.leases").read_text()
    return sorted(set(re.findall(rf"option {re.escape(option)} (.*);", leases)))
