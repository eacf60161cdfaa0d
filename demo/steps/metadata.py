# SPDX-License-Identifier: MPL-2.0
from geneve import is_geneve

TITLE = "curl http://169.254.169.254/ returns the port's own metadata, from the node, without a controller"


def run(world, report):
    capture = world.lab.capture("nrs-fabric", "node-a")
    for port in (world.web, world.rweb):
        guest = world.guest(port)
        listing = fetch(guest, "http://169.254.169.254/")
        report.check(f"{port.vpc.name} {port.name}: / lists", "latest", "latest" if "latest" in listing else listing)
        for host in ("169.254.169.254", "[fd00:ec2::254]"):
            report.check(f"{port.vpc.name} {port.name}: instance-id from {host}", port.instance_id,
                         fetch(guest, f"http://{host}/latest/meta-data/instance-id"))
    capture.stop()
    report.check("Geneve frames on the underlay meanwhile", 0, len(capture.seen(is_geneve)))


def fetch(guest, url):
    return guest.run("curl", "-sSg", "--max-time", 5, url, check=False).stdout.strip()
