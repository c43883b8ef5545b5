/* A driver that relies on nothing but what the architecture promises. An argument has it make a mistake that
   passes on a kind implementation: no-isb, no-drain, re-arm. */
#include "lib/arguments.h"
#include "lib/mmu.h"
#include "lib/spe.h"

#define RECORDS 512
#define SESSIONS 3
#define FIRST 7 /* members up to the first sample: PMSICR_EL1 */
#define NEAR 64 /* bytes of code in which it lies */
#define LOOPS 40

/* Long enough that a write which comes late shows: nothing repeats within one pass. */
asm("    .text\n"
    "    .global walk, walk_end\n"
    "    .type walk, %function\n"
    "walk:\n"
    "1:  .rept 1024\n"
    "    add x1, x1, #1\n"
    "    .endr\n"
    "    subs x0, x0, #1\n"
    "    b.ne 1b\n"
    "    ret\n"
    "walk_end:\n"
    "    .size walk, . - walk\n");
extern char walk[], walk_end[];

static u8 buffer[RECORDS * 64 + PAGE] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];

static bool no_isb, no_drain, re_arm;

static bool makes(const char *mistake) {
    const char *said = argument(1);
    return said && strcmp(said, mistake) == 0;
}

/* Leaves the buffer enabled and everything synchronized; only PMSCR_EL1 is left to be written. */
static void arm(u64 interval, u64 size) {
    write_sysreg(PMSCR_EL1, 0);
    isb();
    if (!re_arm) {
        write_sysreg(PMBLIMITR_EL1, 0);
        isb();
    }
    write_sysreg(PMBSR_EL1, 0);
    write_sysreg(PMBPTR_EL1, buffer);
    write_sysreg(PMSFCR_EL1, 0);
    write_sysreg(PMSIRR_EL1, interval);
    isb();
    write_sysreg(PMSICR_EL1, FIRST);
    isb();
    write_sysreg(PMBLIMITR_EL1, ((u64)buffer + size) | PMBLIMITR_E);
    isb();
}

static void profile(void) {
    write_sysreg(PMSCR_EL1, PMSCR_E1SPE);
    if (!no_isb)
        isb();
    ((void (*)(u64))(u64)walk)(LOOPS);
    write_sysreg(PMSCR_EL1, 0);
    isb();
    if (!no_drain) {
        psb_csync();
        dsb(nsh);
        isb();
    }
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("there is no SPE that EL1 may use");
    mmu_on();
    no_isb = makes("no-isb");
    no_drain = makes("no-drain");
    re_arm = makes("re-arm");
    u64 interval = id.min_interval < 256 ? 256 : id.min_interval;
    u64 members = LOOPS * (1024 + 2);
    for (unsigned session = 0; session < SESSIONS; session++) {
        memset(buffer, 0, sizeof buffer);
        arm(interval, sizeof buffer < id.max_buffer ? sizeof buffer : id.max_buffer);
        profile();
        u64 next;
        u64 end = read_sysreg(PMBPTR_EL1);
        unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
        is(next, end, "whole records");
        ok(buffer[0] != 0, "from the buffer's start");
        ok(count + 1 >= members / (interval + 1), "as many as the operations give");
        if (id.arch_inst)
            ok(count && records[0].pc - (u64)walk < NEAR, "the first is where it was asked for");
        is(read_sysreg(PMBSR_EL1) & PMBSR_S, 0, "no event");
        if (!re_arm)
            write_sysreg(PMBLIMITR_EL1, 0);
        isb();
    }
    return tap_done();
}
