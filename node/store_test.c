// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>

#include "node/log.h"
#include "node/store.h"
#include "node/test_directory.h"

static char path[64], error[256];

static int setup(void **state)
{
    log_set_level(LOG_ERROR + 1);
    test_directory_make(path);
    return 0;
}

static int teardown(void **state)
{
    test_directory_remove(path);
    return 0;
}

static void put(struct store *s, enum store_kind kind, const char *key, const char *text)
{
    struct store_batch b = {.kind = kind};
    store_batch_put(&b, key, text, strlen(text));
    assert_true(store_commit(s, &b));
}

static void assert_doc(const struct store *s, enum store_kind kind, const char *key, const char *text)
{
    const struct doc *d = store_get(s, kind, key);
    if (!text) {
        assert_null(d);
        return;
    }
    assert_non_null(d);
    assert_string_equal(d->text, text);
}

static void what_was_stored_is_there_after_a_restart(void **state)
{
    struct store s;
    assert_true(store_open(&s, path, error, sizeof(error)));
    put(&s, STORE_MAPPINGS, "00000100/10.0.0.4", "{\"epoch\":1}");
    put(&s, STORE_MAPPINGS, "00000100/10.0.0.4", "{\"epoch\":2}");
    put(&s, STORE_ADDRESS_SETS, "set-a", "{\"a\":1}");
    put(&s, STORE_ADDRESS_SETS, "set-b", "{\"b\":1}");
    struct store_batch b = {.kind = STORE_ADDRESS_SETS};
    store_batch_delete(&b, "set-a");
    assert_true(store_commit(&s, &b));
    assert_true(store_blueprint_put(&s, "p1", "{\"generation\":7}", 16));
    assert_true(store_blueprint_put(&s, "p2", "{}", 2));
    assert_true(store_blueprint_delete(&s, "p2"));
    store_close(&s);

    assert_true(store_open(&s, path, error, sizeof(error)));
    assert_doc(&s, STORE_MAPPINGS, "00000100/10.0.0.4", "{\"epoch\":2}");
    assert_doc(&s, STORE_ADDRESS_SETS, "set-a", NULL);
    assert_doc(&s, STORE_ADDRESS_SETS, "set-b", "{\"b\":1}");
    assert_doc(&s, STORE_BLUEPRINTS, "p1", "{\"generation\":7}");
    assert_doc(&s, STORE_BLUEPRINTS, "p2", NULL);
    assert_int_equal(s.damaged, 0);
    store_close(&s);
}

static void two_daemons_do_not_share_a_directory(void **state)
{
    struct store a, b;
    assert_true(store_open(&a, path, error, sizeof(error)));
    assert_false(store_open(&b, path, error, sizeof(error)));
    assert_non_null(strstr(error, "another nereusd"));
    store_close(&a);
}

static void a_blueprint_damaged_at_any_byte_is_set_aside_and_the_rest_applied(void **state)
{
    struct store s;
    char bytes[512];
    assert_true(store_open(&s, path, error, sizeof(error)));
    assert_true(store_blueprint_put(&s, "good", "{\"good\":true}", 13));
    assert_true(store_blueprint_put(&s, "bad", "{\"generation\":12345}", 20));
    size_t size = test_file_read(s.ports_dir, "bad.json", bytes, sizeof(bytes));
    store_close(&s);

    char ports[80];
    snprintf(ports, sizeof(ports), "%s/ports", path);
    int dir = open(ports, O_RDONLY | O_DIRECTORY);
    for (size_t at = 0; at < 2 * size; at++) { // flipped, then cut
        char damaged[512];
        memcpy(damaged, bytes, size);
        if (at == strlen("nereus-state "))
            continue; // the schema's digit: see the test of newer schemas
        damaged[at % size] ^= 1;
        test_file_write(dir, "bad.json", damaged, at < size ? size : at - size);
        assert_true(store_open(&s, path, error, sizeof(error)));
        assert_doc(&s, STORE_BLUEPRINTS, "good", "{\"good\":true}");
        assert_doc(&s, STORE_BLUEPRINTS, "bad", NULL);
        assert_int_equal(s.damaged, 1);
        assert_int_equal(s.n_problems, 1);
        assert_int_equal(faccessat(dir, "bad.json.damaged", F_OK, 0), 0);
        store_close(&s);
    }
    close(dir);
}

static void a_newer_schema_stops_the_daemon_and_nothing_is_touched(void **state)
{
    struct store s;
    const char newer[] = "nereus-state 2 sha512:00 2\n{}";
    char bytes[64];
    assert_true(store_open(&s, path, error, sizeof(error)));
    test_file_write(s.ports_dir, "p.json", newer, sizeof(newer) - 1);
    store_close(&s);
    assert_false(store_open(&s, path, error, sizeof(error)));
    assert_non_null(strstr(error, "newer"));
    assert_non_null(strstr(error, "ports/p.json"));
    int dir = open(path, O_RDONLY | O_DIRECTORY);
    assert_int_equal(test_file_read(dir, "ports/p.json", bytes, sizeof(bytes)), sizeof(newer) - 1);
    close(dir);
}

static void a_journal_that_is_mostly_superseded_is_rewritten(void **state)
{
    struct store s;
    char text[64];
    assert_true(store_open(&s, path, error, sizeof(error)));
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof(text), "{\"epoch\":%d}", i);
        put(&s, STORE_MAPPINGS, "00000100/10.0.0.4", text);
    }
    assert_true(s.journals[STORE_MAPPINGS].records < 1000);
    store_close(&s);
    assert_true(store_open(&s, path, error, sizeof(error)));
    assert_doc(&s, STORE_MAPPINGS, "00000100/10.0.0.4", "{\"epoch\":4999}");
    store_close(&s);
}

static void many_mappings_in_one_batch_cost_one_write(void **state)
{
    struct store s;
    struct store_batch b = {.kind = STORE_MAPPINGS};
    char key[64];
    assert_true(store_open(&s, path, error, sizeof(error)));
    for (int i = 0; i < 65536; i++) {
        snprintf(key, sizeof(key), "00000100/10.1.%d.%d", i >> 8, i & 255);
        store_batch_put(&b, key, "{\"epoch\":1}", 11);
    }
    assert_true(store_commit(&s, &b));
    assert_int_equal(s.docs[STORE_MAPPINGS].n, 65536);
    store_close(&s);
    assert_true(store_open(&s, path, error, sizeof(error)));
    assert_int_equal(s.docs[STORE_MAPPINGS].n, 65536);
    store_close(&s);
}

static void a_failed_write_is_told_and_the_next_one_repairs(void **state)
{
    struct store s;
    assert_true(store_open(&s, path, error, sizeof(error)));
    put(&s, STORE_MAPPINGS, "a", "{\"epoch\":1}");
    int fd = s.journals[STORE_MAPPINGS].fd; // a descriptor that cannot be written stands for a failing disk
    s.journals[STORE_MAPPINGS].fd = open("/dev/full", O_WRONLY);
    struct store_batch b = {.kind = STORE_MAPPINGS};
    store_batch_put(&b, "b", "{\"epoch\":1}", 11);
    assert_false(store_commit(&s, &b));
    assert_true(s.write_failing);
    assert_doc(&s, STORE_MAPPINGS, "b", NULL);
    assert_true(s.journals[STORE_MAPPINGS].rewrite);
    put(&s, STORE_MAPPINGS, "b", "{\"epoch\":1}");
    assert_false(s.write_failing);
    close(fd);
    store_close(&s);
    assert_true(store_open(&s, path, error, sizeof(error)));
    assert_doc(&s, STORE_MAPPINGS, "a", "{\"epoch\":1}");
    assert_doc(&s, STORE_MAPPINGS, "b", "{\"epoch\":1}");
    store_close(&s);
}

// The child tells through a pipe what was acknowledged; whatever instant it is killed at, that much is on disk.
static void child(int told)
{
    struct store s;
    char text[64];
    if (!store_open(&s, path, error, sizeof(error)))
        _exit(1);
    const struct doc *d = store_get(&s, STORE_MAPPINGS, "k");
    uint32_t n = d ? (uint32_t)atoi(d->text) : 0;
    for (;;) {
        n++;
        snprintf(text, sizeof(text), "%u", n);
        struct store_batch b = {.kind = STORE_MAPPINGS};
        store_batch_put(&b, "k", text, strlen(text));
        if (!store_commit(&s, &b) || !store_blueprint_put(&s, "p", text, strlen(text)) ||
            write(told, &n, sizeof(n)) != sizeof(n))
            _exit(1);
    }
}

static void kill_9_at_any_instant_loses_nothing_acknowledged(void **state)
{
    uint32_t acknowledged = 0;
    for (int round = 0; round < 60; round++) {
        int pipe_fd[2];
        assert_int_equal(pipe(pipe_fd), 0);
        pid_t pid = fork();
        if (pid == 0)
            child(pipe_fd[1]);
        close(pipe_fd[1]);
        uint32_t n;
        for (int i = 0; i <= round; i++) { // some way in, then at once
            assert_int_equal(read(pipe_fd[0], &n, sizeof(n)), sizeof(n));
            acknowledged = n;
        }
        kill(pid, SIGKILL);
        while (read(pipe_fd[0], &n, sizeof(n)) == sizeof(n))
            acknowledged = n;
        waitpid(pid, NULL, 0);
        close(pipe_fd[0]);

        struct store s;
        assert_true(store_open(&s, path, error, sizeof(error)));
        assert_int_equal(s.damaged, 0);
        uint32_t mapping = (uint32_t)atoi(store_get(&s, STORE_MAPPINGS, "k")->text);
        uint32_t blueprint = (uint32_t)atoi(store_get(&s, STORE_BLUEPRINTS, "p")->text);
        assert_true(mapping == acknowledged || mapping == acknowledged + 1);
        assert_true(blueprint == acknowledged || blueprint == acknowledged + 1);
        store_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"what was stored is there after a restart", what_was_stored_is_there_after_a_restart, setup, teardown, NULL},
        {"two daemons do not share a directory", two_daemons_do_not_share_a_directory, setup, teardown, NULL},
        {"a blueprint damaged at any byte is set aside and the rest applied",
         a_blueprint_damaged_at_any_byte_is_set_aside_and_the_rest_applied, setup, teardown, NULL},
        {"a newer schema stops the daemon, and nothing is touched",
         a_newer_schema_stops_the_daemon_and_nothing_is_touched, setup, teardown, NULL},
        {"a journal that is mostly superseded is rewritten", a_journal_that_is_mostly_superseded_is_rewritten, setup,
         teardown, NULL},
        {"65,536 mappings in one batch cost one write", many_mappings_in_one_batch_cost_one_write, setup, teardown,
         NULL},
        {"a failed write is told, and the next one repairs", a_failed_write_is_told_and_the_next_one_repairs, setup,
         teardown, NULL},
        {"T80 kill -9 at any instant loses nothing acknowledged", kill_9_at_any_instant_loses_nothing_acknowledged,
         setup, teardown, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
