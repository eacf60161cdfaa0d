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
    Field("port", uuid, OPTIONAL, "not with flow or blueprint, which name it"),
    Field("dir", choice(TRACE_DIRECTION), OPTIONAL, "BLUEPRINT_IN or BLUEPRINT_OUT; absent with flow: as it was opened"),
    Field("from", ip(6, "UNICAST"), OPTIONAL, "dir in: underlay address of the sending node; absent: any of the VPC"),
    Field("frame", bytes_hex(9216, 14), ZERO, "Ethernet frame in hex", one_of=True),
    Field("packet", object_of(PACKET), OPTIONAL, one_of=True),
    Field("flow", u32(1), OPTIONAL, "id of a connection: its next packet", one_of=True),
    Field("blueprint", json_object, OPTIONAL, "as if this blueprint were in force; nothing is applied"),
    check="check_trace")

HEADER = Header(
    "api/types/trace.h",
    "Trace request: a packet to explain, whole or described.",
    [PACKET, REQUEST],
    resources={"trace_request": REQUEST})
