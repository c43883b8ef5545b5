/* The sample interval counters as software keeps them: frozen while profiling is disabled, saved and restored between
   two contexts, continued from any value; and a selection that collides with a sampled operation in flight. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define PMSICR_ECOUNT(n) ((u64)(n) << 56)
#define INTERVAL 256
#define SLICES 60
#define RECORDS 1024

/* Two loops of five operations, and a row of operations without one. */
asm("    .text\n"
    "    .macro loop name\n"
    "    .global \\name, \\name\\()_end\n"
    "    .type \\name, %function\n"
    "\\name:\n"
    "    ldr x3, [x1]\n"
    "    str x3, [x1, #8]\n"
    "    add x2, x2, x3\n"
    "    subs x0, x0, #1\n"
    "    b.ne \\name\n"
    "    ret\n"
    "\\name\\()_end:\n"
    "    .size \\name, . - \\name\n"
    "    .endm\n"
    "    loop task0\n"
    "    loop task1\n"
    "    .global row\n"
    "    .type row, %function\n"
    "row:\n"
    "    .rept 19\n"
    "    add x0, x0, #1\n"
    "    .endr\n"
    "    ret\n"
    "    .size row, . - row\n"
    "    .global collide\n"
    "    .type collide, %function\n"
    "collide:\n" /* x0: PMSICR_EL1, x1: PMSCR_EL1 */
    "    udiv x3, x0, x1\n"
    "    msr S3_0_C9_C9_0, xzr\n"
    "    isb\n"
    "    msr S3_0_C9_C9_2, x0\n"
    "    isb\n"
    "    msr S3_0_C9_C9_0, x1\n"
    "    isb\n"
    "    ret\n"
    "    .size collide, . - collide\n");
extern char task0[], task0_end[], task1[], task1_end[], row[], collide[];
#define ROW 20 /* operations */

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static u64 data[2];
static struct spe_id id;

static void start(u64 interval) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = interval};
    spe_setup(&session);
}

static unsigned read_records(void) {
    u64 next, end = read_sysreg(PMBPTR_EL1);
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next), sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], &id, 1);
    return next == end && sane == count ? count : ~0u;
}

/* Two tasks, each with its own counters, take turns of odd lengths. */
static void contexts(void) {
    print("# two contexts\n");
    u64 pmsicr[2] = {0, 0}, members[2] = {0, 0}, seed = 12345;
    unsigned count[2] = {0, 0};
    start(INTERVAL);
    for (unsigned slice = 0; slice < SLICES; slice++) {
        unsigned task = slice & 1;
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        u64 loops = 1 + (seed >> 40) % 1500;
        write_sysreg(PMSICR_EL1, pmsicr[task]);
        isb();
        spe_profile(PMSCR_E1SPE, (u64)(task ? task1 : task0), loops, (u64)data, 0);
        pmsicr[task] = read_sysreg(PMSICR_EL1);
        members[task] += 5 * loops + 1 + SPE_PROFILE_OVERHEAD;
    }
    unsigned all = read_records();
    for (unsigned i = 0; i < all && all != ~0u; i++) {
        count[0] += records[i].pc >= (u64)task0 && records[i].pc < (u64)task0_end;
        count[1] += records[i].pc >= (u64)task1 && records[i].pc < (u64)task1_end;
    }
    ok(all != ~0u && count[0] + count[1] + SLICES > all, "whole records, nearly all of them of the tasks");
    for (unsigned task = 0; task < 2; task++) {
        /* every 257th; a save in front of the member behind a reload loses one member of an interval */
        u64 least = members[task] / (INTERVAL + 1), most = members[task] / INTERVAL;
        bool good = count[task] + 4 >= least && count[task] <= most;
        if (!ok(good, task ? "the second is sampled as if it were alone" : "the first is sampled as if it were alone"))
            print("# %u samples, expected %lu to %lu\n", count[task], least, most);
    }
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "no event");
}

static void frozen(void) {
    print("# disabled\n");
    start(INTERVAL);
    spe_profile(PMSCR_E1SPE, (u64)row, 0, 0, 0);
    u64 before = read_sysreg(PMSICR_EL1);
    is(before, INTERVAL - (ROW + SPE_PROFILE_OVERHEAD - 1), "loaded when it was enabled, then counted down");
    ((void (*)(u64))row)(0);
    ((void (*)(u64))row)(0);
    is(read_sysreg(PMSICR_EL1), before, "while profiling is disabled it stands still");
    spe_profile(PMSCR_E1SPE, (u64)row, 0, 0, 0);
    is(read_sysreg(PMSICR_EL1), before - (ROW + SPE_PROFILE_OVERHEAD), "and goes on from there");
    is(read_sysreg(PMBPTR_EL1), (u64)buffer, "no sample so far");
}

/* PMSICR_EL1 := value; the result is which operation of `row` is sampled, counted from 1. */
static u64 sampled(u64 interval, u64 value) {
    start(interval);
    write_sysreg(PMSICR_EL1, value);
    isb();
    spe_profile(PMSCR_E1SPE, (u64)row, 0, 0, 0);
    return read_records() == 1 ? (records[0].pc - (u64)row) / 4 + 1 : 0;
}

#define FRONT 2 /* ISB and BLR, members of the population in front of `row` */

static void restored(void) {
    print("# a value of software's\n");
    is(sampled(INTERVAL, FRONT + 1), 1, "COUNT = k samples the k-th member");
    is(sampled(INTERVAL, FRONT + 17), 17, "another k");
    is(read_sysreg(PMSICR_EL1), INTERVAL - (ROW - 17), "reloaded by that one");
}

static void secondary(void) {
    print("# the secondary counter\n");
    start(INTERVAL);
    write_sysreg(PMSICR_EL1, PMSICR_ECOUNT(0xff) | 7);
    if (!id.ernd) {
        is(read_sysreg(PMSICR_EL1), 7, "this core has none");
        return;
    }
    is(read_sysreg(PMSICR_EL1), PMSICR_ECOUNT(0xff) | 7, "it keeps what is written");
    is(sampled(INTERVAL, PMSICR_ECOUNT(FRONT + 9) | 1000), 9, "ECOUNT = k samples the k-th member");
    is(read_sysreg(PMSICR_EL1), 1000 - (ROW + SPE_PROFILE_OVERHEAD), "and COUNT goes on");
    is(sampled(INTERVAL | PMSIRR_RND, PMSICR_ECOUNT(FRONT + 3) | 1000), 3, "with RND as well");
}

static void collision(void) {
    print("# a collision\n");
    start(INTERVAL);
    write_sysreg(PMSICR_EL1, FRONT + 1); /* the division */
    isb();
    spe_profile(PMSCR_E1SPE, (u64)collide, 1, PMSCR_E1SPE, 0); /* then the operation behind the second enable */
    is(read_sysreg(PMBSR_EL1), PMBSR_COLL, "a direct read of COLL after a context synchronisation event returns 1");
    is(read_records(), 1, "the operation that collided is not sampled");
    is(records[0].pc, (u64)collide, "the division was");
    is(read_sysreg(PMSICR_EL1), INTERVAL - 1, "the next selection is one interval later");
    write_sysreg(PMSICR_EL1, FRONT + 1);
    isb();
    spe_profile(PMSCR_E1SPE, (u64)row, 0, 0, 0);
    is(read_sysreg(PMBSR_EL1), PMBSR_COLL, "COLL stays until software clears it");
    is(read_records(), 2, "and stops nothing");
    spe_resume(read_sysreg(PMBPTR_EL1));
    is(read_sysreg(PMBSR_EL1), 0, "cleared");
}

/* Profiling stays enabled: what was sampled in front of the first ISB is in memory behind the DSB. */
static void synchronised(void) {
    print("# synchronised while enabled\n");
    unsigned good = 0, rounds = 8;
    u64 last = (u64)buffer;
    start(INTERVAL);
    memset(buffer, 0, sizeof buffer);
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    isb();
    for (unsigned round = 0; round < rounds; round++) {
        ((void (*)(u64, u64, u64))task0)(400, (u64)data, 0);
        isb();
        psb_csync();
        dsb(nsh);
        u8 first = *(volatile u8 *)last;
        isb();
        u64 pointer = read_sysreg(PMBPTR_EL1);
        /* the last record: its first byte where records are aligned, else its last */
        good += first && pointer >= last + 400 * 5 / (INTERVAL + 1) * id.align && *(volatile u8 *)(pointer - id.align) != 0;
        last = pointer;
    }
    spe_drain();
    is(good, rounds, "ISB, PSB CSYNC, DSB, ISB: each time the records are in memory, up to PMBPTR_EL1");
}

int main(void) {
    id = spe_probe();
    if (!id.usable || !id.arch_inst)
        return tap_skip_all("needs SPE that samples architecture instructions");
    mmu_on();
    frozen();
    restored();
    secondary();
    contexts();
    synchronised();
    collision();
    spe_stop();
    return tap_done();
}
