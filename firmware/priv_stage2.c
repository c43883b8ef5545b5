/* Stage 2 translation, with EL1's own stage 1 off and on: what a guest reaches, and every fault at EL2. */
#include "lib/el.h"
#include "lib/stage2.h"

#define WINDOW 0x44000000ull /* pages of the test's own */
#define REMAPPED WINDOW
#define HOLE (WINDOW + 1 * PAGE)
#define READ_ONLY (WINDOW + 2 * PAGE)
#define NO_ACCESS (WINDOW + 3 * PAGE)
#define NEVER_EXECUTE (WINDOW + 4 * PAGE)
#define UNACCESSED (WINDOW + 5 * PAGE)
#define EMULATED (WINDOW + 6 * PAGE)
#define ON_DEMAND (WINDOW + 7 * PAGE)
#define WRITE_ONLY (WINDOW + 8 * PAGE)
#define NO_LEVEL2 0x0c000000ull
#define NO_LEVEL1 0x1000000000ull
#define TOO_LARGE 0x8000000000ull /* 39 bits */
#define HVC_ESR(n) (0x5a000000ull | (n))

#define ISV BIT(24)
#define SIZE(log2) ((u64)(log2) << 22)
#define SSE BIT(21)
#define SRT(n) ((u64)(n) << 16)
#define SF BIT(15)
#define AR BIT(14)
#define S1PTW BIT(7)
#define WNR BIT(6)
#define DATA_ESR(iss) (0x92000000ull | (iss))
#define FETCH_ESR(iss) (0x82000000ull | (iss))

static u64 backing[2][512] __attribute__((aligned(4096)));

/* Accesses by instructions that the syndrome can and cannot describe. */
enum access { LDRB, LDRSH_X, LDRSH_W, LDR_W, LDR_X, LDRSW, LDAR, STRB, STR_W, STR_X, STR_XZR, STLR, STUR, LDP, POST, LDR_Q, LDTR };

static u64 el1_access(u64 which, u64 address) {
    switch ((enum access)which) {
#define ACCESS(kind, instruction)                                                               \
    case kind:                                                                                  \
        asm volatile(instruction : "+r"(address)::"x5", "x6", "x7", "x8", "x9", "x17", "memory"); \
        break;
        ACCESS(LDRB, "ldrb w5, [%0]")
        ACCESS(LDRSH_X, "ldrsh x6, [%0]")
        ACCESS(LDRSH_W, "ldrsh w6, [%0]")
        ACCESS(LDR_W, "ldr w7, [%0]")
        ACCESS(LDR_X, "ldr x8, [%0]")
        ACCESS(LDRSW, "ldrsw x17, [%0]")
        ACCESS(LDAR, "ldar x9, [%0]")
        ACCESS(STRB, "strb w5, [%0]")
        ACCESS(STR_W, "str w6, [%0]")
        ACCESS(STR_X, "str x7, [%0]")
        ACCESS(STR_XZR, "str xzr, [%0]")
        ACCESS(STLR, "stlr w9, [%0]")
        ACCESS(STUR, "stur x17, [%0, #0]")
        ACCESS(LDP, "ldp x5, x6, [%0]")
        ACCESS(POST, "ldr x5, [%0], #8")
        ACCESS(LDR_Q, "ldr q0, [%0]")
        ACCESS(LDTR, "ldtr x7, [%0]")
    }
    return 0;
}

static u64 el1_load(u64 address, u64 b) {
    u64 value = b;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 el1_store(u64 address, u64 value) {
    asm volatile("str %0, [%1]" ::"r"(value), "r"(address) : "memory");
    return value;
}

static u64 el1_call(u64 address, u64 b) {
    (void)b;
    ((void (*)(void))address)();
    return 0;
}

static void is_fault(u64 esr, u64 far, u64 ipa, const char *name) {
    u64 hpfar = caught.hpfar << 8;
    is_trap(2, FROM_LOWER(VECTOR_SYNC), esr, name);
    if (caught.far != far)
        is(caught.far, far, "FAR_EL2");
    if (ipa && hpfar != (ipa & ~0xfffull))
        is(hpfar, ipa & ~0xfffull, "HPFAR_EL2");
}

void on_trap(struct trap *trap) {
    u64 ipa = trap->hpfar << 8;
    bool is_abort = ESR_EC(trap->esr) == EC_DATA_ABORT_LOWER || ESR_EC(trap->esr) == EC_INSTRUCTION_ABORT_LOWER;
    if (trap->level == 2 && is_abort && trap->esr & S1PTW)
        trap->esr &= ~3ull; /* the level is that of stage 2; QEMU says that of stage 1 */
    if (trap->level == 2 && ESR_EC(trap->esr) == EC_DATA_ABORT_LOWER && (trap->esr & 0x3c) == 4) {
        if (ipa == ON_DEMAND) {
            stage2_map(ipa, (u64)backing[1], S2_RWX);
            taken++;
            return;
        }
        if (ipa == EMULATED && trap->esr & ISV) {
            u64 *x = &trap->x[FIELD(trap->esr, 20, 16)];
            static u64 device;
            if (trap->esr & WNR)
                device = *x + 1;
            else
                *x = device;
            trap->elr += 4;
            taken++;
            return;
        }
    }
    record_and_skip(trap);
}

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    isb();
}

static void reached(void) {
    print("# what the guest reaches\n");
    backing[0][0] = 0x1234;
    *(u64 *)REMAPPED = 0x9999;
    *(u64 *)(READ_ONLY + 8) = 0; /* faults() loads it */
    stage2_map(REMAPPED, (u64)backing[0], S2_RWX);
    is(call_at(EL1H, el1_load, REMAPPED, 0), 0x1234, "a page is found elsewhere");
    call_at(EL1H, el1_store, REMAPPED + 8, 0x5678);
    is(backing[0][1], 0x5678, "and written there");
    is(*(u64 *)REMAPPED, 0x9999, "EL2 itself is not translated");
    is(call_at(EL1H, el1_load, (u64)&backing[0][1], 0), 0x5678, "all else is one to one");
    is_no_trap("without a fault");
    stage2_map(REMAPPED, (u64)backing[1], S2_RWX);
    backing[1][0] = 0x4321;
    is(call_at(EL1H, el1_load, REMAPPED, 0), 0x4321, "mapped anew, it is used at once");

    is(call_at(EL1H, el1_load, ON_DEMAND, 0), 0x4321, "mapped when it is first used");
    is(taken, 1, "by one exception");
    taken = 0;
    call_at(EL1H, el1_store, EMULATED + 16, 0x77);
    is(call_at(EL1H, el1_load, EMULATED + 16, 0), 0x78, "a device that EL2 emulates by the syndrome");
    is(taken, 2, "by two exceptions");
    taken = 0;
}

static void syndromes(void) {
    print("# syndromes\n");
    static const struct {
        const char *name;
        enum access access;
        u64 iss;
    } tests[] = {
        {"LDRB w5", LDRB, ISV | SIZE(0) | SRT(5)},
        {"LDRSH x6", LDRSH_X, ISV | SIZE(1) | SSE | SRT(6) | SF},
        {"LDRSH w6", LDRSH_W, ISV | SIZE(1) | SSE | SRT(6)},
        {"LDR w7", LDR_W, ISV | SIZE(2) | SRT(7)},
        {"LDR x8", LDR_X, ISV | SIZE(3) | SRT(8) | SF},
        {"LDRSW x17", LDRSW, ISV | SIZE(2) | SSE | SRT(17) | SF},
        {"LDAR x9", LDAR, ISV | SIZE(3) | SRT(9) | SF | AR},
        {"STRB w5", STRB, ISV | SIZE(0) | SRT(5) | WNR},
        {"STR w6", STR_W, ISV | SIZE(2) | SRT(6) | WNR},
        {"STR x7", STR_X, ISV | SIZE(3) | SRT(7) | SF | WNR},
        {"STR xzr", STR_XZR, ISV | SIZE(3) | SRT(31) | SF | WNR},
        {"STLR w9", STLR, ISV | SIZE(2) | SRT(9) | AR | WNR},
        {"STUR x17", STUR, ISV | SIZE(3) | SRT(17) | SF | WNR},
        {"LDTR x7", LDTR, ISV | SIZE(3) | SRT(7) | SF},
        {"LDP", LDP, 0},
        {"LDR with post-index", POST, 0},
        {"LDR q0", LDR_Q, 0},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        call_at(EL1H, el1_access, tests[i].access, HOLE + 16 * i);
        is_fault(DATA_ESR(tests[i].iss | 0x07), HOLE + 16 * i, HOLE, tests[i].name);
    }
}

static void faults(void) {
    print("# faults\n");
    call_at(EL1H, el1_access, LDR_X, HOLE + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x07), HOLE + 8, HOLE, "translation fault, level 3");
    call_at(EL1H, el1_access, LDR_X, NO_LEVEL2 + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x06), NO_LEVEL2 + 8, NO_LEVEL2, "level 2");
    call_at(EL1H, el1_access, LDR_X, NO_LEVEL1 + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x05), NO_LEVEL1 + 8, NO_LEVEL1, "level 1");
    call_at(EL1H, el1_access, LDR_X, TOO_LARGE + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x04), TOO_LARGE + 8, TOO_LARGE, "an IPA too large");
    call_at(EL1H, el1_access, STR_X, READ_ONLY + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(7) | SF | WNR | 0x0f), READ_ONLY + 8, 0, "a store to a read-only page");
    call_at(EL1H, el1_access, LDR_X, READ_ONLY + 8);
    is_no_trap("which can be read");
    call_at(EL1H, el1_access, LDR_X, NO_ACCESS + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x0f), NO_ACCESS + 8, 0, "a load without permission");
    call_at(EL1H, el1_access, LDR_X, WRITE_ONLY + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x0f), WRITE_ONLY + 8, 0, "a load from a write-only page");
    call_at(EL1H, el1_access, STR_X, WRITE_ONLY + 8);
    is_no_trap("which can be written");
    call_at(EL1H, el1_access, LDR_X, UNACCESSED + 8);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x0b), UNACCESSED + 8, UNACCESSED, "Access flag");
    call_at(EL1H, el1_call, HOLE + 0x40, 0);
    is_fault(FETCH_ESR(0x07), HOLE + 0x40, HOLE, "translation fault of a fetch");
    is(caught.elr, HOLE + 0x40, "ELR_EL2 is there");
    call_at(EL1H, el1_call, NEVER_EXECUTE + 0x40, 0);
    is_fault(FETCH_ESR(0x0f), NEVER_EXECUTE + 0x40, 0, "permission fault of a fetch");
    call_at(EL1H, el1_call, NO_LEVEL2 + 0x40, 0);
    is_fault(FETCH_ESR(0x06), NO_LEVEL2 + 0x40, NO_LEVEL2, "translation fault of a fetch, level 2");
}

/* --- Both stages --- */

static u64 USER_TEXT user_load(u64 address, u64 b) {
    u64 value = b;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 el1_of_el0(u64 address, u64 b) {
    return call_at(EL0T, user_load, address, b);
}

/* Level 3 tables of EL1's own, for two blocks of addresses, in pages of their own. */
#define VA 0x2000000000ull
static u64 root[512] __attribute__((aligned(4096)));
static u64 walked[2][512] __attribute__((aligned(4096)));

#define S1_PAGE(ipa) ((ipa) | 3 | 1 << 2 | 3 << 8 | BIT(10) | BIT(53) | BIT(54))

static void both_stages(void) {
    print("# both stages\n");
    set_hcr(0);
    mmu_on(); /* EL1's, from EL2 */
    map_page(VA, REMAPPED, PROT_RW);
    map_page(VA + PAGE, HOLE, PROT_RW);
    map_page(VA + 2 * PAGE, READ_ONLY, PROT_RW);
    map_page(VA + 3 * PAGE, READ_ONLY, PROT_RO);
    map_page(VA + 4 * PAGE, REMAPPED, PROT_USER_RW);
    map_page(VA + 5 * PAGE, HOLE, PROT_USER_RW);
    map_page(VA + 6 * PAGE, HOLE, PROT_RX);
    unmap_page(VA + 7 * PAGE);
    set_hcr(HCR_VM);
    stage2_invalidate();

    is(call_at(EL1H, el1_load, VA, 0), 0x4321, "VA to IPA to PA");
    is(call_at(EL1H, el1_of_el0, VA + 4 * PAGE, 0), 0x4321, "for EL0, too");
    is_no_trap("without a fault");
    call_at(EL1H, el1_access, LDR_X, VA + PAGE + 0x18);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x07), VA + PAGE + 0x18, HOLE, "stage 2 translation fault");
    call_at(EL1H, el1_access, STR_X, VA + 2 * PAGE);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(7) | SF | WNR | 0x0f), VA + 2 * PAGE, 0, "stage 2 permission fault");
    call_at(EL1H, el1_access, STR_X, VA + 3 * PAGE);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x9600004f, "stage 1 permission fault is EL1's");
    call_at(EL1H, el1_access, LDR_X, VA + 7 * PAGE);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000007, "stage 1 translation fault is EL1's");
    call_at(EL1H, el1_of_el0, VA + 5 * PAGE, 0);
    is(caught.esr & ~(u64)(0x1f << 16), DATA_ESR(ISV | SIZE(3) | SF | 0x07), "stage 2 fault of EL0");
    is(caught.level, 2, "goes to EL2");
    taken = 0;
    call_at(EL1H, el1_of_el0, (u64)backing, 0);
    is_trap(1, FROM_LOWER(VECTOR_SYNC), 0x9200000f, "stage 1 permission fault of EL0 is EL1's");
    call_at(EL1H, el1_call, VA + 6 * PAGE + 0x40, 0);
    is_fault(FETCH_ESR(0x07), VA + 6 * PAGE + 0x40, HOLE, "stage 2 fault of a fetch");
}

static void walks(void) {
    print("# stage 2 faults of stage 1 walks\n");
    /* EL1's level 1 table is in reach; that of level 2 for this VA is not always. */
    root[0] = 0;
    const u64 *own = (const u64 *)(read_sysreg(ttbr0_el1) & ~0xfffull);
    memcpy(root, own, sizeof root);
    root[VA >> 30] = (u64)walked[0] | 3;
    walked[0][0] = (u64)walked[1] | 3;
    walked[1][0] = S1_PAGE(REMAPPED);
    write_sysreg(ttbr0_el1, root);
    isb();
    stage2_invalidate();
    is(call_at(EL1H, el1_load, VA, 0), 0x4321, "tables in reach");
    is_no_trap("without a fault");
    stage2_unmap((u64)walked[1]);
    stage2_invalidate();
    call_at(EL1H, el1_access, LDR_X, VA + 0x28);
    is_fault(DATA_ESR(S1PTW | 0x04), VA + 0x28, (u64)walked[1], "level 3 table not mapped");
    stage2_map((u64)walked[1], (u64)walked[1], S2_WRITE | S2_ACCESSED | S2_NORMAL);
    stage2_invalidate();
    call_at(EL1H, el1_access, LDR_X, VA + 0x28);
    is_fault(DATA_ESR(S1PTW | 0x0c), VA + 0x28, (u64)walked[1], "level 3 table not readable");
    stage2_map((u64)walked[1], (u64)walked[1], S2_RWX);
    stage2_unmap((u64)walked[0]);
    stage2_invalidate();
    call_at(EL1H, el1_access, LDR_X, VA + 0x30);
    is_fault(DATA_ESR(S1PTW | 0x04), VA + 0x30, (u64)walked[0], "level 2 table not mapped");
    call_at(EL1H, el1_call, VA + 0x40, 0);
    is_fault(FETCH_ESR(S1PTW | 0x04), VA + 0x40, (u64)walked[0], "for a fetch");
    stage2_map((u64)walked[0], (u64)walked[0], S2_RWX);
    stage2_invalidate();
    is(call_at(EL1H, el1_load, VA, 0), 0x4321, "tables in reach again");
    walked[1][1] = S1_PAGE(TOO_LARGE);
    dsb(ish);
    call_at(EL1H, el1_access, LDR_X, VA + PAGE);
    is_fault(DATA_ESR(ISV | SIZE(3) | SRT(8) | SF | 0x04), VA + PAGE, TOO_LARGE, "stage 1 makes an IPA too large");
}

/* --- Address translation instructions --- */

#define AT(operation, address)                                          \
    ({                                                                  \
        asm volatile("at " #operation ", %0\n isb" ::"r"(address) : "memory"); \
        read_sysreg(par_el1);                                           \
    })
#define PAR_FAULT(par) ((par) & 0x37f) /* F, FST, PTW, S */
#define PAR_ADDRESS(par) ((par) & 0x0000fffffffff001ull)

static void translations(void) {
    print("# AT at EL2\n");
    is(PAR_ADDRESS(AT(s1e1r, VA + 0x123)), REMAPPED, "S1E1R gives the IPA");
    is(PAR_ADDRESS(AT(s12e1r, VA + 0x123)), (u64)backing[1], "S12E1R gives the PA");
    is(PAR_ADDRESS(AT(s12e1w, VA)), (u64)backing[1], "S12E1W, too");
    is(PAR_FAULT(AT(s1e1r, VA + 2 * PAGE)), 1 | 0x07 << 1, "S1E1R: stage 1 translation fault");
    is(PAR_FAULT(AT(s12e1r, VA + 2 * PAGE)), 1 | 0x07 << 1, "S12E1R: stage 1 translation fault");
    walked[1][3] = S1_PAGE(HOLE);
    walked[1][4] = S1_PAGE(READ_ONLY);
    dsb(ish);
    is(PAR_FAULT(AT(s12e1r, VA + 3 * PAGE)), 1 | 0x07 << 1 | 1 << 9, "S12E1R: stage 2 translation fault");
    is(PAR_FAULT(AT(s12e1w, VA + 4 * PAGE)), 1 | 0x0f << 1 | 1 << 9, "S12E1W: stage 2 permission fault");
    is(PAR_ADDRESS(AT(s12e1r, VA + 4 * PAGE)), READ_ONLY, "S12E1R: readable");
    is(PAR_FAULT(AT(s12e0r, VA)), 1 | 0x0f << 1, "S12E0R: stage 1 permission fault");
    is(PAR_ADDRESS(AT(s1e2r, REMAPPED)), REMAPPED, "S1E2R: EL2's own MMU is off");
    is_no_trap("no exception from any");
}

/* --- VMIDs --- */

static u64 other_root[512] __attribute__((aligned(4096)));
static u64 other_level2[512] __attribute__((aligned(4096)));

static void vmids(void) {
    print("# VMIDs\n");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL); /* stage 1 off */
    isb();
    stage2_invalidate();
    memcpy(other_root, (void *)stage2_root(), sizeof other_root);
    memcpy(other_level2, (void *)(other_root[1] & 0x0000fffffffff000), sizeof other_level2);
    other_root[1] = (u64)other_level2 | 3;
    other_level2[WINDOW >> 21 & 511] = RAM_BASE | 0x05000000 | S2_RWX | 1; /* another block behind the window */
    *(u64 *)(RAM_BASE + 0x05000000) = 0xabcd;
    dsb(ish);
    for (unsigned round = 0; round < 2; round++) {
        write_sysreg(vttbr_el2, stage2_root());
        isb();
        is(call_at(EL1H, el1_load, REMAPPED, 0), 0x4321, "VMID 0 sees its page");
        write_sysreg(vttbr_el2, (u64)other_root | 1ull << 48);
        isb();
        is(call_at(EL1H, el1_load, REMAPPED, 0), 0xabcd, "VMID 1 sees its own");
    }
    write_sysreg(vttbr_el2, stage2_root());
    set_hcr(0);
    is(call_at(EL1H, el1_load, REMAPPED, 0), 0x9999, "without HCR_EL2.VM there is no stage 2");
    is_no_trap("no exception");
}

int main(void) {
    if (current_el() != 2)
        return tap_skip_all("needs a start at EL2");
    prepare_el2();
    prepare_el1();
    stage2_init();
    stage2_unmap(HOLE);
    stage2_map(READ_ONLY, READ_ONLY, S2_READ | S2_ACCESSED | S2_NORMAL);
    stage2_map(NO_ACCESS, NO_ACCESS, S2_ACCESSED | S2_NORMAL);
    stage2_map(WRITE_ONLY, WRITE_ONLY, S2_WRITE | S2_ACCESSED | S2_NORMAL);
    stage2_map(NEVER_EXECUTE, NEVER_EXECUTE, S2_RWX | S2_XN);
    stage2_map(UNACCESSED, UNACCESSED, S2_RWX & ~S2_ACCESSED);
    stage2_unmap(EMULATED);
    stage2_unmap(ON_DEMAND);
    set_hcr(HCR_VM);
    reached();
    syndromes();
    faults();
    both_stages();
    walks();
    translations();
    vmids();
    return tap_done();
}
