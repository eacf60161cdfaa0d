// SPDX-License-Identifier: MPL-2.0
// text.h: text forms of the scalars, both ways. Parsers take a whole NUL-terminated string, nothing before or
// after, and leave *out alone when they fail. Formatters need the size given and always terminate.
#ifndef NEREUS_API_JSON_TEXT_H
#define NEREUS_API_JSON_TEXT_H

#include "api/types/types.h"

#define UUID_TEXT 37
#define MAC_TEXT 18
#define IP_TEXT 46
#define PREFIX_TEXT 50
#define PORTS_TEXT 12
#define PROTOCOL_TEXT 8
#define TCP_FLAGS_TEXT 9

bool uuid_from_text(const char *s, struct uuid *out); // either case
void uuid_to_text(const struct uuid *u, char out[UUID_TEXT]);

bool mac_from_text(const char *s, struct mac_addr *out); // six pairs with colons, either case
void mac_to_text(const struct mac_addr *m, char out[MAC_TEXT]);

// Dotted IPv4 or RFC 4291 IPv6; v4-mapped IPv6 text is refused, because it would pass for IPv4. Out: RFC 5952.
bool ip_from_text(const char *s, struct ip_addr *out);
void ip_to_text(const struct ip_addr *a, char out[IP_TEXT]);

enum prefix_text { PREFIX_TEXT_OK, PREFIX_TEXT_MALFORMED, PREFIX_TEXT_HOST_BITS };
// On HOST_BITS *out holds the prefix with those bits cleared.
enum prefix_text prefix_from_text(const char *s, struct ip_prefix *out);
void prefix_to_text(const struct ip_prefix *p, char out[PREFIX_TEXT]);
bool prefix_is_v4(const struct ip_prefix *p);

bool ports_from_text(const char *s, struct port_range *out); // "22", "80-90"
void ports_to_text(const struct port_range *r, char out[PORTS_TEXT]);

bool protocol_from_text(const char *s, uint16_t *out); // name, or 0..255 in digits
void protocol_to_text(uint16_t protocol, char out[PROTOCOL_TEXT]);
const char *protocol_name(uint16_t protocol); // NULL when it has none here

bool tcp_flags_from_text(const char *s, uint8_t *out); // letters of FSRPAUEC
void tcp_flags_to_text(uint8_t flags, char out[TCP_FLAGS_TEXT]);

// Hex digits, an even number of them, either case. `n` is strlen(s) / 2.
bool bytes_from_hex(const char *s, uint8_t *out, size_t n);
void bytes_to_hex(const uint8_t *b, size_t n, char *out); // 2n + 1 characters

#endif
