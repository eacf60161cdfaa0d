// SPDX-License-Identifier: MPL-2.0
#include "cli/output.h"
#include "cli/resolve.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

static int ask(const struct cli *c, json_t *question)
{
    bool in = cli_option(c, "in");
    if (!cli_option(c, "port"))
        return cli_usage(c, "needs --port");
    if (in == (cli_option(c, "out") != NULL))
        return cli_usage(c, "needs either --out or --in");
    if (cli_option(c, "from") && !in)
        return cli_usage(c, "--from goes with --in");
    json_object_set_new(question, "dir", json_string(in ? "in" : "out"));
    if (cli_option(c, "from"))
        json_object_set_new(question, "from", json_string(cli_option(c, "from")));
    int code = cli_option(c, "frame") ? add_frame(c, question) : add_packet(c, question);
    char id[UUID_TEXT];
    if (code == CLI_OK)
        code = resolve_port_option(c, id);
    if (code == CLI_OK)
        json_object_set_new(question, "port", json_string(id));
    return code;
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
        printf("  %-12s %-8s ", text_at(step, "layer"), text_at(step, "result"));
        output_safe(stdout, text_at(step, "detail"));
        putchar('\n');
    }
}

static void print_transposition(json_t *transposition)
{
    const char *name;
    json_t *value;
    json_object_foreach(transposition, name, value)
    {
        const struct column field = {name, name, COLUMN_TEXT, NULL};
        bool empty = json_is_null(value) || json_is_false(value) || (json_is_array(value) && !json_array_size(value)) ||
                     (json_is_object(value) && !json_object_size(value));
        if (empty)
            continue;
        printf("  ");
        output_fields(transposition, &field, 1);
    }
}

static void print_trace(const struct cli *c, const json_t *trace)
{
    const char *reason = text_at(trace, "reason"), *to = text_at(trace, "to");
    printf("%s port %s%s\n", cli_option(c, "in") ? "to" : "from", cli_option(c, "port"),
           json_is_true(json_object_get(trace, "hit")) ? ", by a connection that exists" : "");
    print_steps(json_object_get(trace, "steps"));
    printf("verdict: ");
    output_safe(stdout, text_at(trace, "verdict"));
    if (*reason && strcmp(reason, "none") != 0)
        printf(" (%s)", reason);
    if (*to) {
        printf(", to ");
        output_safe(stdout, to);
    }
    putchar('\n');
    json_t *transposition = json_object_get(trace, "transposition");
    if (json_object_size(transposition)) {
        printf("transposition:\n");
        print_transposition(transposition);
    }
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
