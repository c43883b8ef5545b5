/* What the architecture says where QEMU (7.2) does otherwise: for machines that do better. */
#include "lib/el.h"
#include "lib/gic.h"
#include "lib/stage2.h"

#define SCR_NS BIT(0)
#define SCR_IRQ BIT(1)
#define SCR_EA BIT(3)
#define SCR_HCE BIT(8)
#define SCR_RW BIT(10)
#define SCR_TWE BIT(13)
#define SCR_RES1 (3ull << 4)
#define HCR_TWE BIT(14)
#define HCR_IMO BIT(4)
#define HCR_TGE BIT(27)
#define HCR_E2H BIT(34)
#define HCR_TEA BIT(37)
#define SCTLR_UMA BIT(9)
#define SCTLR_NTWI BIT(16)
#define SCTLR_NTWE BIT(18)

#define HVC_ESR(n) (0x5a000000ull | (n))
#define WFI_TRAPPED 0x07e00000
#define WFE_TRAPPED 0x07e00001
#define UNDEFINED 0x02000000
#define NOTHING_THERE 0x0b000000ull

static void set_scr(u64 bits) {
    write_sysreg(scr_el3, SCR_RW | SCR_RES1 | SCR_NS | SCR_HCE | bits);
    isb();
}

static void set_hcr(u64 bits) {
    write_sysreg(hcr_el2, HCR_RW | bits);
    write_sysreg(cptr_el2, bits & HCR_E2H ? 3 << 20 : 0x33ff);
    isb();
}

/* The Event Register is set by SEVL and cleared by the first WFE: only the second would wait. */
static u64 wait_for_event(u64 a, u64 b) {
    asm volatile("sevl\n wfe\n wfe" ::: "memory");
    return a + b;
}

static u64 USER_TEXT user_wait_for_event(u64 a, u64 b) {
    asm volatile("sevl\n wfe\n wfe" ::: "memory");
    return a + b;
}

static u64 USER_TEXT user_wait_for_interrupt(u64 a, u64 b) {
    asm volatile("wfi" ::: "memory");
    return a + b;
}

static u64 USER_TEXT user_mask(u64 a, u64 b) {
    asm volatile("msr daifset, #2" ::: "memory");
    return a + b;
}

static u64 load(u64 address, u64 b) {
    u64 value = b;
    asm volatile("ldr %0, [%1]" : "+r"(value) : "r"(address) : "memory");
    return value;
}

static u64 read_el12(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(S3_5_C1_C0_0); /* SCTLR_EL12 */
}

static u64 read_el02(u64 a, u64 b) {
    (void)a, (void)b;
    return read_sysreg(S3_5_C14_C2_1); /* CNTP_CTL_EL02 */
}

static u64 call_el0(u64 f, u64 b) {
    return call_at(EL0T, (function *)f, b, 0);
}

static void calls(void) {
    set_scr(0);
    asm volatile("hvc #0x15" ::: "memory");
    is_trap(3, FROM_CURRENT(VECTOR_SYNC), HVC_ESR(0x15), "HVC at EL3 is taken to EL3");
    call_at(EL2H, read_el12, 0, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "E2H = 0: SCTLR_EL12 is undefined at EL2");
    call_at(EL2H, read_el02, 0, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), UNDEFINED, "E2H = 0: CNTP_CTL_EL02 is undefined at EL2");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL & ~SCTLR_UMA);
    isb();
    call_at(EL1H, call_el0, (u64)user_mask, 0);
    is_trap(1, FROM_LOWER(VECTOR_SYNC), 0x620cd3e4, "UMA = 0: MSR DAIFSet at EL0, as the encoding says");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
}

/* A trap of WFE need not be taken: WFE may always complete at once. */
static void may_be_trap(unsigned level, unsigned vector, const char *name) {
    if (taken)
        is_trap(level, vector, WFE_TRAPPED, name);
    else
        is_no_trap(name);
}

static void waits(void) {
    print("# WFE and WFI\n");
    call_at(EL1H, wait_for_event, 0, 0);
    is_no_trap("nothing is trapped");
    set_hcr(HCR_TWE);
    call_at(EL1H, wait_for_event, 0, 0);
    may_be_trap(2, FROM_LOWER(VECTOR_SYNC), "HCR_EL2.TWE: EL1");
    set_hcr(0);
    set_scr(SCR_TWE);
    call_at(EL1H, wait_for_event, 0, 0);
    may_be_trap(3, FROM_LOWER(VECTOR_SYNC), "SCR_EL3.TWE: EL1");
    call_at(EL2H, wait_for_event, 0, 0);
    may_be_trap(3, FROM_LOWER(VECTOR_SYNC), "SCR_EL3.TWE: EL2");
    set_scr(0);
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL & ~SCTLR_NTWE);
    isb();
    call_at(EL1H, call_el0, (u64)user_wait_for_event, 0);
    may_be_trap(1, FROM_LOWER(VECTOR_SYNC), "SCTLR_EL1.nTWE = 0: EL0");
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    set_hcr(HCR_E2H | HCR_TGE);
    write_sysreg(sctlr_el2, SCTLR_EL1_INITIAL & ~(SCTLR_NTWE | SCTLR_NTWI));
    isb();
    call_at(EL2H, call_el0, (u64)user_wait_for_interrupt, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), WFI_TRAPPED, "SCTLR_EL2.nTWI = 0: EL0 of EL2");
    call_at(EL2H, call_el0, (u64)user_wait_for_event, 0);
    may_be_trap(2, FROM_LOWER(VECTOR_SYNC), "SCTLR_EL2.nTWE = 0: EL0 of EL2");
    set_hcr(0);
    write_sysreg(sctlr_el2, SCTLR_EL2_INITIAL);
    isb();
}

static void external_aborts(void) {
    print("# external aborts\n");
    set_scr(SCR_EA);
    call_at(EL1H, load, NOTHING_THERE, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), 0x92000010, "SCR_EL3.EA: EL1's");
    is(caught.far, NOTHING_THERE, "FAR_EL3");
    call_at(EL2H, load, NOTHING_THERE, 0);
    is_trap(3, FROM_LOWER(VECTOR_SYNC), 0x92000010, "SCR_EL3.EA: EL2's");
    set_scr(0);
    set_hcr(HCR_TEA);
    call_at(EL1H, load, NOTHING_THERE + 8, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x92000010, "HCR_EL2.TEA: EL1's");
    is(caught.far, NOTHING_THERE + 8, "FAR_EL2");
    set_hcr(0);
    call_at(EL2H, load, NOTHING_THERE, 0);
    is_trap(2, FROM_CURRENT(VECTOR_SYNC), 0x96000010, "EL2's own has no ISV");
}

/* --- Stage 2 fault of a stage 1 walk: whose level --- */

#define VA 0x2000000000ull

static u64 root[512] __attribute__((aligned(4096)));
static u64 level2[512] __attribute__((aligned(4096)));

static void walks(void) {
    print("# stage 2 fault of a stage 1 walk\n");
    mmu_on(); /* EL1's */
    memcpy(root, (void *)(read_sysreg(ttbr0_el1) & ~0xfffull), sizeof root);
    root[VA >> 30] = (u64)level2 | 3;
    write_sysreg(ttbr0_el1, root);
    stage2_init();
    stage2_unmap((u64)level2);
    set_hcr(HCR_VM);
    call_at(EL1H, load, VA, 0);
    is_trap(2, FROM_LOWER(VECTOR_SYNC), 0x92000087, "level 3 of stage 2, though level 2 of stage 1");
    is(caught.hpfar << 8, (u64)level2, "HPFAR_EL2 is the table");
    set_hcr(0);
    write_sysreg(sctlr_el1, SCTLR_EL1_INITIAL);
    isb();
}

/* --- The virtual timer of EL2 --- */

static volatile unsigned interrupts;
static u64 intid;

void on_interrupt(struct trap *trap) {
    (void)trap;
    intid = read_sysreg(icc_iar1_el1);
    write_sysreg(S3_4_C14_C3_1, 0); /* CNTHV_CTL_EL2 */
    isb();
    write_sysreg(icc_eoir1_el1, intid);
    isb();
    interrupts++;
}

static u64 await_timer(u64 a, u64 b) {
    gic_init_pe();
    gic_set_up(PPI_EL2_VIRTUAL, 1, 0x80, false);
    isb();
    write_sysreg(S3_4_C14_C3_2, read_sysreg(cntpct_el0) + 2000); /* CNTHV_CVAL_EL2 */
    write_sysreg(S3_4_C14_C3_1, 1);
    while (!interrupts)
        asm volatile("wfi\n msr daifclr, #3\n isb\n msr daifset, #3" ::: "memory");
    return a + b;
}

static void timer(void) {
    print("# the virtual timer of EL2\n");
    /* Both Security states; interrupts go to EL2. */
    mmio_write(GICD_BASE + GICD_CTLR, BIT(5) | BIT(4));
    mmio_write(GICD_BASE + GICD_CTLR, BIT(5) | BIT(4) | BIT(1));
    mmio_write(gic_frame(PPI_EL2_VIRTUAL) + GIC_IGROUPR, ~0u);
    write_sysreg(S3_6_C12_C12_5, 0xf); /* ICC_SRE_EL3 */
    isb();
    set_hcr(HCR_IMO);
    call_at(EL2H, await_timer, 0, 0);
    is(intid, PPI_EL2_VIRTUAL, "its interrupt");
    set_hcr(0);
}

int main(void) {
    if (current_el() != 3 || !FIELD(read_sysreg(id_aa64pfr0_el1), 11, 8))
        return tap_skip_all("needs a start at EL3, and EL2");
    if (!FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32))
        return tap_skip_all("no SPE: this may be QEMU");
    set_scr(0);
    prepare_el2();
    prepare_el1();
    calls();
    external_aborts();
    walks();
    timer();
    waits();
    return tap_done();
}
