// SPDX-License-Identifier: MPL-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/doc_set.h"

#define KEYS 200

// The same changes to a plain array; after each the whole content must agree.
static void random_changes_agree_with_a_plain_array(void **state)
{
    struct doc_set s = {0};
    int model[KEYS]; // -1: absent
    unsigned seed = 7;
    memset(model, 0xff, sizeof(model));
    for (int round = 0; round < 5000; round++) {
        seed = seed * 1103515245 + 12345;
        int k = (int)(seed >> 16) % KEYS;
        char key[16], text[16];
        snprintf(key, sizeof(key), "%03d", k);
        snprintf(text, sizeof(text), "%d", round);
        if (seed & 1) {
            assert_true(doc_set_put(&s, key, text, strlen(text)));
            model[k] = round;
        } else {
            doc_set_delete(&s, key);
            model[k] = -1;
        }
        const struct doc *d = s.first[0];
        size_t n = 0;
        for (int i = 0; i < KEYS; i++) {
            if (model[i] < 0)
                continue;
            assert_non_null(d);
            assert_int_equal(atoi(d->key), i);
            assert_int_equal(atoi(d->text), model[i]);
            d = d->next[0];
            n++;
        }
        assert_null(d);
        assert_int_equal(s.n, n);
    }
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%03d", i);
        assert_int_equal(doc_set_get(&s, key) != NULL, model[i] >= 0);
        int next = i + 1;
        while (next < KEYS && model[next] < 0)
            next++;
        const struct doc *after = doc_set_after(&s, key);
        assert_int_equal(after ? atoi(after->key) : KEYS, next);
    }
    doc_set_clear(&s);
    assert_null(doc_set_after(&s, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"random changes agree with a plain array", random_changes_agree_with_a_plain_array, NULL, NULL, NULL},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
