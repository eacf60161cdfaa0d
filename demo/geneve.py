# SPDX-License-Identifier: MPL-2.0
"""Reading captures of the underlay, by tshark."""

import subprocess

OVERHEAD = 70
FIELDS = ("frame.len", "ipv6.src", "ipv6.dst", "udp.srcport", "udp.dstport", "geneve.vni", "geneve.proto_type",
          "ip.len", "tcp.srcport", "tcp.dstport")


def decode(pcap, display_filter="geneve"):
    """One dict a frame, each field a list: outermost first."""
    command = ["tshark", "-n", "-r", str(pcap), "-Y", display_filter, "-T", "fields",
               "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,"]
    for field in FIELDS:
        command += ["-e", field]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"tshark: {done.stderr.strip()}")
    return [{name: [v for v in value.split(",") if v] for name, value in zip(FIELDS, line.split("|"))}
            for line in done.stdout.splitlines()]


def describe(pcap, display_filter, limit=1):
    """What tshark says of the first matching frame, in its own words."""
    done = subprocess.run(["tshark", "-n", "-r", str(pcap), "-Y", display_filter, "-c", "2000", "-V"], text=True,
                          capture_output=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    return lines[:limit]


def inner_length(frame):
    """The length of the inner Ethernet frame by its own IPv4 header."""
    return 14 + int(frame["ip.len"][0])


def is_geneve(frame):
    """Raw check on a captured Ethernet frame: IPv6, UDP, to 6081."""
    return len(frame) >= 62 and frame[12:14] == b"\x86\xdd" and frame[20] == 17 and frame[56:58] == b"\x17\xc1"


def is_port_unreachable(frame):
    return len(frame) >= 62 and frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54:56] == b"\x01\x04"
