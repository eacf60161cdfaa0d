// SPDX-License-Identifier: MPL-2.0
// tap_home.h: where our taps went. A tap that was moved into a guest's network namespace, and perhaps renamed there, is
// still ours after the process ended: a note under run_dir says which namespace (by inode) and which name.
#ifndef NEREUS_PLATFORM_LINUX_TAP_HOME_H
#define NEREUS_PLATFORM_LINUX_TAP_HOME_H

#include <net/if.h>

#include "engine/base.h"

struct tap_home {
    uint64_t netns; // inode of the namespace; 0 = that of this process
    char ifname[IF_NAMESIZE];
};

// The tap's place at this moment, by its fd. False when the kernel does not tell.
bool tap_home_read(int fd, struct tap_home *out);
// Writes the note for the tap known to us as `name`; a tap at home under its own name needs none.
void tap_home_save(const char *run_dir, const char *name, const struct tap_home *home);
// What the note says. False: none, or unreadable.
bool tap_home_load(const char *run_dir, const char *name, struct tap_home *out);
// A file descriptor of the namespace, -1 when no process or name holds it any more.
int tap_home_open(const struct tap_home *home);

#endif
