// SPDX-License-Identifier: MPL-2.0
#include "cli/client.h"
#include "cli/resolve.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Query parameters: separator, name, value.
static char *add_parameter(char *path, const char *name, const char *value)
{
    if (!value || !*value)
        return path;
    char *tail = client_path("%s=%s", name, value), *longer;
    if (asprintf(&longer, "%s%c%s", path, strchr(path, '?') ? '&' : '?', tail) < 0)
        longer = NULL;
    free(tail);
    free(path);
    return longer;
}

int capture_write(struct cli *c)
{
    const char *file = cli_option(c, "write");
    unsigned long long number;
    bool given;
    if (!file)
        return cli_usage(c, "needs -w FILE (- is standard output)");
    if (strcmp(file, "-") == 0 && isatty(STDOUT_FILENO))
        return cli_usage(c, "pcapng is not for a terminal: redirect it, or give -w a file");
    if (!cli_number(c, "count", UINT32_MAX, &number, &given) || !cli_number(c, "seconds", 86400, &number, &given))
        return CLI_USAGE;

    char id[UUID_TEXT];
    int code = resolve_port_option(c, id);
    if (code != CLI_OK)
        return code;
    char *path = strdup("/v1/capture");
    path = add_parameter(path, "port", id);
    path = add_parameter(path, "points", cli_option(c, "points"));
    path = add_parameter(path, "filter", cli_option(c, "filter"));
    path = add_parameter(path, "count", cli_option(c, "count"));
    path = add_parameter(path, "seconds", cli_option(c, "seconds"));
    unsigned long long bytes;
    code = client_stream(c, path, file, &bytes);
    if (code == CLI_OK && strcmp(file, "-") != 0)
        fprintf(stderr, "%llu bytes written to %s\n", bytes, file);
    return code;
}
