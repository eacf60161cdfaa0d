# SPDX-License-Identifier: MPL-2.0
"""The node's calls."""

from dataclasses import dataclass

from fields import answers as a
from fields.blueprint import BLUEPRINT
from fields.mapping import ADDRESS_SET, EDGE_SET, EXTERNAL_MAPPING_LIST, MAPPING, MAPPING_LIST
from fields.trace import REQUEST

UUID = {"type": "string", "format": "uuid"}
TEXT = {"type": "string"}
NUMBER = {"type": "integer", "minimum": 0}
PATH_PARAMETERS = {"port": UUID, "id": UUID, "vni": NUMBER, "ip": TEXT, "prefix": TEXT}
PAGE = {"limit": NUMBER, "page_token": TEXT}

JSON, METRICS, PCAP, PLAIN = ("application/json", "application/openmetrics-text", "application/x-pcapng", "text/plain")


@dataclass
class Call:
    method: str
    path: str
    summary: str
    body: object = None  # Struct
    answer: object = None  # Struct; None: no body
    ok: tuple = (200,)
    fails: tuple = ()
    query: tuple = ()  # (name, schema) pairs
    media: str = JSON


def call(method, path, summary, body=None, answer=None, **options):
    options["query"] = tuple(options.get("query", {}).items())
    return Call(method, path, summary, body, answer, **options)


DRY_RUN = {"dry_run": {"type": "integer", "enum": [0, 1]}}

CALLS = [
    call("GET", "/v1/health", "How the node is", answer=a.HEALTH),
    call("GET", "/healthz", "Alive", media=PLAIN, fails=(503,)),
    call("GET", "/readyz", "Ready to apply blueprints", media=PLAIN, fails=(503,)),
    call("GET", "/v1/version", "What the node speaks", answer=a.VERSION),

    call("PUT", "/v1/blueprints/{port}", "Apply a blueprint; makes the port if it is new", BLUEPRINT, a.APPLIED,
         ok=(200, 201), fails=(409, 413, 422), query=DRY_RUN),
    call("GET", "/v1/blueprints/{port}", "The document as accepted", answer=BLUEPRINT, fails=(404,)),
    call("GET", "/v1/blueprints", "All blueprints, in short", answer=a.BLUEPRINTS, query=PAGE),
    call("DELETE", "/v1/blueprints/{port}", "Remove the port", ok=(204,), fails=(404,)),

    call("GET", "/v1/ports", "Status of all ports", answer=a.PORTS, query=PAGE),
    call("GET", "/v1/ports/{port}", "Status of a port", answer=a.PORT, fails=(404,)),
    call("POST", "/v1/ports/{port}/pause", "Stop packets, keep connections", answer=a.PORT, fails=(404,)),
    call("POST", "/v1/ports/{port}/resume", "Let packets pass again", answer=a.PORT, fails=(404,)),
    call("POST", "/v1/ports/{port}/reset", "End all connections of the port", answer=a.PORT, fails=(404,)),
    call("GET", "/v1/ports/{port}/rules", "Decisions by rule", answer=a.RULES, fails=(404,)),
    call("GET", "/v1/ports/{port}/meters", "Packets and bytes by meter class", answer=a.METERS, fails=(404,)),

    call("PUT", "/v1/mappings/{vni}/{ip}", "Set a mapping", MAPPING, MAPPING, fails=(409, 422)),
    call("GET", "/v1/mappings/{vni}/{ip}", "A mapping", answer=MAPPING, fails=(404,)),
    call("POST", "/v1/mappings", "Set mappings, each by its epoch", MAPPING_LIST, a.OUTCOME, fails=(413, 422)),
    call("GET", "/v1/mappings", "All mappings", answer=a.MAPPINGS, query={"vni": NUMBER, **PAGE}),

    call("PUT", "/v1/address-sets/{id}", "Set an address set", ADDRESS_SET, ADDRESS_SET, fails=(409, 413, 422)),
    call("GET", "/v1/address-sets/{id}", "An address set", answer=ADDRESS_SET, fails=(404,)),
    call("GET", "/v1/address-sets", "All address sets", answer=a.ADDRESS_SETS, query=PAGE),
    call("DELETE", "/v1/address-sets/{id}", "Remove an address set that no blueprint uses", ok=(204,),
         fails=(404, 409)),

    call("POST", "/v1/external-mappings", "Set external mappings, each by its epoch", EXTERNAL_MAPPING_LIST, a.OUTCOME,
         fails=(413, 422)),
    call("GET", "/v1/external-mappings", "All external mappings", answer=a.EXTERNAL_MAPPINGS, query=PAGE),
    call("PUT", "/v1/edge-sets/{prefix}", "Set the edges of a prefix, written with _ for /", EDGE_SET, EDGE_SET,
         fails=(409, 422)),
    call("GET", "/v1/edge-sets", "All edge sets", answer=a.EDGE_SETS, query=PAGE),

    call("GET", "/v1/flows", "Connections", answer=a.FLOWS, fails=(404,), query={"port": UUID, **PAGE}),
    call("POST", "/v1/trace", "What would become of a packet; sends and counts nothing", REQUEST, a.TRACE,
         fails=(404, 422)),
    call("GET", "/v1/counters", "Counters of the node", answer=a.NODE_COUNTERS),
    call("GET", "/v1/drop-reasons", "Names and meanings of drop reasons", answer=a.REASONS),
    call("GET", "/v1/events", "The last events; watch: as lines, as they come", answer=a.EVENTS, fails=(404, 503),
         query={"port": UUID, "since": NUMBER, "watch": {"type": "integer", "enum": [0, 1]}, **PAGE}),
    call("GET", "/v1/capture", "Packets as they pass, streamed", media=PCAP, fails=(404, 422, 503),
         query={"port": UUID, "points": TEXT, "count": NUMBER, "seconds": NUMBER, "filter": TEXT}),
    call("GET", "/metrics", "Metrics in OpenMetrics text", media=METRICS),
]
