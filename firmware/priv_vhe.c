/* An operating system at EL2 (HCR_EL2.E2H = 1): EL1 names that mean EL2 registers, _EL12 and _EL02 names,
   the EL2&0 translation regime with both halves, and EL0 that belongs to it. */
#include "lib/el.h"

#define HCR_TGE BIT(27)
#define HCR_E2H BIT(34)
#define FPEN_ALL (3ull << 20)
#define UNDEFINED 0x02000000
#define SVC_ESR(n) (0x56000000ull | (n))
#define HVC_ESR(n) (0x5a000000ull | (n))
#define FP_TRAPPED 0x1fe00000

#define SCTLR_EL12 S3_5_C1_C0_0
#define CPACR_EL12 S3_5_C1_C0_2
#define TTBR0_EL12 S3_5_C2_C0_0
#define TTBR1_EL12 S3_5_C2_C0_1
#define TCR_EL12 S3_5_C2_C0_2
#define SPSR_EL12 S3_5_C4_C0_0
#define ELR_EL12 S3_5_C4_C0_1
#define ESR_EL12 S3_5_C5_C2_0
#define FAR_EL12 S3_5_C6_C0_0
#define MAIR_EL12 S3_5_C10_C2_0
#define VBAR_EL12 S3_5_C12_C0_0
#define CONTEXTIDR_EL12 S3_5_C13_C0_1
#define CNTKCTL_EL12 S3_5_C14_C1_0
#define CNTP_CTL_EL02 S3_5_C14_C2_1
#define CNTP_CVAL_EL02 S3_5_C14_C2_2
#define CNTV_CTL_EL02 S3_5_C14_C3_1
#define CNTV_CVAL_EL02 S3_5_C14_C3_2
#define TTBR1_EL2 S3_4_C2_C0_1
#define CONTEXTIDR_EL2 S3_4_C13_C0_1
#define CNTHV_CTL_EL2 S3_4_C14_C3_1
#define CNTHV_CVAL_EL2 S3_4_C14_C3_2

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    write_sysreg(cptr_el2, bits & HCR_E2H ? FPEN_ALL : 0x33ff); /* its layout depends on E2H */
    isb();
}

/* --- Names --- */

/* EL1's register holds `one`, EL2's `two`; then each is written under its other name. */
#define REDIRECTED(text, el1, el2, el12, one, two, three, four)                                    \
    do {                                                                                            \
        u64 old_el1, old_el2, by_el1, by_el12, el2_after, el12_after, el1_last, el2_last;           \
        set_hcr(0);                                                                                 \
        old_el1 = read_sysreg(el1);                                                                 \
        write_sysreg(el1, one);                                                                     \
        set_hcr(HCR_E2H);                                                                           \
        old_el2 = read_sysreg(el2);                                                                 \
        write_sysreg(el2, two);                                                                     \
        isb();                                                                                      \
        by_el1 = read_sysreg(el1);                                                                  \
        by_el12 = read_sysreg(el12);                                                                \
        write_sysreg(el1, three);                                                                   \
        isb();                                                                                      \
        el2_after = read_sysreg(el2);                                                               \
        el12_after = read_sysreg(el12);                                                             \
        write_sysreg(el12, four);                                                                   \
        isb();                                                                                      \
        el2_last = read_sysreg(el2);                                                                \
        write_sysreg(el2, old_el2);                                                                 \
        set_hcr(0);                                                                                 \
        el1_last = read_sysreg(el1);                                                                \
        write_sysreg(el1, old_el1);                                                                 \
        isb();                                                                                      \
        is(by_el1, two, text ": the EL1 name reads EL2's register");                                \
        is(by_el12, one, text ": the other name reads EL1's");                                      \
        is(el2_after, three, text ": the EL1 name writes EL2's register");                          \
        is(el12_after, one, text ": and not EL1's");                                                \
        is(el1_last, four, text ": the other name writes EL1's");                                   \
        is(el2_last, three, text ": and not EL2's");                                                \
    } while (0)

static void names(void) {
    REDIRECTED("SCTLR", sctlr_el1, sctlr_el2, SCTLR_EL12, SCTLR_EL1_INITIAL, SCTLR_EL2_INITIAL,
               SCTLR_EL2_INITIAL | BIT(12), SCTLR_EL1_INITIAL | BIT(2));
    REDIRECTED("CPACR", cpacr_el1, cptr_el2, CPACR_EL12, 0, FPEN_ALL, 1 << 20, FPEN_ALL);
    REDIRECTED("TTBR0", ttbr0_el1, ttbr0_el2, TTBR0_EL12, 0x40111000, 0x40222000, 0x40333000, 0x40444000);
    REDIRECTED("TTBR1", ttbr1_el1, TTBR1_EL2, TTBR1_EL12, 0x40111000, 0x40222000, 0x40333000, 0x40444000);
    REDIRECTED("TCR", tcr_el1, tcr_el2, TCR_EL12, 0x80800019, 0x80800018, 0x80900017, 0x80900016);
    REDIRECTED("SPSR", spsr_el1, spsr_el2, SPSR_EL12, 0x600003c5, 0x600003c4, 0x800003c5, 0x800003c0);
    REDIRECTED("ELR", elr_el1, elr_el2, ELR_EL12, 0x40000004, 0x40000008, 0x40000010, 0xffffff8000000020);
    REDIRECTED("ESR", esr_el1, esr_el2, ESR_EL12, 0x56000001, 0x56000002, 0x56000003, 0x56000004);
    REDIRECTED("FAR", far_el1, far_el2, FAR_EL12, 0x1234, 0xffffff8000005678, 0x9abc, 0xdef0);
    REDIRECTED("MAIR", mair_el1, mair_el2, MAIR_EL12, 0xff00, 0xff04, 0x4400, 0x44ff);
    REDIRECTED("VBAR", vbar_el1, vbar_el2, VBAR_EL12, 0x40100800, 0x40101000, 0x40102800, 0xffffff8000103000);
    REDIRECTED("CONTEXTIDR", contextidr_el1, CONTEXTIDR_EL2, CONTEXTIDR_EL12, 0x11, 0x22, 0x33, 0xfffffff4);
    REDIRECTED("CNTKCTL", cntkctl_el1, cnthctl_el2, CNTKCTL_EL12, 0, 0xc00, 0xc03, 0x303);
    REDIRECTED("CNTP_CTL", cntp_ctl_el0, cnthp_ctl_el2, CNTP_CTL_EL02, 2, 0, 2, 0);
    REDIRECTED("CNTP_CVAL", cntp_cval_el0, cnthp_cval_el2, CNTP_CVAL_EL02, 0x1000, 0x2000, 0x3000, 0x4000);
    REDIRECTED("CNTV_CTL", cntv_ctl_el0, CNTHV_CTL_EL2, CNTV_CTL_EL02, 2, 0, 2, 0);
    REDIRECTED("CNTV_CVAL", cntv_cval_el0, CNTHV_CVAL_EL2, CNTV_CVAL_EL02, 0x1000, 0x2000, 0x3000, 0x4000);
}

/* QEMU sets ISV, with its fields, for every data abort that EL2 takes; only those of stage 2 have it. */
#define ISV_FIELDS 0x01ffc000ull

void on_trap(struct trap *trap) {
    if (ESR_EC(trap->esr) == EC_DATA_ABORT || ESR_EC(trap->esr) == EC_DATA_ABORT_LOWER)
        trap->esr &= ~ISV_FIELDS;
    record_and_skip(trap);
}

static u64 el1_alias(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(SCTLR_EL12);
}

static void who_knows_the_names(void) {
    print("# who knows the names\n");
    set_hcr(HCR_E2H);
    call_at(EL1H, el1_alias, 0, 0);
    is_trap(1, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "E2H = 1: SCTLR_EL12 is undefined at EL1");
    asm volatile("svc #0x12" ::: "memory");
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), SVC_ESR(0x12), "SVC from EL2");
    is(read_sysreg(esr_el1), SVC_ESR(0x12), "its syndrome is read as ESR_EL1");
    is(read_sysreg(spsr_el1) & SPSR_CHECKED & 0xfffffff, EL2H, "SPSR_EL1 says EL2h");
}

/* --- A guest at EL1 --- */

static u64 el1_guest(u64 a, u64 b) {
    asm volatile("svc #0x13" ::: "memory");
    asm volatile("hvc #0x14" ::: "memory");
    return read_sysreg(contextidr_el1) + a + b;
}

static void guest(void) {
    print("# a guest\n");
    set_hcr(HCR_E2H);
    write_sysreg(CONTEXTIDR_EL12, 0x700);
    write_sysreg(CONTEXTIDR_EL2, 0x90000);
    isb();
    is(call_at(EL1H, el1_guest, 0x20, 3), 0x723, "EL1 reads its own CONTEXTIDR_EL1");
    is(taken, 2, "two exceptions");
    is(caught.level, 2, "the last to EL2");
    is(caught.esr, HVC_ESR(0x14), "was the HVC");
    is(read_sysreg(ESR_EL12), SVC_ESR(0x13), "the first to EL1: ESR_EL12");
    taken = 0;
    write_sysreg(CONTEXTIDR_EL12, 0);
    write_sysreg(CONTEXTIDR_EL2, 0);
}

/* --- EL2&0 --- */

#define UPPER 0xffffff8000000000ull
#define HOLE 0x44000000ull

static u64 upper_table[512] __attribute__((aligned(4096)));
static u64 user_data[8] USER_BSS __attribute__((aligned(64)));
static u64 own_data = 0x1111;

static u64 __attribute__((noinline)) load(u64 address) {
    u64 value = 0;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static void __attribute__((noinline)) store(u64 address, u64 value) {
    asm volatile("str %0, [%1]" ::"r"(value), "r"(address) : "memory");
}

static u64 __attribute__((noinline)) where(void) {
    u64 pc;
    asm volatile("adr %0, ." : "=r"(pc));
    return pc;
}

static u64 USER_TEXT user_load(u64 address, u64 b) {
    u64 value = 0;
    (void)b;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 USER_TEXT user_store(u64 address, u64 value) {
    asm volatile("str %0, [%1]" ::"r"(value), "r"(address) : "memory");
    return value;
}

static u64 USER_TEXT user_svc(u64 a, u64 b) {
    asm volatile("svc #0x31" ::: "memory");
    return a + b;
}

static u64 USER_TEXT user_fp(u64 a, u64 b) {
    asm volatile("fmov d0, #1.0" ::: "memory");
    return a + b;
}

static u64 USER_TEXT user_counter(u64 a, u64 b) {
    asm volatile("mrs x1, cntvct_el0" ::: "x1", "memory");
    return a + b;
}

static u64 USER_TEXT user_timer(u64 value, u64 b) {
    (void)b;
    asm volatile("msr cntp_cval_el0, %0" ::"r"(value) : "memory");
    return 0;
}

#define set_pan(n) asm volatile(".inst 0xd500409f | (" #n " << 8)" ::: "memory")

static void halves(void) {
    print("# the EL2&0 regime\n");
    set_hcr(HCR_E2H | HCR_TGE);
    upper_table[1] = RAM_BASE | BIT(10) | 3 << 8 | 1 << 2 | BIT(54) | BIT(0); /* a block: RAM, UXN */
    mmu_on(); /* by EL1 names */
    ok(read_sysreg(sctlr_el2) & 1, "the MMU of EL2 is on");
    is(read_sysreg(SCTLR_EL12) & 1, 0, "and that of EL1 is not");
    write_sysreg(TTBR1_EL2, upper_table);
    write_sysreg(tcr_el2, (read_sysreg(tcr_el2) & ~BIT(23)) | 1 << 24 | 1 << 26 | 3 << 28); /* EPD1 = 0 */
    isb();

    own_data = 0x2222;
    is(load((u64)&own_data), 0x2222, "EL2 reads through TTBR0_EL2");
    is(load(UPPER + (u64)&own_data), 0x2222, "EL2 reads through TTBR1_EL2");
    store(UPPER + (u64)&own_data, 0x3333);
    is(load((u64)&own_data), 0x3333, "both halves show one memory");
    is_no_trap("without a fault");
    is(((u64(*)(void))(UPPER + (u64)where))() >> 32, UPPER >> 32, "EL2 executes in the upper half");
    unmap_page(HOLE);
    load(HOLE);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x96000007, "translation fault, level 3");
    is(caught.far, HOLE, "FAR_EL2");
    load(UPPER);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x96000005, "translation fault in the upper half, level 1");
    is(caught.far, UPPER, "FAR_EL2");
    store((u64)where, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x9600004f, "permission fault: a store to text");
    ((void (*)(void))(HOLE + 0x100))();
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x86000007, "translation fault of a fetch");
    ((void (*)(void))user_data)();
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x8600000f, "permission fault of a fetch");
    *user_data = 0x55;
    map_page(HOLE, (u64)user_data & ~(PAGE - 1), PROT_RW);
    is(load(HOLE + ((u64)user_data & (PAGE - 1))), 0x55, "a page mapped into the hole is used at once");
    unmap_page(HOLE);
    load(HOLE);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x96000007, "and so is its removal");
    set_pan(0);
    is(load((u64)user_data), 0x55, "PAN = 0: EL2 reads EL0's page");
    is_no_trap("without a fault");
    set_pan(1);
    load((u64)user_data);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x9600000f, "PAN = 1: permission fault");
    set_pan(0);
}

static void host_el0(void) {
    print("# EL0 of EL2\n");
    is(call_at(EL0T, user_load, (u64)user_data, 0), 0x55, "EL0 reads its data");
    call_at(EL0T, user_store, (u64)user_data, 0x66);
    is(*user_data, 0x66, "and writes them");
    is_no_trap("without a fault");
    is(call_at(EL0T, user_svc, 1, 2), 3, "EL0 calls EL2");
    is_trap(2, FROM_LOWER(VECTOR_SYNC), SVC_ESR(0x31), "by SVC");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, EL0T, "SPSR_EL2 says EL0t");
    call_at(EL0T, user_load, (u64)&own_data, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x9200000f, "EL0 may not read EL2's data");
    is(caught.far, (u64)&own_data, "FAR_EL2");
    call_at(EL0T, user_load, UPPER + (u64)&own_data, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x9200000d, "nor in the upper half");
    call_at(EL0T, user_store, HOLE + 8, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x92000047, "translation fault of a store");
    write_sysreg(cpacr_el1, 1 << 20); /* CPTR_EL2.FPEN = 01 */
    isb();
    call_at(EL0T, user_fp, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), FP_TRAPPED, "CPTR_EL2.FPEN = 01: FMOV at EL0");
    asm volatile("fmov d0, #1.0" ::: "memory");
    is_no_trap("not at EL2");
    write_sysreg(cpacr_el1, FPEN_ALL);
    isb();
    call_at(EL0T, user_fp, 0, 0);
    is_no_trap("CPTR_EL2.FPEN = 11: FMOV at EL0");
    write_sysreg(cntkctl_el1, 0xc00);
    isb();
    call_at(EL0T, user_counter, 0, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x6234f821, "CNTHCTL_EL2.EL0VCTEN = 0: CNTVCT_EL0 at EL0");
    write_sysreg(cntkctl_el1, 0xc02);
    isb();
    call_at(EL0T, user_counter, 0, 0);
    is_no_trap("CNTHCTL_EL2.EL0VCTEN = 1: CNTVCT_EL0 at EL0");
    write_sysreg(CNTP_CVAL_EL02, 0x1000);
    write_sysreg(cnthp_cval_el2, 0x2000);
    write_sysreg(cntkctl_el1, 0xe02);
    isb();
    call_at(EL0T, user_timer, 0x3000, 0);
    is_no_trap("EL0 writes CNTP_CVAL_EL0");
    is(read_sysreg(cnthp_cval_el2), 0x3000, "which is CNTHP_CVAL_EL2");
    is(read_sysreg(CNTP_CVAL_EL02), 0x1000, "and not EL1's");
    mmu_off();
    set_hcr(0);
}

int main(void) {
    if (current_el() != 2)
        return tap_skip_all("needs a start at EL2");
    if (!FIELD(read_sysreg(id_aa64mmfr1_el1), 11, 8))
        return tap_skip_all("no VHE");
    prepare_el2();
    prepare_el1();
    names();
    who_knows_the_names();
    guest();
    halves();
    host_el0();
    return tap_done();
}
