// SPDX-License-Identifier: MPL-2.0
// command.h: one table of commands drives dispatch, help and shell completion (commands.c).
#ifndef NEREUS_CLI_COMMAND_H
#define NEREUS_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum cli_exit { CLI_OK = 0, CLI_REFUSED = 1, CLI_USAGE = 2, CLI_UNREACHABLE = 3 };

struct option_spec { // an array of them ends with a NULL name
    const char *name;
    char letter;       // 0 = none
    const char *value; // what to call its value; NULL: a flag
    const char *help;
};

enum argument_kind { ARGUMENT_OTHER, ARGUMENT_PORT, ARGUMENT_FILE }; // for completion

struct cli;

struct command {
    const char *noun, *verb; // verb "": the noun alone is the command
    const char *arguments;   // as usage shows them
    unsigned min_args, max_args;
    enum argument_kind completes;
    const struct option_spec *options; // NULL = none
    int (*run)(struct cli *c);         // an enum cli_exit
    const char *summary;               // one sentence without a full stop
    const char *details;               // more sentences, or NULL
    const char *examples;              // one a line, without "nereus"
};

struct noun {
    const char *name, *summary;
};

extern const struct noun nouns[];
extern const struct command commands[];
extern const struct option_spec global_options[];
extern const unsigned n_nouns, n_commands;

#define CLI_OPTIONS_MAX 16

struct cli { // one invocation
    const struct command *command;
    char **args;
    unsigned n_args;
    const char *values[CLI_OPTIONS_MAX]; // of command->options; "" for a flag that is given
    const char *socket;
    bool json;
    const char *subject; // what errors are about besides the command (a file), or NULL
};

const struct noun *noun_find(const char *name);
const struct command *command_find(const char *noun, const char *verb);

// The option's value, NULL when it is not given. The command's options must have it.
const char *cli_option(const struct cli *c, const char *name);
int cli_usage(const struct cli *c, const char *format, ...) __attribute__((format(printf, 2, 3)));  // CLI_USAGE
int cli_refuse(const struct cli *c, const char *format, ...) __attribute__((format(printf, 2, 3))); // CLI_REFUSED
// The option as a number from 0 to max; false after a complaint. *given says whether it is there.
bool cli_number(const struct cli *c, const char *option, unsigned long long max, unsigned long long *out, bool *given);

void help_main(void);
void help_noun(const struct noun *noun);
void help_command(const struct command *command);

int port_list(struct cli *c);
int port_show(struct cli *c);
int port_act(struct cli *c); // pause, resume, reset
int port_rules(struct cli *c);
int port_meters(struct cli *c);
int blueprint_list(struct cli *c);
int blueprint_show(struct cli *c);
int blueprint_apply(struct cli *c); // and check
int blueprint_delete(struct cli *c);
int mapping_list(struct cli *c);
int mapping_set(struct cli *c);
int mapping_apply(struct cli *c);
int mapping_delete(struct cli *c);
int address_set_list(struct cli *c);
int address_set_apply(struct cli *c);
int address_set_delete(struct cli *c);
int external_mapping_list(struct cli *c);
int external_mapping_apply(struct cli *c);
int edge_set_list(struct cli *c);
int edge_set_apply(struct cli *c);
int event_list(struct cli *c);
int flow_list(struct cli *c);
int trace_packet(struct cli *c);
int stats_show(struct cli *c);
int capture_write(struct cli *c);
int node_health(struct cli *c);
int node_version(struct cli *c);
int check_machine(struct cli *c);
int completion_bash(struct cli *c);
int completion_ports(struct cli *c);

#endif
