// SPDX-License-Identifier: MPL-2.0
#include "api/json/sha256.h"
#include "api/json/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void assert_hash(const struct sha256 *s, const char *expected)
{
    struct sha256 copy = *s;
    uint8_t hash[32];
    char text[65];
    sha256_end(&copy, hash);
    bytes_to_hex(hash, 32, text);
    assert_string_equal(text, expected);
}

static void published_vectors(void **state)
{
    static const struct {
        const char *message, *hash;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopq"
         "rstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        struct sha256 s;
        sha256_init(&s);
        sha256_add(&s, vectors[i].message, strlen(vectors[i].message));
        assert_hash(&s, vectors[i].hash);
    }
}

static void million_letters_in_uneven_pieces(void **state)
{
    char piece[97];
    struct sha256 s;
    size_t left = 1000000, n = 1;
    memset(piece, 'a', sizeof(piece));
    sha256_init(&s);
    while (left > 0) {
        size_t take = MIN(left, n);
        sha256_add(&s, piece, take);
        left -= take;
        n = n % sizeof(piece) + 1;
    }
    assert_hash(&s, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {.name = "SHA-256 of the messages FIPS 180-4 was published with", .test_func = published_vectors},
        {.name = "SHA-256 of a million letters, in pieces of every size",
         .test_func = million_letters_in_uneven_pieces},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
