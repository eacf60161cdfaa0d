// SPDX-License-Identifier: MPL-2.0
#include "cli/document.h"
#include "cli/output.h"
#include "cli/resolve.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

// ---- The question

// Hex digits of a frame, which may be spaced as in dumps. False: not whole bytes of hex.
static bool clean_hex(const char *text, char **hex)
{
    size_t n = 0;
    *hex = malloc(strlen(text) + 1);
    for (; *hex && *text; text++) {
        if (isspace((unsigned char)*text) || *text == ':')
            continue;
        if (!isxdigit((unsigned char)*text))
            return false;
        (*hex)[n++] = *text;
    }
    if (*hex)
        (*hex)[n] = '\0';
    return *hex && n && n % 2 == 0;
}

static int add_frame(const struct cli *c, json_t *question)
{
    static const char *const others[] = {"src", "dst", "proto", "sport", "dport", "flags", "icmp-type", "length"};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (cli_option(c, others[i]))
            return cli_usage(c, "--frame is the whole packet: --%s does not go with it", others[i]);
    }
    char *hex;
    bool good = clean_hex(cli_option(c, "frame"), &hex);
    if (good)
        json_object_set_new(question, "frame", json_string(hex));
    free(hex);
    return good ? CLI_OK : cli_usage(c, "--frame must be hex digits, two for each byte");
}

static int add_packet(const struct cli *c, json_t *question)
{
    static const char *const texts[] = {"src", "dst", "proto", "flags"};
    static const struct {
        const char *option, *member;
        unsigned long long max;
    } numbers[] = {{"sport", "sport", 65535},
                   {"dport", "dport", 65535},
                   {"icmp-type", "icmp_type", 255},
                   {"length", "length", 65535}};
    json_t *packet = json_object();
    json_object_set_new(question, "packet", packet);
    for (unsigned i = 0; i < 4; i++) {
        if (cli_option(c, texts[i]))
            json_object_set_new(packet, texts[i], json_string(cli_option(c, texts[i])));
    }
    for (unsigned i = 0; i < 4; i++) {
        unsigned long long value;
        bool given;
        if (!cli_number(c, numbers[i].option, numbers[i].max, &value, &given))
            return CLI_USAGE;
        if (given)
            json_object_set_new(packet, numbers[i].member, json_integer((json_int_t)value));
    }
    const char *needed = cli_option(c, "in") ? "src" : "dst";
    if (!cli_option(c, needed))
        return cli_usage(c, "needs --%s, or --frame", needed);
    return cli_option(c, "proto") ? CLI_OK : cli_usage(c, "needs --proto, or --frame");
}

// A packet to the guest without --dst: to the port's first address of the source's family.
static int add_destination(const struct cli *c, json_t *question, const char *id)
{
    json_t *packet = json_object_get(question, "packet");
    struct answer a;
    if (!packet || json_object_get(packet, "dst"))
        return CLI_OK;
    int code = client_get(c, client_path("/v1/ports/%s", id), &a);
    if (code != CLI_OK)
        return code;
    bool v6 = strchr(cli_option(c, "src"), ':');
    size_t i;
    const json_t *address;
    json_array_foreach(json_object_get(a.json, "addresses"), i, address)
    {
        bool fits = json_is_string(address) && (strchr(json_string_value(address), ':') != NULL) == v6;
        if (fits && !json_object_get(packet, "dst"))
            json_object_set(packet, "dst", (json_t *)address);
    }
    answer_free(&a);
    return json_object_get(packet, "dst") ? CLI_OK : cli_usage(c, "the port has no address of that family: give --dst");
}

// As if the file's blueprint were in force: its port is the one asked about.
static int add_blueprint(struct cli *c, json_t *question)
{
    const char *file = cli_option(c, "blueprint");
    char *text = NULL;
    size_t length;
    json_t *blueprint = NULL;
    if (!file)
        return CLI_OK;
    int code = document_read(c, file, &text, &length, &blueprint);
    free(text);
    if (code == CLI_OK && !json_is_object(blueprint))
        code = cli_refuse(c, "%s does not hold one blueprint", file);
    if (code == CLI_OK)
        json_object_set(question, "blueprint", blueprint);
    json_decref(blueprint);
    return code;
}

static int ask_flow(struct cli *c, json_t *question)
{
    static const char *const others[] = {"port",  "from",  "frame", "src",       "dst",   "proto",
                                         "sport", "dport", "flags", "icmp-type", "length"};
    unsigned long long id;
    bool given;
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (cli_option(c, others[i]))
            return cli_usage(c, "--flow is the whole question: --%s does not go with it", others[i]);
    }
    if (!cli_number(c, "flow", UINT32_MAX, &id, &given))
        return CLI_USAGE;
    if (cli_option(c, "in") && cli_option(c, "out"))
        return cli_usage(c, "takes either --out or --in");
    if (cli_option(c, "in") || cli_option(c, "out"))
        json_object_set_new(question, "dir", json_string(cli_option(c, "in") ? "in" : "out"));
    json_object_set_new(question, "flow", json_integer((json_int_t)id));
    return add_blueprint(c, question);
}

static int ask(struct cli *c, json_t *question)
{
    bool in = cli_option(c, "in"), staged = cli_option(c, "blueprint");
    if (cli_option(c, "flow"))
        return ask_flow(c, question);
    if (!cli_option(c, "port") && !staged)
        return cli_usage(c, "needs --port");
    if (cli_option(c, "port") && staged)
        return cli_usage(c, "--blueprint names the port: --port does not go with it");
    if (in == (cli_option(c, "out") != NULL))
        return cli_usage(c, "needs either --out or --in");
    if (cli_option(c, "from") && !in)
        return cli_usage(c, "--from goes with --in");
    if (staged && in && !cli_option(c, "frame") && !cli_option(c, "dst"))
        return cli_usage(c, "needs --dst, or --frame");
    json_object_set_new(question, "dir", json_string(in ? "in" : "out"));
    if (cli_option(c, "from"))
        json_object_set_new(question, "from", json_string(cli_option(c, "from")));
    int code = cli_option(c, "frame") ? add_frame(c, question) : add_packet(c, question);
    char id[UUID_TEXT];
    if (code == CLI_OK && staged)
        return add_blueprint(c, question);
    if (code == CLI_OK)
        code = resolve_port_option(c, id);
    if (code != CLI_OK)
        return code;
    json_object_set_new(question, "port", json_string(id));
    return add_destination(c, question, id);
}

// ---- The answer

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void print_steps(const json_t *steps)
{
    size_t i;
    const json_t *step;
    json_array_foreach(steps, i, step)
    {
        const char *detail = text_at(step, "detail");
        printf("  %-12s %s%*s", text_at(step, "layer"), text_at(step, "result"),
               *detail ? MAX(9 - (int)strlen(text_at(step, "result")), 1) : 0, "");
        output_safe(stdout, detail);
        putchar('\n');
    }
}

static void print_verdict(const json_t *trace)
{
    const char *reason = text_at(trace, "reason"), *to = text_at(trace, "to"), *node = text_at(trace, "node");
    printf("verdict: ");
    output_safe(stdout, text_at(trace, "verdict"));
    if (*reason && strcmp(reason, "none") != 0)
        printf(" (%s)", reason);
    if (*to && strcmp(to, "nowhere") != 0) {
        printf(", to ");
        output_safe(stdout, to);
    }
    if (*node)
        printf(", node %s", node);
    putchar('\n');
}

static bool says_something(const char *name, const json_t *value)
{
    if (strcmp(name, "to") == 0 || json_is_null(value) || json_is_false(value)) // "to" is in the verdict
        return false;
    return !(json_is_array(value) && !json_array_size(value)) && !(json_is_object(value) && !json_object_size(value));
}

static void print_transposition(json_t *transposition)
{
    struct column fields[24];
    size_t n = 0;
    const char *name;
    json_t *value;
    json_object_foreach(transposition, name, value)
    {
        if (says_something(name, value) && n < sizeof(fields) / sizeof(fields[0]))
            fields[n++] = (struct column){name, name, COLUMN_TEXT, NULL};
    }
    if (n)
        printf("rewritten:\n");
    output_fields(transposition, fields, n);
}

static void print_trace(const struct cli *c, const json_t *trace)
{
    const char *hit = json_is_true(json_object_get(trace, "hit")) ? ", by a connection that exists" : "";
    if (cli_option(c, "flow"))
        printf("connection %s%s\n", cli_option(c, "flow"), hit);
    else
        printf("%s port %s%s\n", cli_option(c, "in") ? "to" : "from",
               cli_option(c, "port") ? cli_option(c, "port") : "as it would be", hit);
    print_steps(json_object_get(trace, "steps"));
    print_verdict(trace);
    print_transposition(json_object_get(trace, "transposition"));
}

int trace_packet(struct cli *c)
{
    json_t *question = json_object();
    struct answer a = {0};
    int code = ask(c, question);
    if (code == CLI_OK) {
        char *text = json_dumps(question, JSON_COMPACT);
        code = client_send(c, "POST", client_path("/v1/trace"), text, strlen(text), &a);
        free(text);
    }
    if (code == CLI_OK && c->json)
        output_json(&a);
    else if (code == CLI_OK)
        print_trace(c, a.json);
    answer_free(&a);
    json_decref(question);
    return code;
}
