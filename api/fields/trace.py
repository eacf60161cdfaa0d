# SPDX-License-Identifier: MPL-2.0
"""Trace request: a packet to explain, whole or described."""

from schema import *
from fields.blueprint import DIRECTION

TRACE_DIRECTION = Enum("blueprint_direction", "", DIRECTION.words[:2])

PACKET = struct(
    "trace_packet", "A packet in words.",
    Field("src", ip(), OPTIONAL, "absent: out, the port's own address of the family; in, refused"),
    Field("dst", ip()),
    Field("proto", protocol, doc="0..255"),
    Field("sport", u16(), 0),
    Field("dport", u16(), 0),
    Field("flags", tcp_flags, "S", "TCP flags, by their letters FSRPAUEC"),
    Field("icmp_type", u8(), OPTIONAL, "absent: echo request"),
    Field("length", u32(0, 65535), OPTIONAL, "of the IP packet; absent: the headers alone"),
    check="check_trace_packet")

REQUEST = struct(
    "trace_request", "POST /v1/trace",
    Field("port", uuid),
    Field("dir", choice(TRACE_DIRECTION), doc="BLUEPRINT_IN or BLUEPRINT_OUT"),
    Field("from", ip(6, "UNICAST"), OPTIONAL, "dir in: underlay address of the sending node; absent: any of the VPC"),
    Field("frame", bytes_hex(9216, 14), ZERO, "Ethernet frame in hex", one_of=True),
    Field("packet", object_of(PACKET), OPTIONAL, one_of=True),
    check="check_trace")

HEADER = Header(
    "api/types/trace.h",
    "Trace request: a packet to explain, whole or described.",
    [PACKET, REQUEST],
    resources={"trace_request": REQUEST})
