/* The distance between samples, counted in operations by where they fall in a long loop. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define RECORDS 4096

/* 2039 operations a turn, more than any distance here: two places tell how far apart they are. */
#define PLACES 2039
#define TURNS 64
asm("    .text\n"
    "    .global loop\n"
    "    .type loop, %function\n"
    "loop:\n"
    "    .rept 2037\n"
    "    nop\n"
    "    .endr\n"
    "    subs x0, x0, #1\n"
    "    b.ne loop\n"
    "    ret\n"
    "    .size loop, . - loop\n");
extern char loop[];
#define POPULATION (PLACES * (u64)TURNS + 1 + SPE_PROFILE_OVERHEAD)
#define BEFORE 2 /* the ISB and the BLR are members 1 and 2, the loop's first operation is member 3 */

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];

static unsigned profile(const struct spe_id *id, u64 pmsirr, u64 pmsicr) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = pmsirr};
    u64 next;
    spe_setup(&session);
    write_sysreg(PMSICR_EL1, pmsicr);
    isb();
    spe_profile(PMSCR_E1SPE | PMSCR_TS, (u64)loop, TURNS, 0, 0);
    u64 end = read_sysreg(PMBPTR_EL1);
    spe_stop();
    return spe_read_all((u64)buffer, end, id->align, records, RECORDS, &next);
}

static u64 place(unsigned i) {
    return (records[i].pc - (u64)loop) / 4;
}

static bool in_loop(unsigned i) {
    return records[i].pc >= (u64)loop && place(i) < PLACES;
}

static u64 gap(unsigned i) {
    return (place(i) + PLACES - place(i - 1)) % PLACES;
}

static void check_fixed(const struct spe_id *id, u64 interval, u64 pmsicr) {
    u64 first = pmsicr ? pmsicr : interval + 1;
    print("# RND 0, interval %lu, PMSICR_EL1 starts at %lu\n", interval, pmsicr);
    unsigned count = profile(id, interval, pmsicr), exact = 0, forward = 0;
    is(count, 1 + (POPULATION - first) / (interval + 1), "number of records");
    is(place(0), first - 1 - BEFORE, "place of the first");
    for (unsigned i = 1; i < count && in_loop(i); i++) {
        exact += gap(i) == interval + 1;
        forward += records[i].timestamp >= records[i - 1].timestamp;
    }
    ok(exact + 2 >= count, "every distance is the interval and one");
    is(forward, exact, "time does not go back");
}

static void check_random(const struct spe_id *id, u64 interval) {
    print("# RND 1, interval %lu\n", interval);
    unsigned count = profile(id, interval | PMSIRR_RND, 0);
    u64 least = ~0ull, most = 0, sum = 0, distances = 0, different = 0;
    u32 hash = 2166136261u; /* FNV-1a over the distances: tells seeds apart */
    for (unsigned i = 1; i < count && in_loop(i); i++) {
        u64 g = gap(i);
        least = g < least ? g : least;
        most = g > most ? g : most;
        different += i > 1 && g != gap(i - 1);
        sum += g;
        distances++;
        hash = (hash ^ (u32)g) * 16777619u;
    }
    print("# %lu distances, %lu to %lu, sum %lu, hash 0x%x\n", distances, least, most, sum, hash);
    if (!ok(distances > 100, "enough samples"))
        return;
    ok(different > distances / 2, "distances differ");
    if (id->ernd) { /* the random part comes after the interval: gaps are interval + 1 + r[n] - r[n-1] */
        ok(least >= interval + 1 - 255 && most <= interval + 1 + 255, "they lie within 255 of the interval and one");
        ok(sum + 255 >= distances * (interval + 1) && sum <= distances * (interval + 1) + 255,
           "their mean is the interval and one");
    } else {
        ok(least >= interval + 1 && most <= interval + 256, "they lie from the interval and one to the interval and 256");
        /* Uniform over 256 values: variance 65535 / 12. The mean is within three standard errors of
           interval + 128.5: (sum - n * mean)^2 <= 9 * n * variance, times 4. */
        int64_t twice = 2 * (int64_t)sum - (int64_t)(distances * (2 * interval + 257));
        ok((u64)(twice * twice) <= 3 * 65535 * distances, "their mean is the interval and 128.5");
    }
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    if (!id.arch_inst)
        return tap_skip_all("samples micro-operations: places do not tell distances");
    mmu_on();
    check_fixed(&id, 256, 0);
    check_fixed(&id, 512, 0);
    check_fixed(&id, 1024, 5);
    check_fixed(&id, 1024, 1000);
    check_random(&id, 256);
    check_random(&id, 1024);
    return tap_done();
}
