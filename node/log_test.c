// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/log.h"
#include "node/notify.h"

static void hostile_text_stays_on_its_line(void **state)
{
    assert_string_equal(log_quote("plain").s, "\"plain\"");
    assert_string_equal(log_quote("a\"b\\c\nd\x7f").s, "\"a\\\"b\\\\c\\x0ad\\x7f\"");
    char lots[2000];
    memset(lots, '\n', sizeof(lots));
    lots[sizeof(lots) - 1] = 0;
    struct log_text t = log_quote(lots);
    assert_true(strlen(t.s) < sizeof(t.s));
    assert_int_equal(t.s[strlen(t.s) - 1], '"');
}

static void a_line_is_one_write_with_its_level(void **state)
{
    int pipe_fd[2], saved = dup(STDERR_FILENO);
    char line[4096];
    char lots[3000];
    memset(lots, 'x', sizeof(lots));
    lots[sizeof(lots) - 1] = 0;
    assert_int_equal(pipe(pipe_fd), 0);
    dup2(pipe_fd[1], STDERR_FILENO);
    log_set_level(LOG_INFO);
    log_debug("not seen", "n=%d", 1);
    log_info("seen", "n=%d", 2);
    log_warn("long", "text=%s", lots);
    dup2(saved, STDERR_FILENO);
    ssize_t n = read(pipe_fd[0], line, sizeof(line));
    assert_true(n > 0);
    assert_memory_equal(line, "level=info msg=\"seen\" n=2\n", 26);
    assert_int_equal(line[n - 1], '\n');
    assert_int_equal(n, 26 + 1023);
    close(pipe_fd[0]);
    close(pipe_fd[1]);
    close(saved);
}

static void the_service_manager_hears_one_datagram(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "\0nereus-notify-test"};
    socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof("nereus-notify-test");
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    char got[64] = "";
    unsetenv("NOTIFY_SOCKET");
    assert_true(notify_send("READY=1"));
    setenv("NOTIFY_SOCKET", "@nereus-notify-test", 1);
    assert_false(notify_send("READY=1"));
    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_true(notify_send("READY=1"));
    assert_int_equal(recv(fd, got, sizeof(got), 0), 7);
    assert_string_equal(got, "READY=1");
    setenv("NOTIFY_SOCKET", "relative", 1);
    assert_false(notify_send("READY=1"));
    unsetenv("NOTIFY_SOCKET");
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_text_stays_on_its_line),
        cmocka_unit_test(a_line_is_one_write_with_its_level),
        cmocka_unit_test(the_service_manager_hears_one_datagram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
