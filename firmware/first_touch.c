/* A small hypervisor that maps pages of 4 KiB at stage 2 when its guest first touches them, as KVM does. The guest
   takes exceptions of every kind from EL1 and EL0 with its vectors not mapped, stage 1 off and on, and profiles. At last it
   has no vectors at all, and its hypervisor goes on upon a timer. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/spe.h"
#include "lib/stage2.h"

#define HCR_FMO BIT(3)
#define HCR_IMO BIT(4)
#define HCR_AMO BIT(5)
#define HCR_VF BIT(6)
#define HCR_VI BIT(7)
#define HCR_VSE BIT(8)
#define MDCR_E2PB (3ull << 12)
#define SCTLR_UCT BIT(15)
#define S1PTW BIT(7)
#define TRANSLATION_FAULT(esr) (((esr) & 0x3c) == 4)
#define FETCH_ESR(iss) (0x82000000ull | (iss))
#define VALID BIT(0)
#define TABLE BIT(1)
#define ADDRESS_MASK 0x0000fffffffff000ull

#define HOLE 0x2000000000ull /* stage 1 has a table for it, and no page */
#define FAR_VECTORS 0x2040000000ull /* where stage 1 has the vectors as well, by tables of their own */
#define FORGET 1 /* HVC: unmap everything */
#define ROUNDS 200
#define INTERVAL 256
#define RECORDS 512

/* The guest's vectors, alone in their page. Each notes what it was given, and goes to X15 at EL1. */
asm(".macro guest_vector index\n"
    "    .balign 128\n"
    "    mrs x9, esr_el1\n"
    "    mrs x10, elr_el1\n"
    "    mrs x11, far_el1\n"
    "    mrs x12, spsr_el1\n"
    "    mov x13, #\\index\n"
    "    ldr x14, =guest_caught\n"
    "    stp x9, x10, [x14]\n"
    "    stp x11, x12, [x14, #16]\n"
    "    str x13, [x14, #32]\n"
    "    mov x9, #0x3c5\n"
    "    msr spsr_el1, x9\n"
    "    msr elr_el1, x15\n"
    "    eret\n"
    ".endm\n"
    "    .section .text.guest_vectors, \"ax\"\n"
    "    .balign 4096\n"
    "    .type guest_vectors, %function\n"
    "guest_vectors:\n"
    "    .irp index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "    guest_vector \\index\n"
    "    .endr\n"
    "    .ltorg\n"
    "    .balign 4096\n"
    "    .size guest_vectors, . - guest_vectors\n");

/* Vectors of zeros, each of which is UDF. */
asm("    .section .text.undefined_vectors, \"ax\"\n"
    "    .balign 2048\n"
    "    .type undefined_vectors, %function\n"
    "undefined_vectors:\n"
    "    .rept 512\n"
    "    .inst 0\n"
    "    .endr\n"
    "    .size undefined_vectors, . - undefined_vectors\n");

/* u64 guest_cause(cause, spsr): goes there by ERET; the vector of the exception returns here. */
asm("    .section .text.guest_cause, \"ax\"\n"
    "    .type guest_cause, %function\n"
    "guest_cause:\n"
    "    msr elr_el1, x0\n"
    "    msr spsr_el1, x1\n"
    "    adr x15, 1f\n"
    "    eret\n"
    "1:  ret\n"
    "    .size guest_cause, . - guest_cause\n");

asm(".macro cause name, first, second, third\n"
    "    .section .text.causes, \"ax\"\n"
    "    .type el1_\\name, %function\n"
    "el1_\\name:\n"
    "    \\first\n"
    "    \\second\n"
    "    \\third\n"
    "    .size el1_\\name, . - el1_\\name\n"
    "    .section .user.text, \"ax\"\n"
    "    .type el0_\\name, %function\n"
    "el0_\\name:\n"
    "    \\first\n"
    "    \\second\n"
    "    \\third\n"
    "    .size el0_\\name, . - el0_\\name\n"
    ".endm\n"
    "    cause svc, \"svc #0x123\"\n"
    "    cause udf, \".inst 0\"\n"
    "    cause brk, \"brk #7\"\n"
    "    cause fp, \".inst 0x1e602800\"\n"
    "    cause ctr, \"mrs x9, ctr_el0\"\n"
    "    cause load, \"mov x9, #0x2000000000\", \"ldr x9, [x9]\"\n"
    "    cause store, \"mov x9, #0x2000000000\", \"str x9, [x9]\"\n"
    "    cause fetch, \"mov x9, #0x2000000000\", \"br x9\"\n"
    "    cause odd, \"adr x9, .\", \"add x9, x9, #2\", \"br x9\"\n"
    "    cause spin, \"9: b 9b\"\n"
    "    .text\n");

extern char guest_vectors[], undefined_vectors[];
extern char el1_svc[], el1_udf[], el1_brk[], el1_fp[], el1_load[], el1_store[], el1_fetch[], el1_odd[], el1_spin[];
extern char el0_svc[], el0_udf[], el0_brk[], el0_fp[], el0_ctr[], el0_load[], el0_store[], el0_fetch[], el0_odd[],
    el0_spin[];
u64 guest_cause(u64 cause, u64 spsr);

struct {
    u64 esr, elr, far, spsr, vector;
} guest_caught __attribute__((aligned(16)));

/* What EL2 has mapped since it last forgot everything. */
static struct trap touches[64];
static unsigned touched;
static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];

static u64 *table_of(const u64 *entry) {
    return (u64 *)(*entry & ADDRESS_MASK);
}

/* No page of RAM is mapped any more, but for the Profiling Buffer, which no hypervisor may take away. */
static void forget(void) {
    u64 *level2 = table_of((u64 *)stage2_root() + (RAM_BASE >> 30));
    for (unsigned i = 0; i < RAM_SIZE / BLOCK; i++) {
        if (level2[i] & VALID && level2[i] & TABLE)
            memset(table_of(&level2[i]), 0, PAGE);
        else
            level2[i] = 0;
    }
    stage2_invalidate();
    for (u64 page = (u64)buffer; page < (u64)buffer + sizeof buffer; page += PAGE)
        stage2_map(page, page, S2_RWX);
    touched = 0;
}

void on_trap(struct trap *trap) {
    u64 ipa = trap->hpfar << 8, class = ESR_EC(trap->esr);
    bool abort = class == EC_DATA_ABORT_LOWER || class == EC_INSTRUCTION_ABORT_LOWER;
    if (trap->level == 2 && abort && TRANSLATION_FAULT(trap->esr) && ipa >= RAM_BASE && ipa < RAM_BASE + RAM_SIZE) {
        if (touched < ARRAY_SIZE(touches))
            touches[touched] = *trap;
        touched++;
        stage2_map(ipa, ipa, S2_RWX);
    } else if (trap->level == 2 && class == EC_HVC && FIELD(trap->esr, 15, 0) == FORGET) {
        forget();
    } else {
        record_and_skip(trap);
    }
}

/* Whether EL2 has mapped the page of a vector once, upon the fetch there, with EL1's PSTATE as after the entry. */
static bool is_touched(u64 vector, u64 ipa) {
    unsigned found = 0;
    for (unsigned i = 0; i < touched && i < ARRAY_SIZE(touches); i++) {
        const struct trap *t = &touches[i];
        if (t->hpfar << 8 == (ipa & ~(PAGE - 1)) && t->far == vector && t->elr == vector &&
            t->esr == FETCH_ESR(0x07) && (t->spsr & SPSR_CHECKED) == EL1H && t->vector == FROM_LOWER(VECTOR_SYNC))
            found++;
    }
    return found == 1;
}

/* One exception of the guest, with nothing mapped before it. 0 for an ESR or FAR that it does not write. */
static void exception(const char *stage1, const char *name, const char *cause, u64 spsr, const char *elr, unsigned kind,
                      u64 esr, u64 far) {
    unsigned from = (spsr & 0xf) == 0 ? 8 : 4;
    u64 vector = (u64)guest_vectors + (from + kind) * 128;
    forget();
    memset(&guest_caught, 0, sizeof guest_caught);
    call_at(EL1H, guest_cause, (u64)cause, spsr);
    bool good = guest_caught.vector == from + kind && (!esr || guest_caught.esr == esr) && guest_caught.elr == (u64)elr &&
                (guest_caught.spsr & SPSR_CHECKED) == spsr && (!far || guest_caught.far == far) && !taken;
    bool mapped = is_touched(vector, (u64)guest_vectors);
    print("# stage 1 %s, %s\n", stage1, from == 8 ? "EL0" : "EL1");
    if (!ok(good && mapped, name))
        print("# vector %lu, ESR 0x%lx, ELR 0x%lx, FAR 0x%lx, SPSR 0x%lx; page mapped for it: %d, others taken: %u\n",
              guest_caught.vector, guest_caught.esr, guest_caught.elr, guest_caught.far, guest_caught.spsr, mapped,
              taken);
    taken = 0;
}

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | HCR_VM | bits);
    isb();
}

static void interrupt(const char *stage1, const char *name, const char *cause, u64 spsr, unsigned kind,
                      u64 hcr) {
    set_hcr(hcr);
    exception(stage1, name, cause, spsr, cause, kind, 0, 0);
    set_hcr(0);
}

static void exceptions(const char *stage1, bool translated) {
    exception(stage1, "SVC", el1_svc, EL1H, el1_svc + 4, 0, 0x56000123, 0);
    exception(stage1, "SVC", el0_svc, EL0T, el0_svc + 4, 0, 0x56000123, 0);
    exception(stage1, "UDF", el1_udf, EL1H, el1_udf, 0, 0x02000000, 0);
    exception(stage1, "UDF", el0_udf, EL0T, el0_udf, 0, 0x02000000, 0);
    exception(stage1, "BRK", el1_brk, EL1H, el1_brk, 0, 0xf2000007, 0);
    exception(stage1, "BRK", el0_brk, EL0T, el0_brk, 0, 0xf2000007, 0);
    exception(stage1, "floating point", el1_fp, EL1H, el1_fp, 0, 0x1fe00000, 0);
    exception(stage1, "floating point", el0_fp, EL0T, el0_fp, 0, 0x1fe00000, 0);
    exception(stage1, "MRS of CTR_EL0", el0_ctr, EL0T, el0_ctr, 0, 0x6232c121, 0);
    exception(stage1, "PC alignment", el1_odd, EL1H, el1_odd + 2, 0, 0x8a000000, (u64)el1_odd + 2);
    exception(stage1, "PC alignment", el0_odd, EL0T, el0_odd + 2, 0, 0x8a000000, (u64)el0_odd + 2);
    exception(stage1, "illegal state", el1_svc, EL1H | PSR_IL, el1_svc, 0, 0x3a000000, 0);
    exception(stage1, "illegal state", el0_svc, EL0T | PSR_IL, el0_svc, 0, 0x3a000000, 0);
    if (translated) {
        exception(stage1, "load", el1_load, EL1H, el1_load + 4, 0, 0x96000007, HOLE);
        exception(stage1, "load", el0_load, EL0T, el0_load + 4, 0, 0x92000007, HOLE);
        exception(stage1, "store", el1_store, EL1H, el1_store + 4, 0, 0x96000047, HOLE);
        exception(stage1, "store", el0_store, EL0T, el0_store + 4, 0, 0x92000047, HOLE);
        exception(stage1, "fetch", el1_fetch, EL1H, (char *)HOLE, 0, 0x86000007, HOLE);
        exception(stage1, "fetch", el0_fetch, EL0T, (char *)HOLE, 0, 0x82000007, HOLE);
    }
    interrupt(stage1, "IRQ", el1_spin, EL1H & ~PSR_I, VECTOR_IRQ, HCR_IMO | HCR_VI);
    interrupt(stage1, "IRQ", el0_spin, EL0T & ~PSR_I, VECTOR_IRQ, HCR_IMO | HCR_VI);
    interrupt(stage1, "FIQ", el1_spin, EL1H & ~PSR_F, VECTOR_FIQ, HCR_FMO | HCR_VF);
    interrupt(stage1, "FIQ", el0_spin, EL0T & ~PSR_F, VECTOR_FIQ, HCR_FMO | HCR_VF);
    interrupt(stage1, "SError", el1_spin, EL1H & ~PSR_A, VECTOR_SERROR, HCR_AMO | HCR_VSE);
    interrupt(stage1, "SError", el0_spin, EL0T & ~PSR_A, VECTOR_SERROR, HCR_AMO | HCR_VSE);
}

/* The fetch at the vector needs two tables of stage 1 that are not mapped at stage 2 either. */
static void walks(void) {
    print("# stage 1 walks of the fetch\n");
    write_sysreg(vbar_el1, FAR_VECTORS);
    forget();
    call_at(EL1H, guest_cause, (u64)el1_svc, EL1H);
    u64 vector = FAR_VECTORS + 4 * 128;
    unsigned first = 0, walks = 0;
    while (first < touched && touches[first].far != vector)
        first++;
    u64 last = 0;
    for (unsigned i = first; i < touched && touches[i].esr & S1PTW; i++) {
        const struct trap *t = &touches[i];
        /* QEMU says the level of stage 1 */
        bool good = (t->esr & ~3ull) == FETCH_ESR(S1PTW | 0x04) && t->far == vector && t->hpfar != last;
        walks += good;
        last = t->hpfar;
    }
    is(walks, 2, "two tables are mapped first");
    ok(is_touched(vector, (u64)guest_vectors), "then the page of the vectors");
    is(guest_caught.vector, 4, "and the guest has its SVC");
    write_sysreg(vbar_el1, guest_vectors);
}

static unsigned interrupts;

void on_interrupt(struct trap *trap) {
    u64 intid = read_sysreg(icc_iar1_el1);
    write_sysreg(cnthp_ctl_el2, 0);
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    caught = *trap;
    interrupts += intid == PPI_EL2_PHYSICAL;
    come_back(0);
}

/* The guest's own stage 1, or its vector, leaves it with nothing but one exception for ever. */
static void left(const char *name, u64 vbar, u64 vector) {
    write_sysreg(vbar_el1, vbar);
    forget();
    interrupts = 0;
    set_hcr(HCR_IMO);
    write_sysreg(cnthp_tval_el2, 1000000);
    write_sysreg(cnthp_ctl_el2, 1);
    isb();
    call_at(EL1H, guest_cause, (u64)el1_udf, EL1H);
    set_hcr(0);
    if (!ok(interrupts == 1 && caught.elr == vector && caught.vector == FROM_LOWER(VECTOR_IRQ), name))
        print("# %u interrupts, ELR 0x%lx, vector %lu\n", interrupts, caught.elr, caught.vector);
    write_sysreg(vbar_el1, guest_vectors);
}

static void endless(void) {
    print("# exceptions that repeat themselves\n");
    gic_init();
    gic_set_up(PPI_EL2_PHYSICAL, 1, 0x80, false);
    left("a timer of EL2 ends aborts of fetches at a vector", HOLE, HOLE + 4 * 128);
    left("and undefined instructions at a vector", (u64)undefined_vectors, (u64)undefined_vectors + 4 * 128);
}

/* At EL1. */
static u64 work(u64 rounds, u64 b) {
    for (u64 i = 0; i < rounds; i++) {
        guest_cause((u64)el1_svc, EL1H);
        guest_cause((u64)el0_udf, EL0T);
        asm volatile("hvc #1" ::: "memory");
        guest_cause((u64)el0_svc, EL0T);
        guest_cause((u64)el1_brk, EL1H);
    }
    return b;
}

static u64 profiled_work(u64 rounds, u64 b) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    (void)b;
    spe_setup(&session);
    spe_profile(PMSCR_E0SPE | PMSCR_E1SPE, (u64)work, rounds, 0, 0);
    spe_stop();
    return read_sysreg(PMBPTR_EL1);
}

static bool sampled(void) {
    struct spe_id id = spe_probe();
    if (!id.version)
        return call_at(EL1H, work, ROUNDS, 1);
    write_sysreg(mdcr_el2, read_sysreg(mdcr_el2) | MDCR_E2PB);
    isb();
    u64 next, end = call_at(EL1H, profiled_work, ROUNDS, 0);
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next), good = 0, vectors = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        good += r->pc_el <= 1 && r->pc >= (u64)__image_base && r->pc < (u64)__image_end;
        vectors += r->pc >= (u64)guest_vectors && r->pc < (u64)guest_vectors + PAGE;
    }
    /* Of a round 52 operations are in the vectors, of about 100. */
    bool all = next == end && good == count && count >= ROUNDS * 64 / INTERVAL && vectors >= count / 4;
    if (!all)
        print("# %u records, %u of the guest, %u in its vectors, read to 0x%lx of 0x%lx\n", count, good, vectors, next,
              end);
    return all;
}

int main(void) {
    if (current_el() != 2)
        return tap_skip_all("needs a start at EL2");
    prepare_el2();
    prepare_el1();
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL & ~SCTLR_UCT);
    write_sysreg(cpacr_el1, 0);
    write_sysreg(vbar_el1, guest_vectors);
    stage2_init();
    set_hcr(0);
    exceptions("off", false);
    ok(sampled(), "where there is SPE, records are of the guest alone, and of its vectors, too");
    is(taken, 0, "nothing else came to EL2");

    write_sysreg(hcr_el2, HCR_RW);
    mmu_on(); /* EL1's, from EL2 */
    map_page(HOLE, RAM_BASE, PROT_RW);
    unmap_page(HOLE);
    map_page(FAR_VECTORS, (u64)guest_vectors, PROT_RX);
    write_sysreg(sctlr_el1, read_sysreg(sctlr_el1) & ~SCTLR_UCT);
    set_hcr(0);
    exceptions("on", true);
    walks();
    endless();
    is(taken, 0, "nothing else came to EL2");
    return tap_done();
}
