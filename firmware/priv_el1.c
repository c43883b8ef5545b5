/* What EL1 can trap, forbid and see, beyond plain exceptions: FP/SIMD, the counters, WFI and DAIF of EL0,
   stack pointers and vectors, illegal exception returns, PAN. */
#include "lib/el.h"

#define SCTLR_NTWI BIT(16)
#define SCTLR_UMA BIT(9)
#define SCTLR_UCI BIT(26)
#define SCTLR_SPAN BIT(23)
#define SVC_ESR(n) (0x56000000ull | (n))
#define FP_TRAPPED 0x1fe00000 /* EC 0x07, IL, CV, COND 0b1110 */
#define UNDEFINED 0x02000000

static void set_sctlr(u64 set, u64 clear) {
    write_sysreg(sctlr_el1, (read_sysreg(sctlr_el1) & ~clear) | set);
    isb();
}

/* --- Vectors and stack pointers --- */

static u64 USER_TEXT user_call(u64 a, u64 b) {
    (void)b;
    asm volatile("svc #0x44" ::: "memory");
    return a + 1;
}

static void vectors(void) {
    asm volatile("svc #0x41" ::: "memory");
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x41), "SVC on SP_EL1");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL1H, "SPSR_EL1 says EL1h");
    write_sysreg(sp_el0, 0x123450);
    asm volatile("msr spsel, #0\n svc #0x42\n msr spsel, #1" ::: "memory");
    is_trap(1, FROM_SP_EL0(VECTOR_SYNC), SVC_ESR(0x42), "SVC on SP_EL0");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL1T, "SPSR_EL1 says EL1t");
    is(caught.sp_el0, 0x123450, "SP_EL0 is unchanged");
    asm volatile("msr spsel, #0\n udf #1\n msr spsel, #1" ::: "memory");
    is_trap(1, FROM_SP_EL0(VECTOR_SYNC), UNDEFINED, "UDF on SP_EL0");
    is(call_at(EL0T, user_call, 41, 0), 42, "EL0 returns a value");
    is_trap(1, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x44), "SVC from EL0");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL0T, "SPSR_EL1 says EL0t");
    asm volatile("msr daifclr, #4\n svc #0x45\n msr daifset, #4" ::: "memory");
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x45), "SVC with SError unmasked");
    is(caught.spsr & 0x3c0, 0x2c0, "SPSR_EL1 keeps DAIF");
}

/* --- FP and SIMD --- */

#define FP_OPERATIONS(fp) \
    switch (fp) {          \
    case 0:                \
        asm volatile("fmov d0, #1.0" ::: "memory"); \
        break;             \
    case 1:                \
        asm volatile("movi v1.16b, #3" ::: "memory"); \
        break;             \
    case 2:                \
        asm volatile("mrs x1, fpcr" ::: "x1", "memory"); \
        break;             \
    default:               \
        asm volatile("ldr q0, [sp]" ::: "memory"); \
    }

static u64 USER_TEXT user_fp(u64 operation, u64 b) {
    (void)b;
    FP_OPERATIONS(operation)
    return 0;
}

static void __attribute__((noinline)) kernel_fp(u64 operation) {
    FP_OPERATIONS(operation)
}

static void floating_point(void) {
    static const char *const names[] = {"FMOV", "MOVI", "MRS FPCR", "LDR Q"};
    for (u64 fpen = 0; fpen < 4; fpen++) {
        print("# CPACR_EL1.FPEN = %lu\n", fpen);
        write_sysreg(cpacr_el1, fpen << 20);
        isb();
        for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
            kernel_fp(i);
            if (fpen == 1 || fpen == 3)
                is_no_trap(names[i]);
            else
                is_trap(1, FROM_CURRENT(VECTOR_SYNC), FP_TRAPPED, names[i]);
            call_at(EL0T, user_fp, i, 0);
            if (fpen == 3)
                is_no_trap(names[i]);
            else
                is_trap(1, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, names[i]);
        }
    }
}

/* --- Counter and timers from EL0 --- */

#define MRS_X1_ESR(op0, op1, crn, crm, op2) \
    (0x62000001ull | (u64)(op0) << 20 | (op2) << 17 | (op1) << 14 | (crn) << 10 | 1 << 5 | (crm) << 1)

static u64 USER_TEXT user_timer(u64 which, u64 b) {
    (void)b;
    switch (which) {
    case 0:
        asm volatile("mrs x1, cntfrq_el0" ::: "x1", "memory");
        break;
    case 1:
        asm volatile("mrs x1, cntpct_el0" ::: "x1", "memory");
        break;
    case 2:
        asm volatile("mrs x1, cntvct_el0" ::: "x1", "memory");
        break;
    case 3:
        asm volatile("mrs x1, cntp_ctl_el0" ::: "x1", "memory");
        break;
    case 4:
        asm volatile("mrs x1, cntp_cval_el0" ::: "x1", "memory");
        break;
    case 5:
        asm volatile("mrs x1, cntp_tval_el0" ::: "x1", "memory");
        break;
    case 6:
        asm volatile("mrs x1, cntv_ctl_el0" ::: "x1", "memory");
        break;
    case 7:
        asm volatile("mrs x1, cntv_cval_el0" ::: "x1", "memory");
        break;
    default:
        asm volatile("mrs x1, cntv_tval_el0" ::: "x1", "memory");
    }
    return 0;
}

static void counters(void) {
    enum { PCT = 1, VCT = 2, VT = 1 << 8, PT = 1 << 9 }; /* CNTKCTL_EL1 */
    static const struct {
        const char *name;
        u32 allowed_by;
        u32 crm, op2;
    } registers[] = {
        {"CNTFRQ_EL0", PCT | VCT, 0, 0}, {"CNTPCT_EL0", PCT, 0, 1},     {"CNTVCT_EL0", VCT, 0, 2},
        {"CNTP_CTL_EL0", PT, 2, 1},      {"CNTP_CVAL_EL0", PT, 2, 2},   {"CNTP_TVAL_EL0", PT, 2, 0},
        {"CNTV_CTL_EL0", VT, 3, 1},      {"CNTV_CVAL_EL0", VT, 3, 2},   {"CNTV_TVAL_EL0", VT, 3, 0},
    };
    static const u32 settings[] = {0, PCT, VCT, VT, PT, PCT | VCT | VT | PT};
    for (unsigned s = 0; s < ARRAY_SIZE(settings); s++) {
        print("# CNTKCTL_EL1 = 0x%x\n", settings[s]);
        write_sysreg(cntkctl_el1, settings[s]);
        isb();
        for (unsigned i = 0; i < ARRAY_SIZE(registers); i++) {
            call_at(EL0T, user_timer, i, 0);
            if (registers[i].allowed_by & settings[s])
                is_no_trap(registers[i].name);
            else
                is_trap(1, FROM_LOWER(VECTOR_SYNC), MRS_X1_ESR(3, 3, 14, registers[i].crm, registers[i].op2),
                        registers[i].name);
        }
    }
}

/* --- What else EL0 may not do --- */

static u64 USER_TEXT user_operation(u64 which, u64 address) {
    switch (which) {
    case 0:
        asm volatile("wfi" ::: "memory");
        break;
    case 1:
        asm volatile("msr daifset, #2" ::: "memory");
        break;
    case 2:
        asm volatile("mrs x1, daif" ::: "x1", "memory");
        break;
    case 3:
        asm volatile("dc cvau, %0" ::"r"(address) : "memory");
        break;
    case 4:
        asm volatile("ic ivau, %0" ::"r"(address) : "memory");
        break;
    case 5:
        asm volatile("dc civac, %0" ::"r"(address) : "memory");
        break;
    case 6:
        asm volatile("msr tpidrro_el0, xzr" ::: "memory");
        break;
    case 7:
        asm volatile("tlbi vmalle1" ::: "memory");
        break;
    case 8:
        asm volatile("eret" ::: "memory");
        break;
    case 9:
        asm volatile("msr spsel, #0" ::: "memory");
        break;
    case 10:
        asm volatile("dc ivac, %0" ::"r"(address) : "memory");
        break;
    case 11:
        asm volatile("msr tpidr_el0, %0" ::"r"(address) : "memory");
        break;
    default:
        asm volatile("mrs x1, nzcv" ::: "x1", "memory");
    }
    return 0;
}

static u8 user_data[64] USER_BSS __attribute__((aligned(64)));

#define RT 0x3e0ull /* in ESR_ELx; the compiler chose it */

static void user(unsigned which, u64 esr, const char *name) {
    call_at(EL0T, user_operation, which, (u64)user_data);
    caught.esr &= ~RT;
    if (esr)
        is_trap(1, FROM_LOWER(VECTOR_SYNC), esr & ~RT, name);
    else
        is_no_trap(name);
}

static void user_rights(void) {
    print("# EL0\n");
    set_sctlr(0, SCTLR_NTWI | SCTLR_UMA | SCTLR_UCI);
    user(0, 0x07e00000, "WFI with nTWI = 0");
    call_at(EL0T, user_operation, 1, 0);
    is(ESR_EC(caught.esr), EC_SYSREG, "MSR DAIFSet with UMA = 0"); /* QEMU has op1 and op2 the other way round */
    taken = 0;
    user(2, 0x6232d005, "MRS DAIF with UMA = 0");
    user(3, 0x6212dc16, "DC CVAU with UCI = 0");
    user(4, 0x6212dc0a, "IC IVAU with UCI = 0");
    user(5, 0x6212dc1c, "DC CIVAC with UCI = 0");
    set_sctlr(SCTLR_UMA | SCTLR_UCI, 0);
    user(1, 0, "MSR DAIFSet with UMA = 1");
    user(2, 0, "MRS DAIF with UMA = 1");
    user(3, 0, "DC CVAU with UCI = 1");
    user(4, 0, "IC IVAU with UCI = 1");
    user(5, 0, "DC CIVAC with UCI = 1");
    user(6, UNDEFINED, "MSR TPIDRRO_EL0");
    user(7, UNDEFINED, "TLBI VMALLE1");
    user(8, UNDEFINED, "ERET");
    user(9, UNDEFINED, "MSR SPSel");
    user(10, UNDEFINED, "DC IVAC");
    user(11, 0, "MSR TPIDR_EL0");
    user(12, 0, "MRS NZCV");
}

/* --- Illegal exception returns --- */

/* ERET with this SPSR_EL1 to the next instruction; SP, a callee-saved register, must be as before. */
static u64 __attribute__((noinline)) return_with(u64 spsr) {
    u64 at;
    asm volatile("adr %0, 1f\n"
                 "msr elr_el1, %0\n"
                 "msr spsr_el1, %1\n"
                 "isb\n"
                 "eret\n"
                 "1: nop\n"
                 "msr daifset, #15\n"
                 : "=&r"(at)
                 : "r"(spsr)
                 : "cc", "memory");
    return at;
}

static void illegal(u64 spsr, const char *name) {
    u64 at = return_with(spsr);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x3a000000, name);
    is(caught.elr, at, "at the target of the ERET");
    is(caught.spsr & SPSR_CHECKED, (spsr & 0xf00003c0) | PSR_IL | 5, "with IL, the flags, DAIF, and EL1h still");
}

static u64 USER_TEXT user_flags(u64 a, u64 b) {
    (void)a, (void)b;
    u64 flags;
    asm volatile("mrs %0, nzcv" : "=r"(flags));
    return flags;
}

static void illegal_returns(void) {
    print("# ERET\n");
    return_with(0x600003c5);
    is_no_trap("a legal return to EL1h");
    illegal(0xa00003c9, "return to EL2h");
    illegal(0x500003cd, "return to EL3h");
    illegal(0x000003c6, "return to EL1 with M[1] = 1");
    illegal(0x000003c1, "return to EL0h");
    illegal(0x00000049, "return to EL2h with DAIF clear but F");
    return_with(0x3c5 | PSR_IL);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x3a000000, "legal return with IL set");
    is(call_at(0x600003c0, user_flags, 0, 0), 0x60000000, "flags of EL0 come from SPSR_EL1");
    is_no_trap("legal return to EL0");
    call_at(EL0T | PSR_IL, user_flags, 0, 0);
    is_trap(1, FROM_LOWER(VECTOR_SYNC), 0x3a000000, "legal return to EL0 with IL set");
    is(caught.elr, (u64)user_flags, "at its first instruction");
}

/* --- PAN, UAO --- */

#define set_pan(n) asm volatile(".inst 0xd500409f | (" #n " << 8)" ::: "memory")
#define set_uao(n) asm volatile(".inst 0xd500407f | (" #n " << 8)" ::: "memory")

static u64 __attribute__((noinline)) load(u64 address) {
    u64 value = 0;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 __attribute__((noinline)) load_unprivileged(u64 address) {
    u64 value = 0;
    asm volatile("ldtr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static void pan(void) {
    print("# PAN\n");
    if (FIELD(read_sysreg(id_aa64mmfr1_el1), 23, 20) == 0) {
        print("# not implemented\n");
        return;
    }
    u64 user_address = (u64)user_data, own_address = (u64)&boot_info;
    *(u64 *)user_data = 0xabcd;
    mmu_on();
    set_pan(0);
    is(load(user_address), 0xabcd, "PAN = 0: EL1 reads EL0's data");
    is_no_trap("without a fault");
    set_pan(1);
    load(user_address);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x9600000f, "PAN = 1: it does not");
    is(caught.far, user_address, "FAR_EL1");
    is(caught.spsr & PSR_PAN, PSR_PAN, "SPSR_EL1.PAN");
    load(own_address);
    is_no_trap("PAN = 1: EL1 reads its own");
    is(load_unprivileged(user_address), 0xabcd, "PAN = 1: LDTR reads EL0's data");
    is_no_trap("without a fault");
    load_unprivileged(own_address);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x9600000f, "LDTR does not read EL1's");
    set_pan(0);
    asm volatile("svc #1" ::: "memory");
    is(caught.spsr & PSR_PAN, 0, "SPSR_EL1.PAN = 0 from PAN = 0");
    taken = 0;
    set_sctlr(0, SCTLR_SPAN);
    set_pan(0);
    asm volatile("svc #2\n" ::: "memory");
    is(caught.spsr & PSR_PAN, 0, "SPAN = 0: the exception came from PAN = 0");
    is(taken, 1, "and was taken once");
    taken = 0;
    is(load(user_address), 0xabcd, "after the return PAN is 0 again");
    is_no_trap("without a fault");
    if (FIELD(read_sysreg(id_aa64mmfr2_el1), 7, 4)) {
        set_uao(1);
        load_unprivileged(own_address);
        set_uao(0);
        is_no_trap("UAO = 1: LDTR reads EL1's");
    }
    mmu_off();
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    vectors();
    floating_point();
    write_sysreg(cpacr_el1, 3 << 20);
    isb();
    counters();
    user_rights();
    illegal_returns();
    pan();
    return tap_done();
}
