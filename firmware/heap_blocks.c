/* A program with an allocator, which is right; with an argument it has one mistake that passes unnoticed: over, under,
   after, twice, foreign, fresh. `spe-unicorn run --check heap` finds them (docs/how-to/ci.md), `fresh` together with
   `--check uninitialised`. */
#include "lib/arguments.h"
#include "lib/el.h"

#define HEAP_BYTES 8192
#define ALIGNED(n) (((n) + 15) & ~(size_t)15)

#define FUNCTION __attribute__((noinline, noclone)) /* a call that is compiled into its caller is none */

FUNCTION void *malloc(size_t size);
FUNCTION void *calloc(size_t number, size_t size);
FUNCTION void *realloc(void *block, size_t size);
FUNCTION void free(void *block);

/* What stands before each block: 16 bytes. */
struct header {
    size_t size; /* of the block, a multiple of 16 */
    u64 used;
};
static u8 heap[HEAP_BYTES] __attribute__((aligned(16)));
static const char *planted;

static bool has(const char *mistake) {
    return planted && strcmp(planted, mistake) == 0;
}

static struct header *following(struct header *h) {
    return (struct header *)((u8 *)(h + 1) + h->size);
}

static bool within(struct header *h) {
    return (u8 *)h < heap + HEAP_BYTES;
}

/* First fit, with neighbours joined. */
void *malloc(size_t size) {
    size = ALIGNED(size ? size : 1);
    for (struct header *h = (struct header *)heap; within(h); h = following(h)) {
        for (struct header *next = following(h); !h->used && within(next) && !next->used; next = following(h))
            h->size += sizeof *next + next->size;
        if (h->used || h->size < size)
            continue;
        if (h->size >= size + sizeof *h + 16) {
            size_t rest = h->size - size - sizeof *h;
            h->size = size;
            *following(h) = (struct header){rest, 0};
        }
        h->used = 1;
        return h + 1;
    }
    return 0;
}

void free(void *block) {
    if (block)
        ((struct header *)block)[-1].used = 0;
}

void *calloc(size_t number, size_t size) {
    void *block = malloc(number * size);
    return block ? memset(block, 0, number * size) : 0;
}

void *realloc(void *block, size_t size) {
    void *to = malloc(size);
    if (to && block) {
        size_t had = ((struct header *)block)[-1].size;
        memcpy(to, block, had < size ? had : size);
        free(block);
    }
    return to;
}

static FUNCTION u64 load(const volatile u64 *at) {
    return *at;
}

static FUNCTION void store(volatile u8 *at, u8 value) {
    *at = value;
}

static FUNCTION void give_back(void *block) {
    free(block);
}

int main(void) {
    planted = argument(1);
    *(struct header *)heap = (struct header){HEAP_BYTES - sizeof(struct header), 0};

    u8 *text = malloc(20);
    u64 *words = calloc(4, sizeof(u64));
    ok(text && words && words[3] == 0, "there are two blocks");
    for (unsigned n = 0; n < 20; n++)
        store(text + n, (u8)n);
    if (has("over"))
        store(text + 20, 20); /* of what the allocator rounds up to */
    if (has("under"))
        load(words - 2); /* the header */

    u8 *longer = realloc(text, 100);
    bool same = true;
    for (unsigned n = 0; n < 20; n++)
        same &= longer[n] == n;
    ok(same, "what is moved stays the same");
    if (has("after"))
        load((const u64 *)text);

    u64 *first = malloc(64);
    if (has("fresh"))
        load(first + 1);
    first[0] = load(words + 3);
    ok(first[0] == 0, "a word goes from block to block");
    give_back(first);
    if (has("twice"))
        give_back(first);
    if (has("foreign"))
        give_back(words + 2);
    give_back(longer);
    give_back(words);
    u8 *all = malloc(HEAP_BYTES - sizeof(struct header));
    ok(all == heap + sizeof(struct header) || has("foreign"), "all of it can be had again");
    free(all);
    return tap_done();
}
