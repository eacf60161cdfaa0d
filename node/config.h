// SPDX-License-Identifier: MPL-2.0
// config.h: nereusd's configuration file and command line, and what core and driver make of them.
#ifndef NEREUS_NODE_CONFIG_H
#define NEREUS_NODE_CONFIG_H

#include "api/json/json.h"
#include "core/node.h"
#include "node/log.h"

#define CONFIG_PATH "/etc/nereus/nereusd.json"

struct options {
    const char *config, *socket, *run_dir, *state_dir; // NULL: as the file says
    enum log_level log_level;
    bool check, help, version;
};
// False: `error` says which argument is wrong.
bool options_parse(struct options *o, int argc, char **argv, char *error, size_t size);
extern const char options_usage[];

// The file, with the command line over it. `document` keeps the memory. False: `error` names the file and field.
bool config_load(const struct options *o, struct nereusd_config *config, struct api_document **document, char *error,
                 size_t size);
// What the core is told. `links` holds config->n_external entries; their MAC and MTU are the interfaces'.
void config_node(const struct nereusd_config *config, struct node_external_link *links, struct node_config *out);

#endif
