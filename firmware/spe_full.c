/* The buffer fills: syndrome, pointer, silence until it is served, restart; discard mode. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define INTERVAL 256
#define ROUNDS 4
#define LOOPS 14000

asm("    .text\n"
    "    .global work, work_end\n"
    "    .type work, %function\n"
    "work:\n"
    "    ldr x3, [x1]\n"
    "    str x3, [x1, #8]\n"
    "    add x2, x2, x3\n"
    "    subs x0, x0, #1\n"
    "    b.ne work\n"
    "    ret\n"
    "work_end:\n"
    "    .size work, . - work\n");
extern char work[], work_end[];

static u8 buffer[4 * PAGE] __attribute__((aligned(4096)));
static struct spe_record records[2 * PAGE / 16];
static u64 data[2];

static bool untouched_from(u64 at) {
    for (; at < (u64)buffer + sizeof buffer; at++)
        if (*(volatile u8 *)at != 0xa5)
            return false;
    return true;
}

static void profile(u64 loops) {
    spe_profile(PMSCR_E1SPE | PMSCR_TS | PMSCR_PA, (u64)work, loops, (u64)data, 0);
}

/* Checks what lies between `from` and PMBPTR_EL1, which has stopped below `limit`. */
static void check_full(const struct spe_id *id, u64 from, u64 limit) {
    u64 end = read_sysreg(PMBPTR_EL1), next;
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_FULL, "PMBSR_EL1: S, EC 0, BSC buffer full, DL and EA clear");
    ok(end <= limit && end > limit - id->max_size && end % id->align == 0,
       "PMBPTR_EL1 leaves no room for a record of the largest size");
    unsigned count = spe_read_all(from, end, id->align, records, ARRAY_SIZE(records), &next);
    is(next, end, "whole records up to there");
    unsigned sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], id, 1);
    is(sane, count, "all of them sound");
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    mmu_on();
    memset(buffer, 0xa5, sizeof buffer);

    u64 start = (u64)buffer, limit = start + PAGE;
    struct spe_session session = {.buffer = start, .size = PAGE, .interval = INTERVAL};
    spe_setup(&session);
    for (unsigned round = 0; round < ROUNDS; round++) {
        print("# round %u\n", round + 1);
        profile(LOOPS);
        check_full(&id, start, limit);
        spe_resume(start);
    }
    ok(untouched_from(limit), "nothing was written at or beyond the limit");

    print("# unserved\n");
    profile(LOOPS);
    u64 pointer = read_sysreg(PMBPTR_EL1), count = read_sysreg(PMSICR_EL1);
    profile(LOOPS);
    is(read_sysreg(PMBPTR_EL1), pointer, "while S is set PMBPTR_EL1 stands still");
    is(read_sysreg(PMSICR_EL1), count, "and so does PMSICR_EL1");

    print("# a larger limit\n");
    spe_set_buffer(pointer, 0, (limit + PAGE) | PMBLIMITR_E);
    profile(LOOPS);
    check_full(&id, start, limit + PAGE);
    ok(untouched_from(limit + PAGE), "nothing was written at or beyond the new limit");

    print("# software sets S\n");
    spe_set_buffer(start, PMBSR_S, (limit + PAGE) | PMBLIMITR_E);
    profile(1000);
    is(read_sysreg(PMBPTR_EL1), start, "profiling is stopped");
    is(read_sysreg(PMBSR_EL1), PMBSR_S, "and PMBSR_EL1 keeps what was written");

    if (id.version >= 3) {
        print("# discard mode\n");
        session.discard = true;
        spe_setup(&session);
        memset(buffer, 0xa5, sizeof buffer);
        profile(LOOPS);
        is(read_sysreg(PMBPTR_EL1), start, "PMBPTR_EL1 stands still");
        is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, 0, "there is no management event");
        ok(read_sysreg(PMSICR_EL1) != 0, "sampling went on");
        ok(untouched_from(start), "nothing was written");
    }
    spe_stop();
    return tap_done();
}
