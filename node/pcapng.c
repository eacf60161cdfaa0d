// SPDX-License-Identifier: MPL-2.0
#include "node/pcapng.h"

#include <string.h>

enum block { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_FRAME = 6 };
enum option {
    OPTION_END = 0,
    OPTION_COMMENT = 1,
    OPTION_IF_NAME = 2,
    OPTION_EPB_FLAGS = 2,
    OPTION_SECTION_APPLICATION = 4,
    OPTION_EPB_DROPCOUNT = 4,
    OPTION_IF_TIME_RESOLUTION = 9,
};
#define LINK_ETHERNET 1

static void put16(struct blob *out, uint16_t v)
{
    blob_add(out, &v, 2); // the host is little-endian (engine/base.h)
}

static void put32(struct blob *out, uint32_t v)
{
    blob_add(out, &v, 4);
}

static void pad(struct blob *out, size_t len)
{
    blob_add(out, "\0\0\0", -len & 3);
}

static void option(struct blob *out, enum option code, const void *value, size_t len)
{
    put16(out, (uint16_t)code);
    put16(out, (uint16_t)len);
    blob_add(out, value, len);
    pad(out, len);
}

static size_t begin(struct blob *out, enum block type)
{
    size_t start = out->len;
    put32(out, (uint32_t)type);
    put32(out, 0);
    return start;
}

// Total length stands before and after a block's content.
static void end(struct blob *out, size_t start)
{
    option(out, OPTION_END, NULL, 0);
    uint32_t total = (uint32_t)(out->len + 4 - start);
    put32(out, total);
    if (!out->failed)
        memcpy(out->s + start + 4, &total, 4);
}

void pcapng_section(struct blob *out, const char *application)
{
    size_t start = begin(out, BLOCK_SECTION);
    put32(out, 0x1a2b3c4d);
    put16(out, 1);
    put16(out, 0);
    put32(out, 0xffffffff); // section length not known
    put32(out, 0xffffffff);
    option(out, OPTION_SECTION_APPLICATION, application, strlen(application));
    end(out, start);
}

void pcapng_interface(struct blob *out, const char *name, uint32_t snap_len)
{
    size_t start = begin(out, BLOCK_INTERFACE);
    put16(out, LINK_ETHERNET);
    put16(out, 0);
    put32(out, snap_len);
    option(out, OPTION_IF_NAME, name, strnlen(name, 1024));
    option(out, OPTION_IF_TIME_RESOLUTION, "\x09", 1);
    end(out, start);
}

void pcapng_frame(struct blob *out, const struct pcapng_frame *f)
{
    size_t start = begin(out, BLOCK_FRAME);
    put32(out, f->interface);
    put32(out, (uint32_t)(f->time >> 32));
    put32(out, (uint32_t)f->time);
    put32(out, f->captured);
    put32(out, f->length);
    blob_add(out, f->data, f->captured);
    pad(out, f->captured);
    uint32_t flags = (uint32_t)f->direction;
    option(out, OPTION_EPB_FLAGS, &flags, 4);
    if (f->lost)
        option(out, OPTION_EPB_DROPCOUNT, &f->lost, 8);
    if (f->comment)
        option(out, OPTION_COMMENT, f->comment, strnlen(f->comment, 1024));
    end(out, start);
}
