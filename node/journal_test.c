// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/journal.h"
#include "node/test_directory.h"

#define RECORDS 8

struct seen {
    unsigned n;
    char all[4096];
};

static void on_record(void *ctx, char op, const char *text, size_t len)
{
    struct seen *s = ctx;
    size_t at = strlen(s->all);
    snprintf(s->all + at, sizeof(s->all) - at, "%c%.*s;", op, (int)len, text);
    s->n++;
}

static char path[64];
static int dir;

static int setup(void **state)
{
    test_directory_make(path);
    dir = open(path, O_RDONLY | O_DIRECTORY);
    return dir < 0;
}

static int teardown(void **state)
{
    close(dir);
    test_directory_remove(path);
    return 0;
}

static void append(struct journal *j, unsigned i)
{
    struct journal_batch b = {0};
    char text[32];
    snprintf(text, sizeof(text), "k%u {\"n\":%u}", i, i);
    journal_batch_add(&b, '+', text, strlen(text));
    assert_true(journal_append(j, &b));
    journal_batch_free(&b);
}

static size_t make_file(char *bytes, size_t size)
{
    struct journal j;
    struct seen seen = {0};
    assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_OK);
    for (unsigned i = 0; i < RECORDS; i++)
        append(&j, i);
    journal_close(&j);
    return test_file_read(dir, "a.journal", bytes, size);
}

static void expected_records(unsigned n, char *out, size_t size)
{
    out[0] = 0;
    for (unsigned i = 0; i < n; i++) {
        size_t at = strlen(out);
        snprintf(out + at, size - at, "+k%u {\"n\":%u};", i, i);
    }
}

static void appended_records_come_back_in_order(void **state)
{
    char bytes[4096], all[4096];
    struct journal j;
    struct seen seen = {0};
    make_file(bytes, sizeof(bytes));
    assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_OK);
    expected_records(RECORDS, all, sizeof(all));
    assert_string_equal(seen.all, all);
    assert_int_equal(j.records, RECORDS);
    journal_close(&j);
}

// kill -9 in the middle of an append leaves a prefix of the file: the whole records in it are there, nothing else, and
// the file takes further records.
static void a_prefix_of_the_file_gives_a_prefix_of_the_records(void **state)
{
    char bytes[4096], all[4096];
    size_t size = make_file(bytes, sizeof(bytes));
    size_t header = (size_t)(strchr(bytes, '\n') + 1 - bytes);
    for (size_t cut = header; cut <= size; cut++) {
        struct journal j;
        struct seen seen = {0}, again = {0};
        test_file_write(dir, "a.journal", bytes, cut);
        assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_OK);
        unsigned whole = 0;
        for (size_t i = header; i < cut; i++)
            whole += bytes[i] == '\n';
        expected_records(whole, all, sizeof(all));
        assert_string_equal(seen.all, all);
        append(&j, whole);
        journal_close(&j);
        assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &again), STATE_OK);
        expected_records(whole + 1, all, sizeof(all));
        assert_string_equal(again.all, all);
        journal_close(&j);
    }
}

static void every_flipped_byte_is_seen_and_costs_one_record_at_most(void **state)
{
    char bytes[4096];
    size_t size = make_file(bytes, sizeof(bytes));
    for (size_t at = 0; at < size; at++) {
        for (unsigned bit = 0; bit < 8; bit += 3) {
            struct journal j;
            struct seen seen = {0};
            char damaged[4096];
            memcpy(damaged, bytes, size);
            damaged[at] = (char)(damaged[at] ^ (1 << bit));
            test_file_write(dir, "a.journal", damaged, size);
            enum state_result result = journal_open(&j, dir, "a.journal", "a", on_record, &seen);
            if (result == STATE_NEWER) { // the schema digit itself
                assert_int_equal(at, strlen("nereus-journal "));
                continue;
            }
            // A broken last newline looks like an unfinished append.
            assert_int_equal(result, at == size - 1 ? STATE_OK : STATE_DAMAGED);
            assert_true(seen.n >= RECORDS - 2 && seen.n <= RECORDS); // a broken newline joins two records
            if (result == STATE_DAMAGED) {
                char aside[4096];
                assert_int_equal(test_file_read(dir, "a.journal.damaged", aside, sizeof(aside)), size);
                assert_memory_equal(aside, damaged, size);
                assert_true(j.rewrite);
            }
            journal_close(&j);
        }
    }
}

static void a_damaged_header_loses_no_record(void **state)
{
    char bytes[4096], all[4096];
    size_t size = make_file(bytes, sizeof(bytes));
    struct journal j;
    struct seen seen = {0};
    memcpy(bytes, "XXXX", 4);
    test_file_write(dir, "a.journal", bytes, size);
    assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_DAMAGED);
    expected_records(RECORDS, all, sizeof(all));
    assert_string_equal(seen.all, all);
    journal_close(&j);
}

static void a_newer_schema_is_refused_and_left_alone(void **state)
{
    char bytes[256];
    const char newer[] = "nereus-journal 2 a\nwho knows\n";
    struct journal j;
    struct seen seen = {0};
    test_file_write(dir, "a.journal", newer, sizeof(newer) - 1);
    assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_NEWER);
    assert_int_equal(seen.n, 0);
    assert_int_equal(test_file_read(dir, "a.journal", bytes, sizeof(bytes)), sizeof(newer) - 1);
    assert_memory_equal(bytes, newer, sizeof(newer) - 1);
}

static void a_failed_append_leaves_the_file_as_it_was(void **state)
{
    char bytes[4096], after[4096];
    size_t size = make_file(bytes, sizeof(bytes));
    struct journal j;
    struct seen seen = {0};
    assert_int_equal(journal_open(&j, dir, "a.journal", "a", on_record, &seen), STATE_OK);
    struct journal_batch none = {.failed = true};
    assert_false(journal_append(&j, &none));
    journal_close(&j);
    assert_int_equal(test_file_read(dir, "a.journal", after, sizeof(after)), size);
    assert_memory_equal(after, bytes, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"appended records come back in order", appended_records_come_back_in_order, setup, teardown, NULL},
        {"a prefix of the file gives a prefix of the records, cut at every byte",
         a_prefix_of_the_file_gives_a_prefix_of_the_records, setup, teardown, NULL},
        {"every flipped byte is seen, and costs one line at most",
         every_flipped_byte_is_seen_and_costs_one_record_at_most, setup, teardown, NULL},
        {"a damaged header loses no record", a_damaged_header_loses_no_record, setup, teardown, NULL},
        {"a newer schema is refused and left alone", a_newer_schema_is_refused_and_left_alone, setup, teardown, NULL},
        {"a failed append leaves the file as it was", a_failed_append_leaves_the_file_as_it_was, setup, teardown, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
