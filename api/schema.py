# SPDX-License-Identifier: MPL-2.0
"""The words field tables are written in. A table says of each field: name, type, default, meaning.

Each type knows three things: its C member, its descriptor for api/json, and its JSON Schema.
"""

from dataclasses import dataclass, field as _field

REQUIRED = object()  # the field must be there
OPTIONAL = object()  # absence is remembered in `has_<name>`, or in `enabled` inside an object
ZERO = object()  # absence is zero bytes
PROTOCOL_ANY = 0xFFFF


@dataclass
class Enum:
    """Words of a string field; the values are 0, 1, ... unless given."""

    name: str
    prefix: str
    words: list  # of Word
    doc: str = ""


@dataclass
class Word:
    text: str
    doc: str = ""
    value: int = None
    c: str = None  # constant's name; made from the text unless given
    supported: bool = True
    in_c: bool = True


def enum(name, prefix, *words, doc="", first=0):
    words = [w if isinstance(w, Word) else Word(w) if isinstance(w, str) else Word(*w) for w in words]
    for number, word in enumerate(words, first):
        word.value = number if word.value is None else word.value
        word.c = word.c or prefix + word.text.upper().replace("-", "_")
    return Enum(name, prefix, words, doc)


@dataclass
class Type:
    kind: str  # API_<KIND>
    c: str = None  # C type of the member; None: an object or list knows better
    size: int = 0
    family: int = 0
    format: str = "ANY"
    min: int = 0
    max: int = 0
    words: Enum = None
    struct: object = None
    item: object = None
    schema: dict = _field(default_factory=dict)


def integer(bits, low=0, high=None, **schema):
    high = (1 << min(bits, 63)) - 1 if high is None else high
    return Type("INT", f"uint{bits}_t", bits // 8, min=low, max=high,
                schema={"type": "integer", "minimum": low, "maximum": high, **schema})


def u8(low=0, high=None):
    return integer(8, low, high)


def u16(low=0, high=None):
    return integer(16, low, high)


def u32(low=0, high=None):
    return integer(32, low, high)


def u64(low=0, high=None):
    return integer(64, low, high, format="int64")


boolean = Type("BOOL", "bool", 1, schema={"type": "boolean"})
uuid = Type("UUID", "struct uuid", 16, schema={"type": "string", "format": "uuid"})
mac = Type("MAC", "struct mac_addr", 6, schema={"type": "string", "pattern": "^([0-9a-f]{2}:){5}[0-9a-f]{2}$"})
unicast_mac = Type("MAC", "struct mac_addr", 6, format="UNICAST", schema=mac.schema)
ports = Type("PORTS", "struct port_range", 4,
             schema={"type": "string", "pattern": "^[0-9]{1,5}(-[0-9]{1,5})?$", "example": "80-90"})
protocol = Type("PROTOCOL", "uint16_t", 2, schema={
    "oneOf": [{"type": "string", "example": "tcp"}, {"type": "integer", "minimum": 0, "maximum": 255}],
    "description": "any, tcp, udp, icmp, icmp6, sctp, esp, gre, ah, or a number 0-255"})
hash256 = Type("HASH", "uint8_t[32]", 32, schema={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"})
json_object = Type("JSON", "const char *", 8, schema={"type": "object", "additionalProperties": True})
mark = Type("MARK", None, 0, schema={"type": "boolean", "enum": [True]})
tcp_flags = Type("TCP_FLAGS", "uint8_t", 1, schema={"type": "string", "pattern": "^[FSRPAUEC]*$", "example": "SA"})


def nullable(low, high):
    """An integer, or null for -1."""
    return Type("NULLABLE", "int32_t", 4, min=low, max=high,
                schema={"type": "integer", "minimum": low, "maximum": high, "nullable": True})


def ip(family=0, form="ANY"):
    """form: UNICAST refuses multicast, broadcast and the unspecified address."""
    return Type("IP", "struct ip_addr", 16, family=family, format=form,
                schema={"type": "string", "format": {0: "ip", 4: "ipv4", 6: "ipv6"}[family]})


def prefix(family=0):
    return Type("PREFIX", "struct ip_prefix", 17, family=family,
                schema={"type": "string", "format": "cidr", "example": {6: "fd00:10::/64"}.get(family, "10.0.0.0/24")})


def string(longest, form="TEXT", shortest=0):
    """form: TEXT (no control characters), WORD (no blanks), IFNAME, DOMAIN, PATH."""
    schema = {"type": "string", "maxLength": longest}
    if shortest:
        schema["minLength"] = shortest
    return Type("STRING", "const char *", 8, format=form, min=shortest, max=longest, schema=schema)


def choice(words):
    return Type("WORD", "uint8_t", 1, words=words,
                schema={"type": "string", "enum": [w.text for w in words.words if w.supported]})


def flag(false_word, true_word):
    """Two words kept as a bool."""
    words = Enum(None, "", [Word(false_word, value=0), Word(true_word, value=1)])
    return Type("WORD", "bool", 1, words=words, schema={"type": "string", "enum": [false_word, true_word]})


def bytes_hex(longest, shortest=1):
    return Type("HEX", "const uint8_t *", 8, min=shortest, max=longest,
                schema={"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"})


def listed(item, longest=65536, shortest=0):
    return Type("LIST", item=item, min=shortest, max=longest)


def object_of(struct):
    return Type("OBJECT", struct=struct)


@dataclass
class Field:
    name: str
    type: Type
    default: object = REQUIRED
    doc: str = ""
    c: str = None  # member's name, the field's own unless given
    store: bool = True  # False: checked, not kept
    when: tuple = ()  # words of the tag with which the field may be there
    need: tuple = ()  # words of the tag with which it must be
    one_of: bool = False  # exactly one of the object's one_of fields is there
    unsupported: str = None  # what asking for more than the default would need; such documents are refused

    @property
    def member(self):
        return self.c or self.name

    @property
    def required(self):
        return self.default is REQUIRED

    @property
    def has(self):
        """Member that remembers whether the field was there, as a path from the struct; None: nothing does."""
        if self.default is not OPTIONAL or not self.store:
            return None
        inner = self.type.struct and self.type.struct.present
        return f"{self.member}.{inner}" if inner else f"has_{self.member}"


@dataclass
class Struct:
    name: str
    doc: str
    fields: list
    tag: str = None  # member that `when` and `need` speak of, or that says which one_of it is
    tag_enum: Enum = None
    present: str = None  # member that says the object was there
    label: str = None  # what errors call it, with its id: rule "r1"
    emit: bool = True  # False: declared by hand elsewhere
    check: str = None  # function for what needs more than one field


def struct(name, doc, *fields, **options):
    return Struct(name, doc, list(fields), **options)


@dataclass
class Header:
    """One file of C types."""

    path: str
    doc: str
    items: list  # Struct and Enum, in order
    includes: tuple = ("api/types/types.h",)
    resources: dict = _field(default_factory=dict)  # enum api_resource word -> Struct
