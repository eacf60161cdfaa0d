// SPDX-License-Identifier: MPL-2.0
#include "node/metadata.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/text.h"

// Versions a client may ask for. All show the same tree; cloud-init asks for the dated ones.
static const char *const versions[] = {"1.0", "2009-04-04", "2016-09-02", "2018-09-24", "2021-03-23", "latest"};

#define DEPTH_MAX 16
#define NAME_MAX_LEN 256

static void set(json_t *object, const char *key, const char *value)
{
    if (value && *value)
        json_object_set_new(object, key, json_string(value));
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

// ---- Defaults from the blueprint

// Addresses of a family, one a line; and the first alone.
static void addresses_of(const struct blueprint *b, bool v4, struct blob *all, char first[IP_TEXT])
{
    first[0] = 0;
    for (uint32_t i = 0; i < b->l2.n_addresses; i++) {
        char ip[IP_TEXT];
        if (ip_is_v4(&b->l2.addresses[i]) != v4)
            continue;
        ip_to_text(&b->l2.addresses[i], ip);
        blob_printf(all, "%s%s", all->len ? "\n" : "", ip);
        if (!first[0])
            memcpy(first, ip, IP_TEXT);
    }
}

static void set_text(json_t *object, const char *key, struct blob *t)
{
    set(object, key, t->s);
    blob_free(t);
}

static void set_subnets(json_t *interface, const struct blueprint *b)
{
    struct blob v6 = {0};
    for (uint32_t i = 0; i < b->gateway.n_subnets; i++) {
        char prefix[PREFIX_TEXT];
        prefix_to_text(&b->gateway.subnets[i], prefix);
        if (!ip_is_v4(&b->gateway.subnets[i].addr))
            blob_printf(&v6, "%s%s", v6.len ? "\n" : "", prefix);
        else if (!json_object_get(interface, "subnet-ipv4-cidr-block"))
            set(interface, "subnet-ipv4-cidr-block", prefix);
    }
    set_text(interface, "subnet-ipv6-cidr-blocks", &v6);
}

static void public_address(const struct blueprint *b, char out[IP_TEXT])
{
    out[0] = 0;
    for (uint32_t i = 0; i < b->nat.n_floating && !out[0]; i++)
        if (ip_is_v4(&b->nat.floating[i].external))
            ip_to_text(&b->nat.floating[i].external, out);
}

static json_t *default_interface(const struct blueprint *b, const char *hostname, const char *mac, const char *id)
{
    json_t *interface = json_object();
    struct blob v4 = {0}, v6 = {0};
    char first4[IP_TEXT], first6[IP_TEXT], floating[IP_TEXT], uuid[UUID_TEXT];
    addresses_of(b, true, &v4, first4);
    addresses_of(b, false, &v6, first6);
    public_address(b, floating);
    set(interface, "device-number", "0");
    set(interface, "interface-id", id);
    set(interface, "local-hostname", hostname);
    set_text(interface, "local-ipv4s", &v4);
    set_text(interface, "ipv6s", &v6);
    set(interface, "mac", mac);
    set(interface, "public-ipv4s", floating);
    uuid_to_text(&b->vpc.id, uuid);
    set(interface, "vpc-id", uuid);
    set_subnets(interface, b);
    return interface;
}

static json_t *default_tree(const struct blueprint *b)
{
    json_t *tree = json_object();
    struct blob ignored = {0};
    char uuid[UUID_TEXT], mac[MAC_TEXT], first4[IP_TEXT], first6[IP_TEXT], floating[IP_TEXT];
    uuid_to_text(&b->port, uuid);
    mac_to_text(&b->l2.mac, mac);
    addresses_of(b, true, &ignored, first4);
    addresses_of(b, false, &ignored, first6);
    blob_free(&ignored);
    public_address(b, floating);

    const char *hostname = or_else(b->gateway.dhcp4.hostname, or_else(b->name, uuid));
    set(tree, "instance-id", uuid);
    set(tree, "hostname", hostname);
    set(tree, "local-hostname", hostname);
    set(tree, "local-ipv4", first4);
    set(tree, "ipv6", first6);
    set(tree, "mac", mac);
    set(tree, "public-ipv4", floating);
    json_object_set_new(tree, "placement", json_pack("{ss}", "availability-zone", "default"));
    json_object_set_new(tree, "network",
                        json_pack("{s{s{so}}}", "interfaces", "macs", mac, default_interface(b, hostname, mac, uuid)));
    return tree;
}

// ---- The document over the defaults

// Lays `over` on `under`, object by object. `depth` is bounded: deeper levels replace.
static void overlay(json_t *under, json_t *over, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach(over, key, value)
    {
        json_t *old = json_object_get(under, key);
        if (json_is_null(value))
            json_object_del(under, key);
        else if (json_is_object(old) && json_is_object(value) && depth)
            overlay(old, value, depth - 1);
        else
            json_object_set(under, key, value);
    }
}

// {"name": "ssh-..."}, ["ssh-..."] or {"0": {"openssh-key": "ssh-..."}} -> {"0": {"_name": ..., "openssh-key": ...}}:
// the form in which EC2 shows keys.
static void number_keys(json_t *tree)
{
    json_t *keys = json_object_get(tree, "public-keys");
    json_t *numbered = json_object();
    size_t n = 0;
    char number[24];
    if (json_is_array(keys)) {
        for (; n < json_array_size(keys); n++) {
            snprintf(number, sizeof(number), "%zu", n);
            json_t *key = json_array_get(keys, n);
            json_object_set_new(numbered, number,
                                json_pack("{so,sO}", "_name", json_sprintf("key%zu", n), "openssh-key", key));
        }
    }
    const char *name;
    json_t *key;
    json_object_foreach(keys, name, key)
    {
        json_t *text = json_is_object(key) ? json_object_get(key, "openssh-key") : key;
        if (!json_is_string(text))
            continue;
        snprintf(number, sizeof(number), "%zu", n++);
        bool named = json_is_string(key); // else it has a number for a name already
        json_object_set_new(
            numbered, number,
            json_pack("{so,sO}", "_name", json_sprintf("%s%s", named ? "" : "key", name), "openssh-key", text));
    }
    if (n)
        json_object_set(tree, "public-keys", numbered);
    json_decref(numbered);
}

static const char *string_at(json_t *tree, const char *key, const char *otherwise)
{
    json_t *value = json_object_get(tree, key);
    return json_is_string(value) ? json_string_value(value) : otherwise;
}

static json_t *identity_document(json_t *meta_data)
{
    json_t *placement = json_object_get(meta_data, "placement");
    json_t *document =
        json_pack("{ss,ss,ss,ss,ss,ss}", "version", "2017-09-30", "instanceId", string_at(meta_data, "instance-id", ""),
                  "privateIp", string_at(meta_data, "local-ipv4", ""), "availabilityZone",
                  string_at(placement, "availability-zone", ""), "region", string_at(placement, "region", "default"),
                  "accountId", string_at(meta_data, "account-id", ""));
    char *text = document ? json_dumps(document, JSON_INDENT(2)) : NULL;
    json_t *leaf = text ? json_string(text) : NULL;
    free(text);
    json_decref(document);
    return leaf;
}

// What the document says of meta-data: its "meta-data" member, and whatever stands beside it.
static void overlay_meta_data(json_t *meta_data, json_t *document)
{
    json_t *beside = json_copy(document);
    json_object_del(beside, "meta-data");
    json_object_del(beside, "user-data");
    json_object_del(beside, "dynamic");
    overlay(meta_data, beside, DEPTH_MAX);
    json_decref(beside);
    if (json_is_object(json_object_get(document, "meta-data")))
        overlay(meta_data, json_object_get(document, "meta-data"), DEPTH_MAX);
}

// The whole tree below a version.
static json_t *make_tree(const struct blueprint *b)
{
    json_t *document = json_loads(or_else(b->gateway.metadata.document, "{}"), 0, NULL);
    json_t *root = json_object(), *meta_data = default_tree(b);
    json_t *user_data = json_object_get(document, "user-data");
    if (json_is_object(document))
        overlay_meta_data(meta_data, document);
    number_keys(meta_data);
    json_t *dynamic = json_object();
    json_object_set_new(dynamic, "instance-identity", json_pack("{so}", "document", identity_document(meta_data)));
    if (json_is_object(json_object_get(document, "dynamic")))
        overlay(dynamic, json_object_get(document, "dynamic"), DEPTH_MAX);
    json_object_set_new(root, "dynamic", dynamic);
    json_object_set_new(root, "meta-data", meta_data);
    if (json_is_string(user_data))
        json_object_set(root, "user-data", user_data);
    json_decref(document);
    return root;
}

// ---- Paths

static void show_directory(json_t *object, struct blob *out)
{
    const char *key, *separator = "";
    json_t *value;
    json_object_foreach(object, key, value)
    {
        const char *name = string_at(value, "_name", NULL);
        if (key[0] == '_')
            continue;
        if (name)
            blob_printf(out, "%s%s=%s", separator, key, name);
        else
            blob_printf(out, "%s%s%s", separator, key, json_is_object(value) ? "/" : "");
        separator = "\n";
    }
}

static void show_value(json_t *value, struct blob *out)
{
    if (json_is_string(value)) {
        blob_add(out, json_string_value(value), json_string_length(value));
    } else if (json_is_array(value)) { // a list: one item a line
        size_t i;
        json_t *item;
        json_array_foreach(value, i, item)
        {
            if (i)
                blob_puts(out, "\n");
            if (json_is_string(item))
                blob_puts(out, json_string_value(item));
        }
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        blob_puts(out, text ? text : "");
        free(text);
    }
}

// Next component of the path, skipping slashes. False at the end; *too_long when it cannot be a name.
static bool next_component(const char **path, char *out, bool *too_long)
{
    while (**path == '/')
        (*path)++;
    size_t n = strcspn(*path, "/");
    if (n == 0)
        return false;
    *too_long = n >= NAME_MAX_LEN;
    if (*too_long)
        return false;
    memcpy(out, *path, n);
    out[n] = 0;
    *path += n;
    return true;
}

static bool known_version(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++)
        if (strcmp(versions[i], name) == 0)
            return true;
    return false;
}

static bool show(json_t *root, const char *path, struct blob *out, const char **content_type)
{
    char name[NAME_MAX_LEN], last[NAME_MAX_LEN] = "";
    bool too_long = false;
    json_t *at = root;
    while (next_component(&path, name, &too_long)) {
        at = json_is_object(at) && name[0] != '_' ? json_object_get(at, name) : NULL;
        if (!at)
            return false;
        memcpy(last, name, sizeof(last));
    }
    if (too_long)
        return false;
    if (json_is_object(at)) {
        show_directory(at, out);
        return true;
    }
    if (at == json_object_get(root, "user-data"))
        *content_type = "application/octet-stream";
    else if (strcmp(last, "document") == 0)
        *content_type = "application/json";
    show_value(at, out);
    return true;
}

bool metadata_get(const struct blueprint *b, const char *path, struct blob *out, const char **content_type)
{
    char version[NAME_MAX_LEN];
    bool too_long = false;
    *content_type = "text/plain";
    if (!next_component(&path, version, &too_long)) {
        for (size_t i = 0; i < ARRAY_LEN(versions) && !too_long; i++)
            blob_printf(out, "%s%s", i ? "\n" : "", versions[i]);
        return !too_long;
    }
    if (!known_version(version))
        return false;
    json_t *root = make_tree(b);
    bool found = show(root, path, out, content_type);
    json_decref(root);
    return found && !out->failed;
}
