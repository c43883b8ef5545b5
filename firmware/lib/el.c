#include "el.h"

#define BACK 0xfff /* immediate of SVC, HVC and SMC at the end of a call to a lower level */

struct boot_info boot_info;
struct trap caught;
volatile unsigned taken;

static u64 callers[4]; /* stack pointers of enter(), by level */
static u8 stacks[2][8192] __attribute__((aligned(16)));
static u8 user_stack[4096] USER_BSS __attribute__((aligned(16)));

extern char back_by_svc[], back_by_hvc[], back_by_smc[];
u64 enter(u64 spsr, function *f, u64 a, u64 b, char *link, u64 *caller);
void __attribute__((noreturn)) leave(u64 result, u64 *caller);

unsigned current_el(void) {
    return read_sysreg(CurrentEL) >> 2;
}

u64 call_at(u64 spsr, function *f, u64 a, u64 b) {
    unsigned from = current_el(), to = FIELD(spsr, 3, 2);
    u64 sp = to ? (u64)stacks[to - 1] + sizeof stacks[to - 1] : (u64)user_stack + sizeof user_stack;
    if (!(spsr & 1))
        write_sysreg(sp_el0, sp);
    else if (to == 1)
        write_sysreg(sp_el1, sp);
    else
        write_sysreg(sp_el2, sp);
    return enter(spsr, f, a, b, !to ? back_by_svc : from == 2 ? back_by_hvc : back_by_smc, &callers[from]);
}

void come_back(u64 result) {
    leave(result, &callers[current_el()]);
}

static bool is_call(u64 esr) {
    return ESR_EC(esr) == EC_SVC || ESR_EC(esr) == EC_HVC || ESR_EC(esr) == EC_SMC;
}

void trap_taken(struct trap *trap) {
    if (trap->vector % 4 != VECTOR_SYNC)
        on_interrupt(trap);
    else if (trap->vector == FROM_LOWER(VECTOR_SYNC) && is_call(trap->esr) && (trap->esr & 0xffff) == BACK)
        come_back(trap->x[0]);
    else
        on_trap(trap);
}

static void unexpected(const struct trap *trap) {
    print("unexpected exception: EL%lu, vector %lu, ESR 0x%lx, FAR 0x%lx, ELR 0x%lx, SPSR 0x%lx\n", trap->level,
          trap->vector, trap->esr, trap->far, trap->elr, trap->spsr);
    exit_with(99);
}

void record_and_skip(struct trap *trap) {
    caught = *trap;
    if (++taken > 100)
        unexpected(trap);
    switch (ESR_EC(trap->esr)) {
    case EC_SVC:
    case EC_HVC:
        break;
    case EC_SMC: /* trapped at EL2, executed at EL3 */
        if (trap->level == 2)
            trap->elr += 4;
        break;
    case EC_ILLEGAL:
        trap->spsr &= ~PSR_IL;
        break;
    case EC_INSTRUCTION_ABORT:
    case EC_INSTRUCTION_ABORT_LOWER:
    case EC_PC_ALIGNMENT:
        trap->elr = trap->x[30];
        break;
    default:
        trap->elr += 4;
    }
}

void __attribute__((weak)) on_trap(struct trap *trap) {
    record_and_skip(trap);
}

void __attribute__((weak)) on_interrupt(struct trap *trap) {
    unexpected(trap);
}

bool is_trap(unsigned level, unsigned vector, u64 esr, const char *name) {
    bool good = taken == 1 && caught.level == level && caught.vector == vector && caught.esr == esr;
    if (!ok(good, name))
        print("# taken %u, EL%lu, vector %lu (expected EL%u, %u), ESR 0x%lx (expected 0x%lx), FAR 0x%lx, ELR 0x%lx, "
              "SPSR 0x%lx\n",
              taken, caught.level, caught.vector, level, vector, caught.esr, esr, caught.far, caught.elr, caught.spsr);
    taken = 0;
    return good;
}

bool is_no_trap(const char *name) {
    bool good = ok(!taken, name);
    if (!good)
        print("# taken %u, EL%lu, vector %lu, ESR 0x%lx, FAR 0x%lx, ELR 0x%lx\n", taken, caught.level, caught.vector,
              caught.esr, caught.far, caught.elr);
    taken = 0;
    return good;
}

void prepare_el1(void) {
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    write_sysreg(cpacr_el1, 3 << 20);
    write_sysreg(vbar_el1, vectors_el1);
    write_sysreg(cntkctl_el1, 3);
    write_sysreg(mdscr_el1, 0);
    write_sysreg(contextidr_el1, 0);
    write_sysreg(cntv_ctl_el0, 0);
    write_sysreg(cntp_ctl_el0, 0);
    isb();
}

void prepare_el2(void) {
    write_sysreg(hcr_el2, HCR_RW);
    write_sysreg(sctlr_el2, SCTLR_EL2_INITIAL);
    write_sysreg(cptr_el2, 0x33ff);
    write_sysreg(hstr_el2, 0);
    write_sysreg(vbar_el2, vectors_el2);
    write_sysreg(cnthctl_el2, 3);
    write_sysreg(cntvoff_el2, 0);
    write_sysreg(vttbr_el2, 0);
    write_sysreg(vtcr_el2, BIT(31));
    write_sysreg(vpidr_el2, read_sysreg(midr_el1));
    write_sysreg(vmpidr_el2, read_sysreg(mpidr_el1));
    unsigned fgt = FIELD(read_sysreg(id_aa64mmfr0_el1), 59, 56);
    if (fgt) { /* fine-grained traps, but those of debug */
        write_sysreg(S3_4_C1_C1_4, 0);
        write_sysreg(S3_4_C1_C1_5, 0);
        write_sysreg(S3_4_C1_C1_6, 0);
    }
    if (fgt > 1) {
        write_sysreg(S3_4_C3_C1_2, 0);
        write_sysreg(S3_4_C3_C1_3, 0);
        write_sysreg(S3_4_C3_C1_7, 0);
    }
    bool pmu = FIELD(read_sysreg(id_aa64dfr0_el1), 11, 8) != 0;
    write_sysreg(mdcr_el2, pmu ? FIELD(read_sysreg(pmcr_el0), 15, 11) : 0); /* HPMN: every counter is EL1's */
    isb();
}
