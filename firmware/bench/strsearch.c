/* Substring search (Horspool) of several words in a text where they were planted. */
#include "bench/bench.h"

#define SIZE (256 * 1024)
#define PLANTED 40

static u8 text[SIZE];
/* Each has a letter that the text's own alphabet lacks, so nothing else matches. */
static const char *const words[] = {"Xray", "sample-Profiling", "boUndary", "operatioN"};

static unsigned length(const char *s) {
    unsigned n = 0;
    while (s[n])
        n++;
    return n;
}

void bench_setup(void) {
    u64 random = 0;
    for (unsigned i = 0; i < SIZE; i++, random >>= 3) {
        if (i % 16 == 0)
            random = bench_random();
        text[i] = (u8)"aeionrst"[random & 7];
    }
    for (unsigned i = 0; i < PLANTED; i++) {
        const char *word = words[i % ARRAY_SIZE(words)];
        memcpy(text + i * (SIZE / PLANTED) + bench_random() % 1000, word, length(word));
    }
}

static unsigned count(const char *word) {
    unsigned skip[256], n = length(word), found = 0;
    for (unsigned i = 0; i < 256; i++)
        skip[i] = n;
    for (unsigned i = 0; i + 1 < n; i++)
        skip[(u8)word[i]] = n - 1 - i;
    for (unsigned at = 0; at + n <= SIZE;) {
        unsigned i = n;
        while (i > 0 && text[at + i - 1] == (u8)word[i - 1])
            i--;
        found += i == 0;
        at += skip[text[at + n - 1]];
    }
    return found;
}

bool bench_work(void) {
    for (unsigned i = 0; i < ARRAY_SIZE(words); i++)
        for (unsigned round = 0; round < 2; round++)
            if (count(words[i]) != PLANTED / ARRAY_SIZE(words))
                return false;
    return true;
}
