/* Holes in the mapping of the Profiling Buffer: stage 1 faults, their syndrome, repair and resumption. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define INTERVAL 256
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

/* The buffer is mapped elsewhere than its memory lies, so translation shows. */
#define WINDOW 0x7000200000ull
#define PAGES 2
#define NO_LEVEL1 0x2000000000ull
#define NO_LEVEL2 0x0c000000ull
#define NO_LEVEL0 0x0000800000000000ull

static u8 memory[PAGES * PAGE] __attribute__((aligned(4096)));
static struct spe_record records[PAGES * PAGE / 16];
static u64 data[2];

static void profile(void) {
    spe_profile(PMSCR_E1SPE | PMSCR_TS | PMSCR_PA | PMSCR_CX, (u64)work, LOOPS, (u64)data, 0);
}

static u64 whole_end; /* behind the last whole record */

/* The fault at `at`; the records begin at `from`, or there are none if that is 0. */
static void check_fault(const struct spe_id *id, u64 at, u64 from, unsigned fsc, const char *name) {
    u64 pmbsr = read_sysreg(PMBSR_EL1), pointer = read_sysreg(PMBPTR_EL1), next = from;
    is(pmbsr & ~(PMBSR_COLL | PMBSR_DL), PMBSR_STAGE1(fsc), name);
    is(pointer, at, "PMBPTR_EL1 is the address that faulted");
    unsigned count = 0;
    if (from)
        count = spe_read_all(from, pointer, id->align, records, ARRAY_SIZE(records), &next);
    whole_end = next;
    unsigned sane = 0;
    for (unsigned i = 0; i < count; i++)
        sane += spe_record_sane(&records[i], id, 1);
    ok(sane == count && (!from || count > 0), "the records in front of it are sound");
    if (!from || next == pointer)
        is(pmbsr & PMBSR_DL, 0, "none is lost in part: DL stays clear");
    else
        is(pmbsr & PMBSR_DL, PMBSR_DL, "the last one is lost in part: DL is set");
}

static void start(u64 buffer, u64 size) {
    struct spe_session session = {.buffer = buffer, .size = size, .interval = INTERVAL};
    memset(memory, 0xa5, sizeof memory);
    spe_setup(&session);
}

static void resume(void) {
    spe_resume(read_sysreg(PMBSR_EL1) & PMBSR_DL ? whole_end : read_sysreg(PMBPTR_EL1));
    profile();
}

static void check_full(const struct spe_id *id) {
    u64 pointer = read_sysreg(PMBPTR_EL1), next;
    is(read_sysreg(PMBSR_EL1) & ~PMBSR_COLL, PMBSR_FULL, "after the repair profiling goes on to the end of the buffer");
    unsigned count = spe_read_all(WINDOW, pointer, id->align, records, ARRAY_SIZE(records), &next);
    ok(next == pointer && count > 0, "with whole records from its beginning");
    ok(memcmp(memory, (void *)WINDOW, sizeof memory) == 0, "in the memory behind the mapping");
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    mmu_on();
    for (u64 page = 0; page < PAGES; page++)
        map_page(WINDOW + page * PAGE, (u64)memory + page * PAGE, PROT_RW);
    const u64 hole = WINDOW + PAGE, behind = (u64)memory + PAGE;
    write_sysreg(esr_el1, 0x1234);
    write_sysreg(far_el1, 0x5678);

    print("# no translation\n");
    unmap_page(hole);
    start(WINDOW, PAGES * PAGE);
    profile();
    check_fault(&id, hole, WINDOW, 0x07, "translation fault, level 3");
    resume();
    check_fault(&id, hole, WINDOW, 0x07, "it faults again if nothing is repaired");
    map_page(hole, behind, PROT_RW);
    resume();
    check_full(&id);

    print("# read-only\n");
    map_page(hole, behind, PROT_RO);
    start(WINDOW, PAGES * PAGE);
    profile();
    check_fault(&id, hole, WINDOW, 0x0f, "permission fault, level 3");
    map_page(hole, behind, PROT_RW);
    resume();
    check_full(&id);

    print("# Access flag clear\n");
    start(WINDOW, PAGES * PAGE);
    map_page_unaccessed(hole, behind, PROT_RW);
    profile();
    check_fault(&id, hole, WINDOW, 0x0b, "Access flag fault, level 3");
    map_page(hole, behind, PROT_RW);
    resume();
    check_full(&id);

    print("# EL0 may not write it, EL1 may\n");
    map_page(hole, behind, PROT_USER_RW);
    start(WINDOW, PAGES * PAGE);
    profile();
    check_full(&id);

    print("# no table\n");
    start(NO_LEVEL2, PAGE);
    profile();
    check_fault(&id, NO_LEVEL2, 0, 0x06, "translation fault, level 2");
    start(NO_LEVEL1, PAGE);
    profile();
    check_fault(&id, NO_LEVEL1, 0, 0x05, "translation fault, level 1");
    start(NO_LEVEL0, PAGE);
    profile();
    check_fault(&id, NO_LEVEL0, 0, 0x04, "an address out of range: translation fault, level 0");

    is(read_sysreg(esr_el1), 0x1234, "ESR_EL1 knows nothing of all this");
    is(read_sysreg(far_el1), 0x5678, "nor does FAR_EL1");
    spe_stop();
    return tap_done();
}
