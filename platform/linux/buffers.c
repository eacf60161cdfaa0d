// SPDX-License-Identifier: MPL-2.0
#include "platform/linux/buffers.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_MAX 128 // more than this per class goes back to the depot

static const uint32_t class_size[BUFFER_CLASSES] = {BUFFER_SMALL, BUFFER_LARGE};

// An odd number of cache lines: frames of neighbouring buffers start in different cache sets.
static size_t class_stride(enum buffer_class class)
{
    size_t lines = (sizeof(struct buffer) + BUFFER_HEADROOM + class_size[class] + CACHE_LINE - 1) / CACHE_LINE;
    return (lines | 1) * CACHE_LINE;
}

static bool depot_fill(struct buffers *pool, enum buffer_class class, unsigned n)
{
    size_t stride = class_stride(class), size = stride * n;
    uint8_t *region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return false;
    pool->depot[class].region = region;
    pool->depot[class].region_size = size;
    for (unsigned i = n; i-- > 0;) {
        struct buffer *b = (struct buffer *)(region + i * stride);
        b->class = (uint8_t) class;
        b->next = pool->depot[class].top;
        pool->depot[class].top = b;
    }
    return true;
}

bool buffers_init(struct buffers *pool, unsigned n_caches, unsigned n_small, unsigned n_large)
{
    memset(pool, 0, sizeof(*pool));
    pthread_mutex_init(&pool->lock, NULL);
    pool->n_caches = n_caches;
    pool->caches = aligned_alloc(CACHE_LINE, sizeof(*pool->caches) * n_caches);
    if (!pool->caches)
        return false;
    memset(pool->caches, 0, sizeof(*pool->caches) * n_caches);
    return depot_fill(pool, BUFFER_CLASS_SMALL, n_small) && depot_fill(pool, BUFFER_CLASS_LARGE, n_large);
}

void buffers_destroy(struct buffers *pool)
{
    for (int class = 0; class < BUFFER_CLASSES; class ++)
        if (pool->depot[class].region)
            munmap(pool->depot[class].region, pool->depot[class].region_size);
    free(pool->caches);
    pthread_mutex_destroy(&pool->lock);
}

static void cache_refill(struct buffers *pool, struct buffer_cache *cache, enum buffer_class class)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < BUFFER_BATCH && pool->depot[class].top; i++) {
        struct buffer *b = pool->depot[class].top;
        pool->depot[class].top = b->next;
        b->next = cache->stack[class].top;
        cache->stack[class].top = b;
        cache->stack[class].n++;
    }
    pthread_mutex_unlock(&pool->lock);
}

static void cache_spill(struct buffers *pool, struct buffer_cache *cache, enum buffer_class class)
{
    pthread_mutex_lock(&pool->lock);
    for (unsigned i = 0; i < BUFFER_BATCH; i++) {
        struct buffer *b = cache->stack[class].top;
        cache->stack[class].top = b->next;
        cache->stack[class].n--;
        b->next = pool->depot[class].top;
        pool->depot[class].top = b;
    }
    pthread_mutex_unlock(&pool->lock);
}

static struct buffer *depot_take(struct buffers *pool, enum buffer_class class)
{
    pthread_mutex_lock(&pool->lock);
    struct buffer *b = pool->depot[class].top;
    if (b)
        pool->depot[class].top = b->next;
    pthread_mutex_unlock(&pool->lock);
    return b;
}

static struct buffer *cache_take(struct buffers *pool, unsigned user, enum buffer_class class)
{
    if (user >= pool->n_caches)
        return depot_take(pool, class);
    struct buffer_cache *cache = &pool->caches[user];
    if (!cache->stack[class].top)
        cache_refill(pool, cache, class);
    struct buffer *b = cache->stack[class].top;
    if (b) {
        cache->stack[class].top = b->next;
        cache->stack[class].n--;
    }
    return b;
}

struct packet *buffers_alloc(struct buffers *pool, unsigned user, enum buffer_class class)
{
    struct buffer *b = cache_take(pool, user, class);
    if (!b)
        return NULL;
    b->packet = (struct packet){
        .data = b->bytes + BUFFER_HEADROOM, .room = class_size[class], .headroom = BUFFER_HEADROOM, .driver = b};
    return &b->packet;
}

void buffers_free(struct buffers *pool, unsigned user, struct packet *p)
{
    struct buffer *b = (struct buffer *)p;
    if (user >= pool->n_caches) {
        pthread_mutex_lock(&pool->lock);
        b->next = pool->depot[b->class].top;
        pool->depot[b->class].top = b;
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    struct buffer_cache *cache = &pool->caches[user];
    b->next = cache->stack[b->class].top;
    cache->stack[b->class].top = b;
    if (++cache->stack[b->class].n > CACHE_MAX)
        cache_spill(pool, cache, b->class);
}

struct packet *buffers_clone(struct buffers *pool, unsigned user, const struct packet *p)
{
    if (p->len > BUFFER_LARGE)
        return NULL;
    struct packet *copy = buffers_alloc(pool, user, buffers_class(p->len));
    if (!copy)
        return NULL;
    memcpy(copy->data, p->data, p->len);
    copy->len = copy->head = p->len;
    copy->csum = p->csum;
    copy->gso_type = p->gso_type;
    copy->gso_size = p->gso_size;
    copy->csum_start = p->csum_start;
    copy->csum_offset = p->csum_offset;
    copy->encap_len = p->encap_len;
    copy->vlan = p->vlan;
    copy->hash = p->hash;
    return copy;
}
