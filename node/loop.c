// SPDX-License-Identifier: MPL-2.0
#include "node/loop.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <unistd.h>

bool loop_open(struct loop *l)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    return l->epoll >= 0;
}

void loop_close(struct loop *l)
{
    if (l->epoll >= 0)
        close(l->epoll);
    l->epoll = -1;
}

bool loop_add(struct loop *l, struct loop_source *s)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &event) == 0;
}

void loop_remove(struct loop *l, struct loop_source *s)
{
    epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL);
}

void loop_wait(struct loop *l, int timeout_ms)
{
    struct epoll_event events[8];
    int n = epoll_wait(l->epoll, events, 8, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct loop_source *s = events[i].data.ptr;
        s->ready(s->ctx);
    }
}
