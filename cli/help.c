// SPDX-License-Identifier: MPL-2.0
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

static void print_options(const char *title, const struct option_spec *options)
{
    if (!options)
        return;
    printf("\n%s:\n", title);
    for (const struct option_spec *o = options; o->name; o++) {
        char left[64], letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
        printf("  %-26s %s\n", left, o->help);
    }
}

static void print_examples(const char *examples)
{
    while (examples && *examples) {
        int length = (int)strcspn(examples, "\n");
        bool pipeline = strncmp(examples, "generate |", 10) == 0; // names the program itself
        printf("  %s%.*s\n", pipeline ? "" : "nereus ", length, examples);
        examples += length;
        examples += *examples == '\n';
    }
}

void help_main(void)
{
    printf("Usage: nereus [OPTION...] COMMAND\n\nThe command line of a Nereus node.\n\nCommands:\n");
    for (unsigned i = 0; i < n_nouns; i++)
        printf("  %-18s %s\n", nouns[i].name, nouns[i].summary);
    print_options("Options", global_options);
    printf(
        "\nExit codes: 0 done, 1 the node refused or something is missing, 2 wrong usage, 3 the node does not answer.\n"
        "\nExamples:\n");
    print_examples("port list\nblueprint apply web.json\ntrace --port web --out --dst 10.0.0.4 --proto udp --dport 53");
    printf("\n'nereus COMMAND --help' says more.\n");
}

void help_noun(const struct noun *noun)
{
    const struct command *alone = command_find(noun->name, "");
    if (alone) {
        help_command(alone);
        return;
    }
    printf("Usage: nereus %s COMMAND\n\nDeals with %s.\n\nCommands:\n", noun->name, noun->summary);
    const char *examples = NULL;
    for (unsigned i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];
        if (strcmp(c->noun, noun->name) != 0)
            continue;
        char left[64];
        snprintf(left, sizeof(left), "%s %s", c->verb, c->arguments);
        printf("  %-18s %s\n", left, c->summary);
        if (!examples)
            examples = c->examples;
    }
    print_options("Options", global_options);
    printf("\nExamples:\n");
    print_examples(examples);
    printf("\n'nereus %s COMMAND --help' says more.\n", noun->name);
}

void help_command(const struct command *c)
{
    printf("Usage: nereus %s%s%s%s%s%s\n\n%c%s.\n", c->noun, *c->verb ? " " : "", c->verb,
           c->options ? " [OPTION...]" : "", *c->arguments ? " " : "", c->arguments, c->summary[0] - ('a' - 'A'),
           c->summary + 1);
    if (c->details)
        printf("%s\n", c->details);
    print_options("Options", c->options);
    print_options("Global options", global_options);
    printf("\nExamples:\n");
    print_examples(c->examples);
}
