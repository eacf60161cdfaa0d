// SPDX-License-Identifier: MPL-2.0
// nereus: finds the command in the table, reads its options, runs it.
#include "cli/command.h"

#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#define OPTION_BASE 256 // getopt's values: below, the letter of a global option; above, an index of the command's

static void print_name(const struct cli *c)
{
    fprintf(stderr, "nereus");
    if (c->command)
        fprintf(stderr, " %s%s%s", c->command->noun, *c->command->verb ? " " : "", c->command->verb);
    fprintf(stderr, ": ");
    if (c->subject)
        fprintf(stderr, "%s: ", c->subject);
}

int cli_usage(const struct cli *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_name(c);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nTry 'nereus%s%s%s%s --help'.\n", c->command ? " " : "", c->command ? c->command->noun : "",
            c->command && *c->command->verb ? " " : "", c->command ? c->command->verb : "");
    return CLI_USAGE;
}

int cli_refuse(const struct cli *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_name(c);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    return CLI_REFUSED;
}

const char *cli_option(const struct cli *c, const char *name)
{
    for (unsigned i = 0; c->command->options[i].name; i++) {
        if (strcmp(c->command->options[i].name, name) == 0)
            return c->values[i];
    }
    abort(); // the table lacks the option that its command asks for
}

bool cli_number(const struct cli *c, const char *option, unsigned long long max, unsigned long long *out, bool *given)
{
    const char *text = cli_option(c, option);
    *given = text;
    if (!text)
        return true;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *out <= max)
        return true;
    cli_usage(c, "--%s must be a number from 0 to %llu, not '%s'", option, max, text);
    return false;
}

static bool set_global(struct cli *c, int letter, bool *help)
{
    switch (letter) {
    case 'o':
        c->json = strcmp(optarg, "json") == 0;
        if (c->json || strcmp(optarg, "table") == 0)
            return true;
        cli_usage(c, "--output is json or table, not '%s'", optarg);
        return false;
    case 's':
        c->socket = optarg;
        return true;
    case 'h':
        *help = true;
        return true;
    default:
        return false;
    }
}

static void add_options(const struct option_spec *specs, bool global, struct option *longs, char *shorts)
{
    for (unsigned i = 0; specs && specs[i].name; i++) {
        while (longs->name)
            longs++;
        int value = global ? specs[i].letter : OPTION_BASE + (int)i;
        *longs = (struct option){specs[i].name, specs[i].value ? required_argument : no_argument, NULL, value};
        if (specs[i].letter)
            sprintf(shorts + strlen(shorts), "%c%s", specs[i].letter, specs[i].value ? ":" : "");
    }
}

static int command_option(const struct command *command, int letter)
{
    for (unsigned i = 0; command && command->options && command->options[i].name; i++) {
        if (command->options[i].letter == letter)
            return (int)i;
    }
    return -1;
}

// Reads options up to the first word (no command yet) or everywhere (command known). 0, or an exit code + 1.
static int read_options(struct cli *c, int argc, char **argv, bool *help)
{
    struct option longs[CLI_OPTIONS_MAX + 8] = {0};
    char shorts[64] = "";
    if (!c->command)
        strcpy(shorts, "+"); // up to the first word
    add_options(global_options, true, longs, shorts);
    if (c->command)
        add_options(c->command->options, false, longs, shorts);
    optind = 0; // glibc: starts afresh
    for (int value; (value = getopt_long(argc, argv, shorts, longs, NULL)) != -1;) {
        int own = value >= OPTION_BASE ? value - OPTION_BASE : command_option(c->command, value);
        if (value == 'V') {
            printf("nereus %s\n", NEREUS_VERSION);
            return CLI_OK + 1;
        }
        if (value == '?') {
            fprintf(stderr, "Try 'nereus --help'.\n");
            return CLI_USAGE + 1;
        }
        if (own >= 0)
            c->values[own] = optarg ? optarg : "";
        else if (!set_global(c, value, help))
            return CLI_USAGE + 1;
    }
    return 0;
}

static int unknown_word(const struct cli *c, const struct noun *noun, const char *word)
{
    fprintf(stderr, "nereus: no command '%s%s%s'; there are:", noun ? noun->name : "", noun ? " " : "", word);
    if (!noun) {
        for (unsigned i = 0; i < n_nouns; i++)
            fprintf(stderr, " %s", nouns[i].name);
    }
    for (unsigned i = 0; noun && i < n_commands; i++) {
        if (strcmp(commands[i].noun, noun->name) == 0)
            fprintf(stderr, " %s", commands[i].verb);
    }
    fprintf(stderr, "\n");
    return CLI_USAGE;
}

static int run_command(struct cli *c, int argc, char **argv)
{
    bool help = false;
    int done = read_options(c, argc, argv, &help);
    if (done)
        return done - 1;
    if (help) {
        help_command(c->command);
        return CLI_OK;
    }
    c->args = argv + optind;
    c->n_args = (unsigned)(argc - optind);
    if (c->n_args < c->command->min_args)
        return cli_usage(c, "needs %s", c->command->arguments);
    if (c->n_args > c->command->max_args)
        return cli_usage(c, "does not take '%s'", c->args[c->command->max_args]);
    return c->command->run(c);
}

static int run(struct cli *c, int argc, char **argv)
{
    bool help = false;
    int done = read_options(c, argc, argv, &help);
    if (done)
        return done - 1;
    if (optind >= argc) {
        help_main();
        return help ? CLI_OK : CLI_USAGE;
    }
    const struct noun *noun = noun_find(argv[optind]);
    if (!noun)
        return unknown_word(c, NULL, argv[optind]);
    argc -= optind;
    argv += optind; // argv[0] is the noun
    c->command = command_find(noun->name, "");
    if (!c->command) { // options may stand between noun and verb
        done = read_options(c, argc, argv, &help);
        if (done)
            return done - 1;
        if (optind >= argc) {
            help_noun(noun);
            return help ? CLI_OK : CLI_USAGE;
        }
        c->command = command_find(noun->name, argv[optind]);
        if (!c->command)
            return unknown_word(c, noun, argv[optind]);
        argc -= optind;
        argv += optind;
    }
    if (help) {
        help_command(c->command);
        return CLI_OK;
    }
    static char name[] = "nereus"; // for getopt's complaints
    argv[0] = name;
    return run_command(c, argc, argv);
}

int main(int argc, char **argv)
{
    setlocale(LC_ALL, "");
    struct cli c = {.socket = getenv("NEREUS_SOCKET")};
    if (!c.socket || !*c.socket)
        c.socket = "/run/nereus/nereusd.sock";
    curl_global_init(CURL_GLOBAL_NOTHING); // no TLS on a UNIX socket, and a faster start
    int code = run(&c, argc, argv);
    curl_global_cleanup();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "nereus: cannot write the output: %s\n", strerror(errno));
        return code ? code : CLI_REFUSED;
    }
    return code;
}
