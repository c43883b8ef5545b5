/* A monitor at EL3: what lower levels of both Security states do that ends here, hand-over to EL2 and EL1 and
   back, external aborts, Secure memory, the translation regimes of EL3 and EL2. */
#include "lib/el.h"

#define SCR_NS BIT(0)
#define SCR_SMD BIT(7)
#define SCR_HCE BIT(8)
#define SCR_RW BIT(10)
#define SCR_ST BIT(11)
#define SCR_TWI BIT(12)
#define SCR_RES1 (3ull << 4)
#define CPTR_TFP BIT(10)
#define CPTR_TCPAC BIT(31)

#define UNDEFINED 0x02000000
#define FP_TRAPPED 0x1fe00000
#define WFI_TRAPPED 0x07e00000
#define SVC_ESR(n) (0x56000000ull | (n))
#define HVC_ESR(n) (0x5a000000ull | (n))
#define SMC_ESR(n) (0x5e000000ull | (n))
#define ILLEGAL_ESR 0x3a000000
#define RT 0x3e0ull
#define SYSREG_ESR(op0, op1, crn, crm, op2, read)                                                    \
    (0x62000000ull | (u64)(op0) << 20 | (op2) << 17 | (op1) << 14 | (crn) << 10 | (crm) << 1 | (read))

#define NOTHING_THERE 0x0b000000ull /* no device, no memory */
#define SECURE_RAM 0x0e000000ull
#define SECURE_FLASH 0x00001000ull
#define SECURE_UART 0x09040000ull
#define UART_FR 0x18
#define GICD_CTLR 0x08000000ull
#define GICD_CTLR_DS BIT(6) /* there is one Security state */
#define MOV_X0_RET 0xd65f03c0d2800ee0ull /* mov x0, #0x77; ret */

static void set_scr(u64 bits) {
    write_sysreg(scr_el3, SCR_RW | SCR_RES1 | bits);
    isb();
}

/* --- What the levels below do --- */

static u64 smc(u64 a, u64 b) {
    asm volatile("smc #0x31" ::: "memory");
    return a + b;
}

static u64 hvc(u64 a, u64 b) {
    asm volatile("hvc #0x32" ::: "memory");
    return a + b;
}

static u64 svc(u64 a, u64 b) {
    asm volatile("svc #0x33" ::: "memory");
    return a + b;
}

static u64 fp(u64 a, u64 b) {
    asm volatile("fmov d0, #1.0" ::: "memory");
    return a + b;
}

static u64 wfi(u64 a, u64 b) {
    asm volatile("wfi" ::: "memory");
    return a + b;
}

static u64 load(u64 address, u64 b) {
    u64 value = b;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 load32(u64 address, u64 b) {
    u64 value = b;
    asm volatile("ldr %w0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 store(u64 address, u64 value) {
    asm volatile("str %0, [%1]" : : "r"(value), "r"(address) : "memory");
    return value;
}

static u64 add_to(u64 address, u64 value) {
    u64 old = 0;
    asm volatile(".arch_extension lse\n ldadd %1, %0, [%2]" : "+r"(old) : "r"(value), "r"(address) : "memory");
    return old;
}

static u64 read_scr(u64 a, u64 b) {
    (void)read_sysreg(scr_el3);
    return a + b;
}

static u64 read_cpacr(u64 a, u64 b) {
    (void)read_sysreg(cpacr_el1);
    return a + b;
}

static u64 read_cptr(u64 a, u64 b) {
    (void)read_sysreg(cptr_el2);
    return a + b;
}

static u64 read_secure_timer(u64 a, u64 b) {
    (void)read_sysreg(cntps_ctl_el1);
    return a + b;
}

static u64 level(u64 a, u64 b) {
    (void)a, (void)b;
    return current_el();
}

static u64 USER_TEXT user_svc(u64 a, u64 b) {
    asm volatile("svc #0x34" ::: "memory");
    return a + b;
}

static u64 el2_calls_el1(u64 f, u64 a) {
    return call_at(EL1H, (function *)f, a, 2) + 0x1000;
}

static u64 el1_calls_el0(u64 a, u64 b) {
    return call_at(EL0T, user_svc, a, b) + 0x100;
}

/* --- */

static void basics(void) {
    is(current_el(), 3, "the reset is to EL3");
    asm volatile("svc #0x11" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x11), "SVC at EL3");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, 0x3cd, "SPSR_EL3 says EL3h");
    asm volatile("smc #0x12" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), SMC_ESR(0x12), "SMC at EL3");
    asm volatile("udf #1" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "UDF at EL3");
    asm volatile("brk #0x13" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), 0xf2000013, "BRK at EL3");
    asm volatile("msr spsel, #0\n svc #0x14\n msr spsel, #1" ::: "memory");
    is_trap(3, FROM_SP_EL0(VECTOR_SYNC), SVC_ESR(0x14), "SVC at EL3 on SP_EL0");
}

static void hand_over(void) {
    print("# down and back\n");
    set_scr(0);
    is(call_at(EL1H, level, 0, 0), 1, "Secure EL1");
    is(call_at(EL1H, smc, 3, 4), 7, "SMC from Secure EL1");
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SMC_ESR(0x31), "is taken to EL3");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL1H, "SPSR_EL3 says EL1h");
    is(call_at(EL1H, el1_calls_el0, 1, 2), 0x103, "Secure EL1 calls EL0");
    is_trap(1, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x34), "whose SVC is EL1's");
    call_at(EL1H, read_scr, 0, 0);
    ok(taken == 1 && caught.esr == UNDEFINED, "SCR_EL3 is undefined at Secure EL1");
    is(caught.level, 1, "for EL1 itself");
    taken = 0;
    set_scr(SCR_NS | SCR_HCE);
    is(call_at(EL1H, level, 0, 0), 1, "Non-secure EL1");
    is(call_at(EL1H, smc, 3, 4), 7, "SMC from Non-secure EL1");
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SMC_ESR(0x31), "is taken to EL3");
    is(call_at(EL2H, level, 0, 0), 2, "EL2");
    is(call_at(EL2H, smc, 3, 4), 7, "SMC from EL2");
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SMC_ESR(0x31), "is taken to EL3");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL2H, "SPSR_EL3 says EL2h");
    is(call_at(EL2H, el2_calls_el1, (u64)level, 0), 0x1001, "EL3 calls EL2 calls EL1");
    is(call_at(EL2H, el2_calls_el1, (u64)el1_calls_el0, 1), 0x1103, "EL3 calls EL2 calls EL1 calls EL0");
    is_trap(1, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x34), "whose SVC is EL1's");
    is(call_at(EL2H, el2_calls_el1, (u64)hvc, 1), 0x1003, "HVC from EL1");
    is_trap(2, FROM_LOWER(VECTOR_SYNC), HVC_ESR(0x32), "is taken to EL2");
    is(call_at(EL2H, el2_calls_el1, (u64)smc, 1), 0x1003, "SMC from EL1 under EL2");
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SMC_ESR(0x31), "is taken to EL3");
    call_at(EL2H, svc, 0, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x33), "SVC from EL2 is EL2's");
}

static void controls(void) {
    print("# SCR_EL3\n");
    set_scr(SCR_NS | SCR_HCE | SCR_SMD);
    asm volatile("smc #0x16" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "SMD: SMC at EL3 is undefined");
    set_scr(SCR_NS);
    asm volatile("hvc #0x17" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "HCE = 0: HVC at EL3 is undefined");
    call_at(EL2H, hvc, 0, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "HCE = 0: HVC at EL2 is undefined");
    call_at(EL1H, hvc, 0, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "HCE = 0: HVC at EL1 is undefined");
    set_scr(SCR_NS | SCR_HCE | SCR_TWI);
    call_at(EL1H, wfi, 0, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), WFI_TRAPPED, "TWI: WFI at EL1");
    call_at(EL2H, wfi, 0, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), WFI_TRAPPED, "TWI: WFI at EL2");
    set_scr(0);
    call_at(EL1H, read_secure_timer, 0, 0);
    caught.esr &= ~RT;
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 7, 14, 2, 1, 1), "ST = 0: CNTPS_CTL_EL1 at Secure EL1");
    set_scr(SCR_ST);
    call_at(EL1H, read_secure_timer, 0, 0);
    is_no_trap("ST = 1: CNTPS_CTL_EL1 at Secure EL1");
    set_scr(SCR_ST | SCR_NS);
    call_at(EL1H, read_secure_timer, 0, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "CNTPS_CTL_EL1 at Non-secure EL1");

    print("# CPTR_EL3\n");
    set_scr(SCR_NS | SCR_HCE);
    write_sysreg(cptr_el3, CPTR_TFP);
    isb();
    fp(0, 0);
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), FP_TRAPPED, "TFP: FMOV at EL3");
    call_at(EL2H, fp, 0, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, "TFP: FMOV at EL2");
    call_at(EL1H, fp, 0, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, "TFP: FMOV at EL1");
    write_sysreg(cpacr_el1, 0);
    call_at(EL1H, fp, 0, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), FP_TRAPPED, "TFP: EL1's own trap comes first");
    write_sysreg(cpacr_el1, 3 << 20);
    write_sysreg(cptr_el3, CPTR_TCPAC);
    isb();
    call_at(EL1H, read_cpacr, 0, 0);
    caught.esr &= ~RT;
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 0, 1, 0, 2, 1), "TCPAC: CPACR_EL1 at EL1");
    call_at(EL2H, read_cptr, 0, 0);
    caught.esr &= ~RT;
    is_trap(3, FROM_LOWER(VECTOR_SYNC), SYSREG_ESR(3, 4, 1, 1, 2, 1), "TCPAC: CPTR_EL2 at EL2");
    write_sysreg(cptr_el3, 0);
    isb();
    call_at(EL1H, fp, 0, 0);
    call_at(EL2H, fp, 0, 0);
    call_at(EL1H, read_cpacr, 0, 0);
    call_at(EL2H, read_cptr, 0, 0);
    is_no_trap("without the bits nothing traps");
}

static void illegal_return(u64 spsr, const char *name) {
    u64 at;
    asm volatile("adr %0, 1f\n"
                 "msr elr_el3, %0\n"
                 "msr spsr_el3, %1\n"
                 "eret\n"
                 "1: nop\n"
                 : "=&r"(at)
                 : "r"(spsr)
                 : "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), ILLEGAL_ESR, name);
    is(caught.elr, at, "at the target of the ERET");
}

static void illegal_returns(void) {
    print("# illegal returns\n");
    set_scr(0);
    illegal_return(EL2H, "to EL2 in Secure state");
    set_scr(SCR_NS);
    illegal_return(0x3c2, "with M[1] = 1");
    illegal_return(0x3c1, "to EL0h");
    write_sysreg(hcr_el2, HCR_RW | BIT(27));
    isb();
    illegal_return(EL1H, "to EL1 with HCR_EL2.TGE");
    write_sysreg(hcr_el2, HCR_RW);
    isb();
}

static void external_aborts(void) {
    print("# external aborts\n");
    set_scr(SCR_NS | SCR_HCE);
    load(NOTHING_THERE, 0);
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "EL3");
    is(caught.far, NOTHING_THERE, "FAR_EL3");
    call_at(EL1H, load, NOTHING_THERE + 8, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "EL1's is its own");
    is(caught.far, NOTHING_THERE + 8, "FAR_EL1");

    print("# Secure memory\n");
    set_scr(0);
    *(volatile u64 *)SECURE_RAM = 0x5ec;
    is(call_at(EL1H, load, SECURE_RAM, 0), 0x5ec, "Secure EL1 reads it");
    is_no_trap("without an abort");
    *(volatile u64 *)(SECURE_RAM + 0x1000) = MOV_X0_RET;
    asm volatile("dsb sy\n ic iallu\n dsb sy\n isb" ::: "memory");
    is(call_at(EL1H, (function *)(SECURE_RAM + 0x1000), 0, 0), 0x77, "and executes it");
    is(load32(SECURE_UART + UART_FR, 0), 0x90, "the second UART");
    is_no_trap("without an abort");
    set_scr(SCR_NS | SCR_HCE);
    is(load(SECURE_RAM, 0), 0x5ec, "EL3 reads it whatever SCR_EL3.NS says");
    is_no_trap("without an abort");
    for (unsigned again = 0; again < 2; again++) {
        is(call_at(EL1H, load, SECURE_RAM, 9), 9, "Non-secure EL1 does not");
        is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "it takes an external abort");
        call_at(EL1H, store, SECURE_RAM, 9);
        is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000050, "so does a store");
        call_at(EL1H, add_to, SECURE_RAM, 9);
        is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "an atomic operation");
        call_at(EL1H, (function *)(SECURE_RAM + 0x1000), 0, 0);
        is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x86000010, "and a fetch");
        call_at(EL2H, load, SECURE_RAM, 0);
        is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "EL2");
        is(load(SECURE_RAM, 0), 0x5ec, "it is as it was");
    }
    call_at(EL1H, load, SECURE_FLASH, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "Secure flash, from Non-secure EL1");
    call_at(EL1H, load32, SECURE_UART + UART_FR, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "the second UART, from Non-secure EL1");
}

/* --- Translation regimes with one half, at EL3 and EL2 --- */

#define ALIAS 0x100000000ull /* 1 GiB of RAM once more */
#define NON_SECURE 0x140000000ull /* what is at 0, in Non-secure address space */
#define NEVER_EXECUTE 0x180000000ull /* RAM once more */
#define READ_ONLY 0x1c0000000ull
#define HOLE 0x200000000ull

#define BLOCK_NORMAL (BIT(0) | 1 << 2 | 1 << 6 | 3 << 8 | BIT(10)) /* AP[1] is RES1 */
#define BLOCK_DEVICE (BIT(0) | 0 << 2 | 1 << 6 | BIT(10) | BIT(54))
#define BLOCK_NS BIT(5)
#define BLOCK_READ_ONLY BIT(7)
#define BLOCK_XN BIT(54)

static u64 table[512] __attribute__((aligned(4096)));
static u64 word = 0x1d;

#define MAIR 0xff00ull /* 0: device, 1: normal */
#define TCR (BIT(31) | BIT(23) | 25 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 16) /* 39 bits in, 36 out */

static u64 where(u64 a, u64 b) {
    u64 pc;
    asm volatile("adr %0, ." : "=r"(pc));
    return pc + a + b;
}

/* With the MMU of the current level on. */
static u64 regime(u64 el, u64 secure) {
    u64 data = 0x96000000, fetch = 0x86000000;
    word = 0x2d;
    is(load(ALIAS + (u64)&word - RAM_BASE, 0), 0x2d, "RAM at another address");
    is_no_trap("without a fault");
    is(((function *)((u64)where + ALIAS - RAM_BASE))(0, 0) >> 32, 1, "and code there");
    load(HOLE, 0);
    is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x05, "translation fault, level 1");
    is(caught.far, HOLE, "FAR");
    load(1ull << 40, 0);
    is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x04, "an address too large");
    *(volatile u64 *)(READ_ONLY + (u64)&word - RAM_BASE) = 1;
    is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x4d, "permission fault of a store");
    ((function *)((u64)where + NEVER_EXECUTE - RAM_BASE))(0, 0);
    is_trap(el, FROM_CURRENT(VECTOR_SYNC), fetch | 0x0d, "permission fault of a fetch");
    load(NON_SECURE + SECURE_RAM, 0);
    is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x10, "Non-secure address space has no Secure memory");
    if (secure) {
        is(load(SECURE_RAM, 0), 0x5ec, "Secure address space has");
        is_no_trap("without an abort");
        load(NON_SECURE + SECURE_RAM, 0);
        is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x10, "the other still has not");
        store(NON_SECURE + SECURE_RAM, 1);
        is_trap(el, FROM_CURRENT(VECTOR_SYNC), data | 0x50, "nor for a store");
        store(SECURE_RAM + 8, 0x6ec);
        is(load(SECURE_RAM + 8, 0), 0x6ec, "which is one of Secure address space elsewhere");
        is_no_trap("without an abort");
        ok((load32(GICD_CTLR, 0) & 0x30) == 0x30, "GICD_CTLR as Secure accesses see it");
        ok((load32(NON_SECURE + GICD_CTLR, 0) & 0x30) == 0x10, "and Non-secure ones");
    }
    return 0;
}

static void mmu_el3(void) {
    print("# the EL3 regime\n");
    write_sysreg(mair_el3, MAIR);
    write_sysreg(tcr_el3, TCR);
    write_sysreg(ttbr0_el3, table);
    dsb(sy);
    asm volatile("tlbi alle3\n dsb sy\n isb" ::: "memory");
    u64 sctlr = read_sysreg(sctlr_el3);
    write_sysreg(sctlr_el3, sctlr | 1 | BIT(2) | BIT(12));
    isb();
    regime(3, true);
    flush((u64)__data_start, (u64)__image_end);
    write_sysreg(sctlr_el3, sctlr);
    isb();
}

static u64 mmu_el2(u64 a, u64 b) {
    (void)a, (void)b;
    print("# the EL2 regime\n");
    write_sysreg(mair_el2, MAIR);
    write_sysreg(tcr_el2, TCR);
    write_sysreg(ttbr0_el2, table);
    dsb(sy);
    asm volatile("tlbi alle2\n dsb sy\n isb" ::: "memory");
    write_sysreg(sctlr_el2, SCTLR_EL2_INITIAL | 1 | BIT(2) | BIT(12));
    isb();
    regime(2, false);
    flush((u64)__data_start, (u64)__image_end);
    write_sysreg(sctlr_el2, SCTLR_EL2_INITIAL);
    isb();
    return 0;
}

/* QEMU sets ISV, with its fields, for every data abort that EL2 takes; only those of stage 2 have it. */
#define ISV_FIELDS 0x01ffc000ull

void on_trap(struct trap *trap) {
    if (trap->level == 2 && ESR_EC(trap->esr) == EC_DATA_ABORT)
        trap->esr &= ~ISV_FIELDS;
    record_and_skip(trap);
}

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("needs a start at EL3");
    if (!FIELD(read_sysreg(id_aa64pfr0_el1), 11, 8))
        return tap_skip_all("needs EL2");
    if (load32(GICD_CTLR, 0) & GICD_CTLR_DS)
        return tap_skip_all("needs two Security states, with memory that is Secure: --secure");
    set_scr(SCR_NS | SCR_HCE);
    prepare_el2();
    prepare_el1();
    basics();
    hand_over();
    controls();
    illegal_returns();
    external_aborts();
    table[0] = BLOCK_DEVICE;
    table[1] = RAM_BASE | BLOCK_NORMAL;
    table[ALIAS >> 30] = RAM_BASE | BLOCK_NORMAL;
    table[NON_SECURE >> 30] = BLOCK_DEVICE | BLOCK_NS;
    table[NEVER_EXECUTE >> 30] = RAM_BASE | BLOCK_NORMAL | BLOCK_XN;
    table[READ_ONLY >> 30] = RAM_BASE | BLOCK_NORMAL | BLOCK_READ_ONLY;
    mmu_el3();
    call_at(EL2H, mmu_el2, 0, 0);
    return tap_done();
}
