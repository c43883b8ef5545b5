/* A hypervisor's view: what EL1 and EL0 do that ends at EL2, and what EL2 makes them believe. */
#include "lib/el.h"
#include "lib/gic.h"

#define HCR_FMO BIT(3)
#define HCR_IMO BIT(4)
#define HCR_AMO BIT(5)
#define HCR_VF BIT(6)
#define HCR_VI BIT(7)
#define HCR_VSE BIT(8)
#define HCR_TWI BIT(13)
#define HCR_TID1 BIT(16)
#define HCR_TID2 BIT(17)
#define HCR_TID3 BIT(18)
#define HCR_TSC BIT(19)
#define HCR_TACR BIT(21)
#define HCR_TSW BIT(22)
#define HCR_TPCP BIT(23)
#define HCR_TPU BIT(24)
#define HCR_TTLB BIT(25)
#define HCR_TVM BIT(26)
#define HCR_TGE BIT(27)
#define HCR_TDZ BIT(28)
#define HCR_HCD BIT(29)
#define HCR_TRVM BIT(30)
#define CPTR_RES1 0x33ffull
#define CPTR_TFP BIT(10)
#define CPTR_TCPAC BIT(31)
#define FP_TRAPPED 0x1fe00000
#define WFI_TRAPPED 0x07e00000
#define UNDEFINED 0x02000000
#define HVC_ESR(n) (0x5a000000ull | (n))
#define SVC_ESR(n) (0x56000000ull | (n))
#define SMC_ESR(n) (0x5e000000ull | (n))

#define SGI 5
#define HVC_CLEAR_VIRTUAL 0x66 /* our handler at EL1 asks for it */

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    isb();
}

/* --- Interrupts of any level --- */

static volatile unsigned interrupts;
static u64 interrupt_level, interrupt_vector, interrupt_intid;

void on_interrupt(struct trap *trap) {
    interrupts++;
    interrupt_level = trap->level;
    interrupt_vector = trap->vector;
    interrupt_intid = 0;
    if (trap->level == 1 && read_sysreg(isr_el1) && trap->x[0] == HVC_CLEAR_VIRTUAL) {
        asm volatile("hvc #0x66" ::: "memory");
        return;
    }
    if (trap->vector % 4 == VECTOR_IRQ) {
        interrupt_intid = read_sysreg(icc_iar1_el1);
        write_sysreg(icc_eoir1_el1, interrupt_intid);
    } else if (trap->vector % 4 == VECTOR_FIQ) {
        interrupt_intid = read_sysreg(icc_iar0_el1);
        write_sysreg(icc_eoir0_el1, interrupt_intid);
    }
    isb();
}

static void is_interrupt(u64 level, u64 vector, u64 intid, const char *name) {
    bool good = interrupts == 1 && interrupt_level == level && interrupt_vector == vector && interrupt_intid == intid;
    if (!ok(good, name))
        print("# interrupts %u, EL%lu, vector %lu, INTID %lu\n", interrupts, interrupt_level, interrupt_vector,
              interrupt_intid);
    interrupts = 0;
}

static void is_no_interrupt(const char *name) {
    is(interrupts, 0, name);
    interrupts = 0;
}

/* --- Calls --- */

static u64 el1_hvc(u64 a, u64 b) {
    (void)b;
    asm volatile("hvc #0x123" ::: "memory");
    return a * 2;
}

static u64 el1_undefined(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("udf #3" ::: "memory");
    return 0;
}

static u64 el1_smc(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("smc #0x77" ::: "memory");
    return 0;
}

static u64 USER_TEXT user_svc(u64 a, u64 b) {
    (void)b;
    asm volatile("svc #0x31" ::: "memory");
    return a + 3;
}

static u64 USER_TEXT user_undefined(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("udf #3" ::: "memory");
    return 0;
}

static u64 USER_TEXT user_hvc(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("hvc #1" ::: "memory");
    return 0;
}

static u64 USER_TEXT user_brk(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("brk #0x99" ::: "memory");
    return 0;
}

static u64 USER_TEXT user_fp(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("fmov d0, #1.0" ::: "memory");
    return 0;
}

static u64 USER_TEXT user_wfi(u64 a, u64 b) {
    (void)a, (void)b;
    asm volatile("wfi" ::: "memory");
    return 0;
}

static u64 el1_of_el0(u64 f, u64 b) {
    return call_at(EL0T, (function *)f, b, 0);
}

/* EL2 calls EL1, which calls EL0. */
static u64 call_user_under_el1(function *f, u64 a) {
    return call_at(EL1H, el1_of_el0, (u64)f, a);
}

static void calls(void) {
    bool el3 = FIELD(read_sysreg(id_aa64pfr0_el1), 15, 12) != 0;
    set_hcr(0);
    is(call_at(EL1H, el1_hvc, 21, 0), 42, "EL1 returns a value");
    is_trap(2, FROM_LOWER(VECTOR_SYNC), HVC_ESR(0x123), "HVC from EL1");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL1H, "SPSR_EL2 says EL1h");
    call_at(EL1T, el1_hvc, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), HVC_ESR(0x123), "HVC from EL1 on SP_EL0");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL1T, "SPSR_EL2 says EL1t");
    asm volatile("hvc #0x55" ::: "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), HVC_ESR(0x55), "HVC from EL2");
    asm volatile("svc #0x55" ::: "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x55), "SVC from EL2");
    asm volatile("udf #1" ::: "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "UDF at EL2");
    write_sysreg(esr_el2, 0x12345678);
    call_at(EL1H, el1_undefined, 0, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "UDF at EL1 stays at EL1");
    call_user_under_el1(user_hvc, 0);
    is_trap(1, FROM_LOWER(VECTOR_SYNC), UNDEFINED, "HVC from EL0 is undefined");
    is(call_user_under_el1(user_svc, 4), 7, "EL2 calls EL1 calls EL0");
    is_trap(1, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x31), "SVC from EL0 to EL1");
    set_hcr(HCR_TSC);
    call_at(EL1H, el1_smc, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SMC_ESR(0x77), "SMC from EL1 with TSC");
    is(*(u32 *)caught.elr, 0xd4000ee3, "ELR_EL2 is at the SMC");
    if (!el3) {
        set_hcr(HCR_HCD);
        asm volatile("hvc #0x55" ::: "memory");
        is_trap(2, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "HVC at EL2 with HCD");
    } else {
        ok(true, "HVC at EL2 with HCD");
    }
    set_hcr(0);
}

static void version(void) {
    register u64 x0 asm("x0") = 0x84000000;
    asm volatile("smc #0" : "+r"(x0)::"x1", "x2", "x3", "memory");
    is(x0, 0x10001, "PSCI_VERSION by SMC");
    is_no_trap("without an exception here");
}

/* --- TGE --- */

static void tge(void) {
    print("# TGE\n");
    set_hcr(HCR_TGE);
    is(call_at(EL0T, user_svc, 7, 0), 10, "EL0 returns a value to EL2");
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x31), "SVC from EL0");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL0T, "SPSR_EL2 says EL0t");
    call_at(EL0T, user_undefined, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), UNDEFINED, "UDF at EL0");
    call_at(EL0T, user_brk, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0xf2000099, "BRK at EL0");
    write_sysreg(cptr_el2, CPTR_RES1 | CPTR_TFP);
    isb();
    call_at(EL0T, user_fp, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, "FMOV at EL0 with CPTR_EL2.TFP");
    write_sysreg(cptr_el2, CPTR_RES1);
    isb();
    call_at(EL0T, user_fp, 0, 0);
    is_no_trap("FMOV at EL0 without");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL & ~BIT(16));
    isb();
    call_at(EL0T, user_wfi, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), WFI_TRAPPED, "WFI at EL0 with SCTLR_EL1.nTWI = 0");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    isb();
    u64 at;
    asm volatile("adr %0, 1f\n"
                 "msr elr_el2, %0\n"
                 "msr spsr_el2, %1\n"
                 "eret\n"
                 "1: nop\n"
                 : "=&r"(at)
                 : "r"(EL1H)
                 : "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x3a000000, "a return to EL1 is illegal");
    is(caught.elr, at, "at the target of the ERET");
    set_hcr(0);
    asm volatile("adr %0, 1f\n"
                 "msr elr_el2, %0\n"
                 "msr spsr_el2, %1\n"
                 "eret\n"
                 "1: nop\n"
                 : "=&r"(at)
                 : "r"(0x3cdull)
                 : "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x3a000000, "a return to EL3 is illegal");
}

/* --- Trapped instructions and registers --- */

enum operation {
    READ_SCTLR,
    WRITE_TTBR0,
    TLBI,
    DC_CIVAC,
    IC_IVAU,
    DC_CISW,
    READ_ACTLR,
    READ_REVIDR,
    READ_CTR,
    READ_PFR0,
    DC_ZVA,
    WFI,
    FP,
    READ_CPACR,
    READ_CNTPCT,
    READ_CNTP_CTL,
    READ_CNTVCT,
};

static u8 line[64] __attribute__((aligned(64)));

static u64 el1_operation(u64 which, u64 b) {
    u64 address = (u64)line;
    (void)b;
    switch ((enum operation)which) {
    case READ_SCTLR:
        asm volatile("mrs x1, sctlr_el1" ::: "x1", "memory");
        break;
    case WRITE_TTBR0:
        asm volatile("msr ttbr0_el1, xzr" ::: "memory");
        break;
    case TLBI:
        asm volatile("tlbi vmalle1" ::: "memory");
        break;
    case DC_CIVAC:
        asm volatile("dc civac, %0" ::"r"(address) : "memory");
        break;
    case IC_IVAU:
        asm volatile("ic ivau, %0" ::"r"(address) : "memory");
        break;
    case DC_CISW:
        asm volatile("dc cisw, xzr" ::: "memory");
        break;
    case READ_ACTLR:
        asm volatile("mrs x1, actlr_el1" ::: "x1", "memory");
        break;
    case READ_REVIDR:
        asm volatile("mrs x1, revidr_el1" ::: "x1", "memory");
        break;
    case READ_CTR:
        asm volatile("mrs x1, ctr_el0" ::: "x1", "memory");
        break;
    case READ_PFR0:
        asm volatile("mrs x1, id_aa64pfr0_el1" ::: "x1", "memory");
        break;
    case DC_ZVA:
        asm volatile("dc zva, %0" ::"r"(address) : "memory");
        break;
    case WFI:
        asm volatile("wfi" ::: "memory");
        break;
    case FP:
        asm volatile("fmov d0, #1.0" ::: "memory");
        break;
    case READ_CPACR:
        asm volatile("mrs x1, cpacr_el1" ::: "x1", "memory");
        break;
    case READ_CNTPCT:
        asm volatile("mrs x1, cntpct_el0" ::: "x1", "memory");
        break;
    case READ_CNTP_CTL:
        asm volatile("mrs x1, cntp_ctl_el0" ::: "x1", "memory");
        break;
    case READ_CNTVCT:
        asm volatile("mrs x1, cntvct_el0" ::: "x1", "memory");
        break;
    }
    return 0;
}

#define RT 0x3e0ull
#define SYSREG_ESR(op0, op1, crn, crm, op2, read)                                                              \
    (0x62000000ull | (u64)(op0) << 20 | (op2) << 17 | (op1) << 14 | (crn) << 10 | (crm) << 1 | (read))

static void traps(void) {
    print("# traps from EL1\n");
    static const struct {
        const char *name;
        u64 hcr;
        enum operation operation;
        u64 esr;
    } tests[] = {
        {"TRVM: MRS SCTLR_EL1", HCR_TRVM, READ_SCTLR, SYSREG_ESR(3, 0, 1, 0, 0, 1)},
        {"TVM: MSR TTBR0_EL1", HCR_TVM, WRITE_TTBR0, SYSREG_ESR(3, 0, 2, 0, 0, 0)},
        {"TTLB: TLBI VMALLE1", HCR_TTLB, TLBI, SYSREG_ESR(1, 0, 8, 7, 0, 0)},
        {"TPCP: DC CIVAC", HCR_TPCP, DC_CIVAC, SYSREG_ESR(1, 3, 7, 14, 1, 0)},
        {"TPU: IC IVAU", HCR_TPU, IC_IVAU, SYSREG_ESR(1, 3, 7, 5, 1, 0)},
        {"TSW: DC CISW", HCR_TSW, DC_CISW, SYSREG_ESR(1, 0, 7, 14, 2, 0)},
        {"TACR: MRS ACTLR_EL1", HCR_TACR, READ_ACTLR, SYSREG_ESR(3, 0, 1, 0, 1, 1)},
        {"TID1: MRS REVIDR_EL1", HCR_TID1, READ_REVIDR, SYSREG_ESR(3, 0, 0, 0, 6, 1)},
        {"TID2: MRS CTR_EL0", HCR_TID2, READ_CTR, SYSREG_ESR(3, 3, 0, 0, 1, 1)},
        {"TID3: MRS ID_AA64PFR0_EL1", HCR_TID3, READ_PFR0, SYSREG_ESR(3, 0, 0, 4, 0, 1)},
        {"TDZ: DC ZVA", HCR_TDZ, DC_ZVA, SYSREG_ESR(1, 3, 7, 4, 1, 0)},
        {"TWI: WFI", HCR_TWI, WFI, WFI_TRAPPED},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        set_hcr(tests[i].hcr);
        call_at(EL1H, el1_operation, tests[i].operation, 0);
        caught.esr &= ~RT;
        is_trap(2, FROM_LOWER(VECTOR_SYNC), tests[i].esr & ~RT, tests[i].name);
        el1_operation(READ_SCTLR, 0);
        is_no_trap("not at EL2");
        set_hcr(0);
        if (tests[i].operation != WFI) {
            call_at(EL1H, el1_operation, tests[i].operation, 0);
            is_no_trap("and not without the bit");
        }
    }

    write_sysreg(cptr_el2, CPTR_RES1 | CPTR_TFP);
    isb();
    call_at(EL1H, el1_operation, FP, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, "CPTR_EL2.TFP: FMOV at EL1");
    el1_operation(FP, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), FP_TRAPPED, "CPTR_EL2.TFP: FMOV at EL2");
    write_sysreg(cptr_el2, CPTR_RES1 | CPTR_TCPAC);
    isb();
    call_at(EL1H, el1_operation, READ_CPACR, 0);
    caught.esr &= ~RT;
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 0, 1, 0, 2, 1), "CPTR_EL2.TCPAC: MRS CPACR_EL1");
    write_sysreg(cptr_el2, CPTR_RES1);

    write_sysreg(cnthctl_el2, 0);
    isb();
    call_at(EL1H, el1_operation, READ_CNTPCT, 0);
    caught.esr &= ~RT;
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 3, 14, 0, 1, 1), "EL1PCTEN = 0: MRS CNTPCT_EL0");
    call_at(EL1H, el1_operation, READ_CNTP_CTL, 0);
    caught.esr &= ~RT;
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 3, 14, 2, 1, 1), "EL1PCEN = 0: MRS CNTP_CTL_EL0");
    call_at(EL1H, el1_operation, READ_CNTVCT, 0);
    is_no_trap("MRS CNTVCT_EL0 is free");
    write_sysreg(cnthctl_el2, 3);
    isb();
    call_at(EL1H, el1_operation, READ_CNTPCT, 0);
    call_at(EL1H, el1_operation, READ_CNTP_CTL, 0);
    is_no_trap("with both bits set nothing traps");
}

static u64 el1_identification(u64 which, u64 b) {
    (void)b;
    return which ? read_sysreg(mpidr_el1) : read_sysreg(midr_el1);
}

static void identification(void) {
    print("# what EL1 is told\n");
    u64 midr = read_sysreg(midr_el1), mpidr = read_sysreg(mpidr_el1);
    write_sysreg(vpidr_el2, 0x410fd0c0);
    write_sysreg(vmpidr_el2, 0x80000302);
    isb();
    is(call_at(EL1H, el1_identification, 0, 0), 0x410fd0c0, "VPIDR_EL2 is EL1's MIDR_EL1");
    is(call_at(EL1H, el1_identification, 1, 0), 0x80000302, "VMPIDR_EL2 is EL1's MPIDR_EL1");
    is(read_sysreg(midr_el1), midr, "EL2 reads its own MIDR_EL1");
    is(read_sysreg(mpidr_el1), mpidr, "EL2 reads its own MPIDR_EL1");
    write_sysreg(vpidr_el2, midr);
    write_sysreg(vmpidr_el2, mpidr);
}

/* --- Interrupts --- */

static u64 el1_nothing(u64 a, u64 b) {
    asm volatile("nop\n nop" ::: "memory");
    return a + b;
}

/* x0 tells our handler whether it has a virtual interrupt. */
static u64 __attribute__((noinline)) el1_virtual(u64 marker, u64 b) {
    register u64 x0 asm("x0") = marker;
    (void)b;
    asm volatile("msr daifclr, #7\n nop\n nop\n msr daifset, #7" : "+r"(x0)::"memory");
    return interrupts;
}

static void physical_interrupts(void) {
    print("# physical interrupts\n");
    gic_init();
    gic_set_up(SGI, 1, 0x80, true);
    set_hcr(HCR_IMO);
    gic_sgi(SGI, 1);
    is_no_interrupt("IMO = 1: masked by PSTATE.I at EL2");
    is(read_sysreg(isr_el1), BIT(7), "ISR_EL1 shows the IRQ");
    asm volatile("msr daifclr, #2\n nop\n msr daifset, #2" ::: "memory");
    is_interrupt(2, FROM_CURRENT(VECTOR_IRQ), SGI, "IMO = 1: taken at EL2 when unmasked");
    is(read_sysreg(isr_el1), 0, "ISR_EL1 is clear again");
    gic_sgi(SGI, 1);
    call_at(EL1H, el1_nothing, 0, 0);
    is_interrupt(2, FROM_LOWER(VECTOR_IRQ), SGI, "IMO = 1: EL1's PSTATE.I does not mask it");
    set_hcr(0);
    gic_sgi(SGI, 1);
    asm volatile("msr daifclr, #2\n nop\n msr daifset, #2" ::: "memory");
    is_no_interrupt("IMO = 0: never taken at EL2");
    call_at(EL1H, el1_nothing, 0, 0);
    is_no_interrupt("IMO = 0: masked by PSTATE.I at EL1");
    call_at(EL1H & ~PSR_I, el1_nothing, 0, 0);
    is_interrupt(1, FROM_CURRENT(VECTOR_IRQ), SGI, "IMO = 0: taken at EL1 when unmasked");
    set_hcr(HCR_TGE);
    gic_sgi(SGI, 1);
    call_at(EL0T, user_svc, 0, 0);
    is_interrupt(2, FROM_LOWER(VECTOR_IRQ), SGI, "TGE = 1: EL0's PSTATE.I does not mask it");
    taken = 0;

    gic_set_group(SGI, 0);
    set_hcr(HCR_FMO);
    write_sysreg(icc_sgi0r_el1, (u64)SGI << 24 | 1);
    isb();
    is(read_sysreg(isr_el1), BIT(6), "Group 0 is an FIQ");
    asm volatile("msr daifclr, #2\n nop\n msr daifset, #2" ::: "memory");
    is_no_interrupt("which PSTATE.F masks, not I");
    call_at(EL1H, el1_nothing, 0, 0);
    is_interrupt(2, FROM_LOWER(VECTOR_FIQ), SGI, "FMO = 1: taken from EL1 to EL2");
    set_hcr(0);
    write_sysreg(icc_sgi0r_el1, (u64)SGI << 24 | 1);
    isb();
    call_at(EL1H & ~PSR_F, el1_nothing, 0, 0);
    is_interrupt(1, FROM_CURRENT(VECTOR_FIQ), SGI, "FMO = 0: taken to EL1");
    gic_disable(SGI);
}

void on_trap(struct trap *trap) {
    if (trap->level == 2 && trap->esr == HVC_ESR(HVC_CLEAR_VIRTUAL)) {
        set_hcr(read_sysreg(hcr_el2) & (HCR_AMO | HCR_IMO | HCR_FMO));
        return;
    }
    record_and_skip(trap);
}

static void virtual_interrupts(void) {
    static const struct {
        const char *name;
        u64 pending, routing, vector;
    } tests[] = {
        {"virtual IRQ", HCR_VI, HCR_IMO, VECTOR_IRQ},
        {"virtual FIQ", HCR_VF, HCR_FMO, VECTOR_FIQ},
        {"virtual SError", HCR_VSE, HCR_AMO, VECTOR_SERROR},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        print("# %s\n", tests[i].name);
        set_hcr(tests[i].pending | tests[i].routing);
        asm volatile("msr daifclr, #7\n nop\n msr daifset, #7" ::: "memory");
        is_no_interrupt("not at EL2");
        call_at(EL1H, el1_nothing, 0, 0);
        is_no_interrupt("masked at EL1");
        call_at(EL1H, el1_virtual, HVC_CLEAR_VIRTUAL, 0);
        is_interrupt(1, FROM_CURRENT(tests[i].vector), 0, "taken at EL1 when unmasked");
        set_hcr(tests[i].pending);
        call_at(EL1H, el1_virtual, HVC_CLEAR_VIRTUAL, 0);
        is_no_interrupt("not without its routing bit");
        set_hcr(tests[i].pending | tests[i].routing | HCR_TGE);
        call_at(EL0T & ~(PSR_A | PSR_I | PSR_F), user_svc, 0, 0);
        is_no_interrupt("not with TGE");
        taken = 0;
        set_hcr(0);
    }
}

int main(void) {
    if (current_el() != 2)
        return tap_skip_all("needs a start at EL2");
    prepare_el2();
    prepare_el1();
    calls();
    version();
    tge();
    traps();
    identification();
    physical_interrupts();
    virtual_interrupts();
    return tap_done();
}
