// SPDX-License-Identifier: MPL-2.0
// notify.h: tells the service manager how the process is doing, by sd_notify(3)'s protocol: one datagram to
// the UNIX socket named by $NOTIFY_SOCKET. Without that variable nothing happens.
#ifndef NEREUS_NODE_NOTIFY_H
#define NEREUS_NODE_NOTIFY_H

#include <stdbool.h>

// state: "READY=1\nSTATUS=..." and so on. False when there is a socket but it takes no message.
bool notify_send(const char *state);

#endif
