// SPDX-License-Identifier: MPL-2.0
// completion: a bash script made from the table of commands. Ports are asked of the node when a key is pressed.
#include <string.h>

#include "cli/output.h"

static void print_valued(const struct option_spec *options)
{
    for (; options && options->name; options++) {
        if (!options->value)
            continue;
        printf("|--%s", options->name);
        if (options->letter)
            printf("|-%c", options->letter);
    }
}

static void print_names(const struct option_spec *options)
{
    for (; options && options->name; options++)
        printf("--%s ", options->name);
}

static bool is_first_of_noun(unsigned i)
{
    return i == 0 || strcmp(commands[i].noun, commands[i - 1].noun) != 0;
}

static void print_verbs(unsigned i)
{
    const char *noun = commands[i].noun;
    if (!*commands[i].verb)
        return;
    printf("    %s:) words=\"", noun);
    for (; i < n_commands && strcmp(commands[i].noun, noun) == 0; i++)
        printf("%s ", commands[i].verb);
    printf("\" ;;\n");
}

static void print_command(const struct command *c)
{
    static const char *const kinds[] = {[ARGUMENT_OTHER] = "", [ARGUMENT_PORT] = "port", [ARGUMENT_FILE] = "file"};
    printf("    %s:%s) kind=%s words=\"", c->noun, *c->verb ? c->verb : "*", kinds[c->completes]);
    print_names(c->options);
    printf("\" ;;\n");
}

int completion_bash(struct cli *c)
{
    printf("# bash completion for nereus; made by 'nereus completion bash'\n"
           "_nereus() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local noun= verb= kind= words= globals=\"");
    print_names(global_options);
    printf("\" i\n    COMPREPLY=()\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        case ${COMP_WORDS[i]} in\n        --output");
    print_valued(global_options);
    for (unsigned i = 0; i < n_commands; i++) {
        if (i == 0 || commands[i].options != commands[i - 1].options)
            print_valued(commands[i].options);
    }
    printf(") ((i++)) ;;\n        -*) ;;\n"
           "        *) if [[ -z $noun ]]; then noun=${COMP_WORDS[i]}; elif [[ -z $verb ]]; then verb=${COMP_WORDS[i]}; "
           "fi ;;\n"
           "        esac\n    done\n"
           "    case $noun:$verb in\n    :) words=\"");
    for (unsigned i = 0; i < n_nouns; i++)
        printf("%s ", nouns[i].name);
    printf("\" ;;\n");
    for (unsigned i = 0; i < n_commands; i++) {
        if (is_first_of_noun(i))
            print_verbs(i);
        print_command(&commands[i]);
    }
    printf("    esac\n"
           "    case $prev in\n"
           "    -o|--output) words=\"json table\" kind= globals= ;;\n"
           "    -p|--port) words= kind=port globals= ;;\n"
           "    -s|--socket|-w|--write|--run-dir|--state-dir) words= kind=file globals= ;;\n"
           "    esac\n"
           "    [[ $cur == -* ]] && words+=\" $globals\"\n"
           "    [[ $kind == port && $cur != -* ]] && words+=\" $(nereus completion ports 2>/dev/null)\"\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "    if [[ $kind == file && $cur != -* ]]; then\n"
           "        compopt -o filenames 2>/dev/null\n"
           "        COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
           "    fi\n"
           "}\n"
           "complete -F _nereus nereus\n");
    return CLI_OK;
}

// Words that the shell takes apart or expands are left out: a port's name is its tenant's.
static bool is_plain(const char *word)
{
    return *word && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(word) &&
           *word != '-';
}

int completion_ports(struct cli *c)
{
    struct answer a;
    int code = client_list(c, client_path("/v1/ports"), &a);
    if (code != CLI_OK)
        return code;
    size_t i;
    const json_t *port;
    json_array_foreach(list_items(a.json), i, port)
    {
        const char *name = json_string_value(json_object_get(port, "name"));
        const char *id = json_string_value(json_object_get(port, "id"));
        if (name && is_plain(name))
            printf("%s\n", name);
        else if (id && is_plain(id))
            printf("%s\n", id);
    }
    answer_free(&a);
    return CLI_OK;
}
