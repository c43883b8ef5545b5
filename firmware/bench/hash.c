/* Hash table with open addressing: insert, find, miss, delete. */
#include "bench/bench.h"

#define SLOTS 32768
#define KEYS 16384

static struct slot {
    u64 key; /* 0 is free, 1 deleted */
    u64 value;
} slots[SLOTS];

static u64 key_of(u64 n) {
    return n * 2 + 3; /* odd: the even ones are never there */
}

static unsigned slot_of(u64 key) {
    return (unsigned)((key * 0x9e3779b97f4a7c15ull) >> 49);
}

static struct slot *find(u64 key) {
    for (unsigned i = slot_of(key);; i = (i + 1) % SLOTS) {
        if (slots[i].key == key)
            return &slots[i];
        if (slots[i].key == 0)
            return NULL;
    }
}

static void insert(u64 key, u64 value) {
    unsigned i = slot_of(key);
    while (slots[i].key > 1)
        i = (i + 1) % SLOTS;
    slots[i] = (struct slot){key, value};
}

void bench_setup(void) {
}

bool bench_work(void) {
    memset(slots, 0, sizeof slots);
    for (u64 n = 0; n < KEYS; n++)
        insert(key_of(n), n);
    u64 sum = 0, misses = 0;
    for (u64 n = 0; n < KEYS; n++) {
        const struct slot *slot = find(key_of(n * 5 % KEYS));
        sum += slot ? slot->value : 0;
        misses += find(key_of(n) + 1) == NULL;
    }
    for (u64 n = 0; n < KEYS; n += 2)
        find(key_of(n))->key = 1;
    u64 left = 0;
    for (u64 n = 0; n < KEYS; n++)
        left += find(key_of(n)) != NULL;
    return sum == KEYS * (KEYS - 1ull) / 2 && misses == KEYS && left == KEYS / 2;
}
