# SPDX-License-Identifier: MPL-2.0
"""What a node answers: read only, so no C type is made from these; OpenAPI and the reference are."""

from schema import *
from fields.blueprint import RULE_DIRECTION
from fields.mapping import EXTERNAL_MAPPING, MAPPING, EDGE_SET, ADDRESS_SET

count = integer(64, format="int64")
text = string(255)
instant = Type("INT", schema={"type": "integer", "format": "int64"})


def answer(name, doc, *fields):
    return struct(name, doc, *fields, emit=False)


def page(name, doc, item):
    return answer(name, doc,
                  Field("items", listed(object_of(item))),
                  Field("next", text, OPTIONAL, "page_token of the next page; absent on the last"))


def both(name, doc, item):
    """One per direction."""
    return answer(name, doc, Field("out", item), Field("in", item))


ERROR = answer("problem_error", "One fault of a document.",
               Field("pointer", text, doc="JSON pointer (RFC 6901) of the field"),
               Field("code", text, doc="for programs"),
               Field("detail", text, doc="for people"))

PROBLEM = answer("problem", "RFC 9457 problem document.",
                 Field("type", text), Field("title", text), Field("status", u16(400, 599)),
                 Field("detail", text, ""),
                 Field("errors", listed(object_of(ERROR), 32), []))

HEALTH = answer("health", "How the node is.",
                Field("status", text), Field("version", text), Field("node", text), Field("uptime_s", count),
                Field("ports", count), Field("connections", count), Field("mappings", count),
                Field("adopted", count, doc="connections taken over from the former process"))

VERSION = answer("version", "What the node speaks.",
                 Field("version", text), Field("api", u32()), Field("schema", u32()),
                 Field("capabilities", listed(text)))

APPLIED = answer("applied", "A blueprint was accepted.",
                 Field("port", uuid), Field("generation", u64()), Field("hash", hash256),
                 Field("applied_at", instant, doc="Unix seconds"),
                 Field("changed", boolean, doc="false: it was in force already"))

SUMMARY = answer("blueprint_summary", "A blueprint in a list.",
                 Field("port", uuid), Field("name", text), Field("generation", u64()), Field("hash", hash256))

DROPS = Type("MAP", schema={"type": "object", "additionalProperties": {"type": "integer", "format": "int64"},
                            "description": "count by drop reason"})

COUNTERS = answer("counters", "Packets of one direction. received = sent + answered + consumed + sum of drops.",
                  Field("received", count), Field("received_bytes", count), Field("sent", count),
                  Field("sent_bytes", count),
                  Field("answered", count, doc="ended in a local reply"),
                  Field("consumed", count, doc="taken by a local service"),
                  Field("generated", count, doc="made here; outside the sum"),
                  Field("hits", count), Field("misses", count), Field("drops", DROPS))

PORT_COUNTERS = both("port_counters", "out: from the guest; in: to the guest.", object_of(COUNTERS))

PORT = answer("port_status", "A port as it is.",
              Field("id", uuid), Field("name", text), Field("index", u32()), Field("vpc", uuid), Field("vni", u32()),
              Field("mac", mac), Field("addresses", listed(ip())),
              Field("device", Type("MAP", schema={"type": "object", "additionalProperties": True})),
              Field("generation", u64()), Field("hash", hash256), Field("applied_at", instant, doc="Unix seconds"),
              Field("paused", boolean), Field("attached", boolean),
              Field("device_error", text, doc="why it is not attached; empty: nothing is wrong"),
              Field("connections", u32()), Field("connections_max", u32()),
              Field("counters", object_of(PORT_COUNTERS)))

RULE = answer("rule_counter", "How often a rule decided.",
              Field("id", text, doc="default-in and default-out among them"), Field("layer", text),
              Field("dir", choice(RULE_DIRECTION)), Field("action", text), Field("hits", count))

RULES = answer("rule_counters", "Rules in force.", Field("items", listed(object_of(RULE))))

AMOUNT = both("amount", "Counts by direction.", count)

METER = answer("meter", "What a port's connections of one class carried: bytes of inner frames.",
               Field("class", u32(1)), Field("packets", object_of(AMOUNT)), Field("bytes", object_of(AMOUNT)))

METERS = answer("meters", "Meter classes of a port.", Field("items", listed(object_of(METER))))

OUTCOME = answer("mappings_applied", "What became of a list of mappings.",
                 Field("applied", u32()), Field("unchanged", u32()),
                 Field("stale", u32(), doc="of a lower epoch: not taken"))

TUPLE = answer("flow_tuple", "One direction's addresses.",
               Field("src", ip()), Field("sport", u16()), Field("dst", ip()), Field("dport", u16()))

FLOW = answer("flow", "A connection.",
              Field("id", u32()), Field("port", uuid), Field("protocol", text),
              Field("out", object_of(TUPLE), OPTIONAL), Field("in", object_of(TUPLE), OPTIONAL),
              Field("opener", choice(RULE_DIRECTION)), Field("state", text), Field("class", text), Field("nat", text),
              Field("rule", text, doc="id of the rule that let it in"),
              Field("packets", object_of(AMOUNT)), Field("bytes", object_of(AMOUNT)),
              Field("age_ms", u32()), Field("idle_ms", u32()), Field("timeout_s", u32()),
              Field("to", text, "", "where it goes"))

STEP = answer("trace_step", "What one layer said.", Field("layer", text), Field("result", text), Field("detail", text))

TRACE = answer("trace", "What would become of the packet.",
               Field("verdict", text), Field("reason", text, "", "drop reason"),
               Field("hit", boolean, doc="an existing connection decided"),
               Field("steps", listed(object_of(STEP))),
               Field("transposition", Type("MAP", schema={"type": "object", "additionalProperties": True}), OPTIONAL),
               Field("to", text, ""))

NODE_COUNTERS = answer(
    "node_counters", "The node's own counters, and the sum over ports.",
    Field("node", Type("MAP", schema={"type": "object", "additionalProperties": True})),
    Field("ports", object_of(PORT_COUNTERS)))

REASON = answer("drop_reason", "Why packets are dropped.", Field("name", text), Field("help", text))
REASONS = answer("drop_reasons", "All of them.", Field("items", listed(object_of(REASON))))

EVENT = answer("event", "Something an operator should hear about.",
               Field("id", count, doc="ascending, without gaps"), Field("time_ms", instant, doc="Unix milliseconds"),
               Field("kind", text), Field("port", text, doc="empty: the node's own"), Field("name", text),
               Field("count", count, doc="how often since the last event of this kind and port"), Field("text", text))

EVENTS = page("event_page", "Events.", EVENT)
BLUEPRINTS = page("blueprint_page", "Blueprints.", SUMMARY)
PORTS = page("port_page", "Ports.", PORT)
FLOWS = page("flow_page", "Connections.", FLOW)
MAPPINGS = page("mapping_page", "Mappings.", MAPPING)
EXTERNAL_MAPPINGS = page("external_mapping_page", "External mappings.", EXTERNAL_MAPPING)
EDGE_SETS = page("edge_set_page", "Edge sets.", EDGE_SET)
ADDRESS_SETS = page("address_set_page", "Address sets.", ADDRESS_SET)
