// SPDX-License-Identifier: MPL-2.0
#include "node/config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/flow_log.h"
#include "node/state_file.h"

const char options_usage[] = "usage: nereusd [options]\n"
                             "  -c, --config FILE      configuration (" CONFIG_PATH ")\n"
                             "  -s, --socket PATH      UNIX socket of the API\n"
                             "      --run-dir DIR      what outlives the process\n"
                             "      --state-dir DIR    what outlives the machine's restart\n"
                             "  -l, --log-level LEVEL  debug, info, warn or error (info)\n"
                             "      --check            check the configuration and exit\n"
                             "  -V, --version          print the version and exit\n"
                             "  -h, --help             print this and exit\n";

bool options_parse(struct options *o, int argc, char **argv, char *error, size_t size)
{
    enum { RUN_DIR = 256, STATE_DIR, CHECK };
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},
        {"socket", required_argument, NULL, 's'},
        {"run-dir", required_argument, NULL, RUN_DIR},
        {"state-dir", required_argument, NULL, STATE_DIR},
        {"log-level", required_argument, NULL, 'l'},
        {"check", no_argument, NULL, CHECK},
        {"version", no_argument, NULL, 'V'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *o = (struct options){.config = CONFIG_PATH, .log_level = LOG_INFO};
    optind = 1;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":c:s:l:Vh", options, NULL)) != -1;) {
        int level;
        switch (c) {
        case 'c':
            o->config = optarg;
            break;
        case 's':
            o->socket = optarg;
            break;
        case RUN_DIR:
            o->run_dir = optarg;
            break;
        case STATE_DIR:
            o->state_dir = optarg;
            break;
        case CHECK:
            o->check = true;
            break;
        case 'V':
            o->version = true;
            break;
        case 'h':
            o->help = true;
            break;
        case 'l':
            level = log_level_parse(optarg);
            if (level < 0) {
                snprintf(error, size, "%s is no log level: debug, info, warn, error", optarg);
                return false;
            }
            o->log_level = (enum log_level)level;
            break;
        case ':':
            snprintf(error, size, "%s needs a value", argv[optind - 1]);
            return false;
        default:
            snprintf(error, size, "%s is no option", argv[optind - 1]);
            return false;
        }
    }
    if (optind < argc) {
        snprintf(error, size, "%s: no arguments are expected", argv[optind]);
        return false;
    }
    return true;
}

bool config_load(const struct options *o, struct nereusd_config *config, struct api_document **document, char *error,
                 size_t size)
{
    char *text;
    size_t len;
    enum state_result why;
    struct api_error_list errors;
    *document = NULL;
    if (!state_read_whole(AT_FDCWD, o->config, &text, &len, &why)) {
        snprintf(error, size, "%s: %s", o->config, strerror(errno));
        return false;
    }
    *document = api_load(API_CONFIG, text, len, &errors);
    free(text);
    if (!*document) {
        snprintf(error, size, "%s: %s %s", o->config, errors.e[0].pointer, errors.e[0].detail);
        return false;
    }
    *config = *(*document)->config;
    config->socket = o->socket ? o->socket : config->socket;
    config->run_dir = o->run_dir ? o->run_dir : config->run_dir;
    config->state_dir = o->state_dir ? o->state_dir : config->state_dir;
    return true;
}

void config_node(const struct nereusd_config *config, struct node_external_link *links, struct node_config *out)
{
    node_config_default(out);
    out->underlay = config->underlay.address;
    out->underlay_mtu = config->underlay.mtu;
    out->workers = config->workers;
    out->max_ports = config->limits.ports + 1; // index 0 is no port
    out->max_connections = config->limits.connections;
    out->max_mappings = config->limits.mappings;
    out->keep_state = true;
    out->timeouts = config->timeouts;
    out->flow_log_records = config->has_flow_log ? FLOW_LOG_RECORDS : 0;
    out->flow_log_all = config->has_flow_log && config->flow_log.all;
    for (uint32_t i = 0; i < config->n_external; i++) {
        const struct config_external *e = &config->external[i];
        links[i].prefix4 = e->prefix4;
        links[i].prefix6 = e->prefix6;
        links[i].gateway4 = e->gateway4;
        links[i].gateway6 = e->gateway6;
    }
    out->external = links;
    out->n_external = config->n_external;
}
