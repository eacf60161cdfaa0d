# SPDX-License-Identifier: MPL-2.0
"""Mappings and address sets: versioned streams beside the blueprints."""

from schema import *

STATE = enum("mapping_state", "MAPPING_",
             ("active", "send to node"),
             ("moving", "still send to node; the target's frames are accepted"),
             ("tombstone", "no mapping, epoch kept"))

MAPPING = struct(
    "mapping", "Where an inner address is. Key: vni, ip.",
    Field("vni", u32(1, 0xFFFFFD)),
    Field("ip", ip(form="UNICAST")),
    Field("mac", unicast_mac),
    Field("node", ip(6, "UNICAST"), doc="underlay address"),
    Field("epoch", u64(), doc="a lower one is stale"),
    Field("state", choice(STATE), "active"))

EXTERNAL_MAPPING = struct(
    "external_mapping", "Where an edge sends what comes for an external address. Key: address, prefix_len, protocol, ports.",
    Field("address", ip(form="UNICAST")),
    Field("prefix_len", u8(0, 128), 0, "of a prefix that begins at the address; 0: the address alone"),
    Field("protocol", protocol, PROTOCOL_ANY, "0..255 or PROTOCOL_ANY"),
    Field("ports", ports, "0-65535", "0-65535: all"),
    Field("node", ip(6, "UNICAST"), doc="underlay address"),
    Field("port", uuid),
    Field("epoch", u64(), doc="a lower one is stale"),
    Field("state", choice(STATE), "active"),
    check="check_external_mapping")

EDGE_SET = struct(
    "edge_set", "Which edges serve the external addresses of a prefix. Key: prefix.",
    Field("prefix", prefix()),
    Field("nodes", listed(ip(6, "UNICAST"), 64), doc="underlay addresses; a flow sticks to one by rendezvous hash"),
    Field("epoch", u64(), doc="a lower one is stale"),
    check="check_edge_set")

ADDRESS_SET = struct(
    "address_set", "Addresses that rules name together. Key: id.",
    Field("id", uuid),
    Field("generation", u64()),
    Field("cidrs", listed(prefix(), 1 << 20)))

MAPPING_LIST = struct(
    "mapping_list", "Mappings in one call.",
    Field("items", listed(object_of(MAPPING), 1 << 17)))

EXTERNAL_MAPPING_LIST = struct(
    "external_mapping_list", "External mappings in one call.",
    Field("items", listed(object_of(EXTERNAL_MAPPING), 1 << 17)))

HEADER = Header(
    "api/types/mapping.h",
    "Mappings and address sets: versioned streams beside the blueprints.",
    [STATE, MAPPING, EXTERNAL_MAPPING, EDGE_SET, ADDRESS_SET, MAPPING_LIST, EXTERNAL_MAPPING_LIST],
    resources={"mapping": MAPPING, "mapping_list": MAPPING_LIST, "external_mapping": EXTERNAL_MAPPING,
               "external_mapping_list": EXTERNAL_MAPPING_LIST, "edge_set": EDGE_SET, "address_set": ADDRESS_SET})
