// SPDX-License-Identifier: MPL-2.0
// Memory runs out at each allocation of our own in turn. Linked with --wrap=calloc. (jansson 2.14 itself does not
// survive an allocation that fails in the middle of a string.)
#include "api/json/test_document.h"

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static long left = -1; // allocations that still succeed; negative: all

static bool fails(void)
{
    return left >= 0 && left-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

// Does it all; false when memory ran out on the way.
static bool load_and_dump(enum api_resource resource, const char *text)
{
    struct api_error_list errors;
    struct api_document *d = load_text(resource, text, &errors);
    if (!d) {
        assert_true(errors.n > 0);
        assert_error(&errors, "out of memory", errors.e[0].pointer, "no-memory");
        return false;
    }
    json_t *json = api_dump(resource, d->value);
    bool done = json != NULL;
    json_decref(json);
    api_document_free(d);
    return done;
}

static void each_allocation_fails_once(enum api_resource resource, const char *text)
{
    long n = 0;
    for (;; n++) {
        left = n;
        bool done = load_and_dump(resource, text);
        bool failed = left < 0;
        left = -1;
        if (!failed) {
            assert_true(done);
            break;
        }
        assert_false(done);
    }
    assert_true(n >= 2);
}

static void memory_runs_out(void **state)
{
    json_t *json = golden("blueprint.json");
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    each_allocation_fails_once(API_BLUEPRINT, text);
    free(text);
    json_decref(json);
    each_allocation_fails_once(API_TRACE_REQUEST, "{\"port\":\"0190a6b2-7c11-7e9a-8f3e-5d2c41a7b001\",\"dir\":\"out\","
                                                  "\"frame\":\"00112233445566778899aabbccddeeff\"}");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        {.name = "T48 out of memory at any allocation: an error that says so, nothing leaks",
         .test_func = memory_runs_out},
    };
    golden_dir = argc > 1 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
