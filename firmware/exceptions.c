/* Synchronous exceptions taken to EL1, from EL1 and from EL0: vector, syndrome, FAR, return address,
   saved state, stack pointers. What it prints depends on the architecture alone. */
#include "lib/mmu.h"

/* trigger NAME, INSTRUCTION: functions NAME_el1 and NAME_el0 that run the instruction with x0 as their
   argument and NZCV = N, C; labels NAME_el1_at and NAME_el0_at are on it. */
asm(".macro trigger_at name, leave, instruction:vararg\n"
    "    .global \\name, \\name\\()_at\n"
    "    .type \\name, %function\n"
    "\\name:\n"
    "    mov x2, #0xa0000000\n"
    "    msr nzcv, x2\n"
    "    mov x9, x30\n"
    "\\name\\()_at:\n"
    "    \\instruction\n"
    "    \\leave\n"
    "    .size \\name, . - \\name\n"
    ".endm\n"
    ".macro trigger name, instruction:vararg\n"
    "    .text\n"
    "    trigger_at \\name\\()_el1, \"ret x9\", \\instruction\n"
    "    .section .user.text, \"ax\"\n"
    "    trigger_at \\name\\()_el0, \"svc #0xfff\", \\instruction\n"
    "    .text\n"
    ".endm\n"
    "    trigger supervisor_call, svc #0x1234\n"
    "    trigger undefined, udf #7\n"
    "    trigger undefined_register, .inst 0xd53bff81\n" /* MRS X1, S3_3_C15_C15_4 */
    "    trigger el1_register, mrs x1, sctlr_el1\n"
    "    trigger breakpoint, brk #0xabc\n"
    "    trigger load, ldr x1, [x0]\n"
    "    trigger load_pair, ldp x1, x3, [x0]\n"
    "    trigger load_byte, ldrb w1, [x0]\n"
    "    trigger store, str x1, [x0]\n"
    "    trigger store_vector, str q0, [x0]\n"
    "    trigger call, blr x0\n"
    "    trigger cache_type, mrs x1, ctr_el0\n"
    "    trigger zero_block, dc zva, x0\n"
    "    trigger wait, wfi\n"
    "    trigger counter, mrs x1, cntvct_el0\n");

#define FUNCTION(name) extern char name[], name##_at[]
#define TRIGGER(name)      \
    FUNCTION(name##_el1); \
    FUNCTION(name##_el0)
TRIGGER(supervisor_call);
TRIGGER(undefined);
TRIGGER(undefined_register);
TRIGGER(el1_register);
TRIGGER(breakpoint);
TRIGGER(load);
TRIGGER(load_pair);
TRIGGER(load_byte);
TRIGGER(store);
TRIGGER(store_vector);
TRIGGER(call);
TRIGGER(cache_type);
TRIGGER(zero_block);
TRIGGER(wait);
TRIGGER(counter);

/* Addresses with something to find there, or nothing. */
#define WINDOW 0x44000000ull /* pages of the test's own */
#define UNMAPPED WINDOW
#define READ_ONLY (WINDOW + 1 * PAGE)
#define UNACCESSED (WINDOW + 2 * PAGE)
#define USER_READ_ONLY (WINDOW + 3 * PAGE)
#define WRITABLE (WINDOW + 4 * PAGE)
#define LAST_BEFORE_HOLE (WINDOW + 6 * PAGE) /* the hole is at + 7 */
#define NO_LEVEL1 0x2000000000ull
#define NO_LEVEL2 0x0c000000ull
#define NO_LEVEL0 0x0000800000000000ull
#define UPPER_HALF 0xffffffc000000000ull

#define NO_FAR 1

struct test {
    const char *name;
    char *entry, *at;
    u64 argument;
    u32 esr; /* expected */
    u64 far; /* expected, or NO_FAR */
};
#define TEST(name, trigger, argument, esr, far) {name, trigger, trigger##_at, argument, esr, far}

static const struct test el1_tests[] = {
    TEST("SVC", supervisor_call_el1, 0, 0x56001234, NO_FAR),
    TEST("UDF", undefined_el1, 0, 0x02000000, NO_FAR),
    TEST("unallocated system register", undefined_register_el1, 0, 0x02000000, NO_FAR),
    TEST("BRK", breakpoint_el1, 0, 0xf2000abc, NO_FAR),
    TEST("load, translation fault level 3", load_el1, UNMAPPED + 0x128, 0x96000007, UNMAPPED + 0x128),
    TEST("load, translation fault level 2", load_el1, NO_LEVEL2, 0x96000006, NO_LEVEL2),
    TEST("load, translation fault level 1", load_el1, NO_LEVEL1, 0x96000005, NO_LEVEL1),
    TEST("load, address too large", load_el1, NO_LEVEL0, 0x96000004, NO_LEVEL0),
    TEST("load, upper half disabled", load_el1, UPPER_HALF, 0x96000004, UPPER_HALF),
    TEST("load, Access flag fault", load_el1, UNACCESSED + 8, 0x9600000b, UNACCESSED + 8),
    TEST("byte load", load_byte_el1, UNMAPPED + 0xfff, 0x96000007, UNMAPPED + 0xfff),
    TEST("load pair, second element faults", load_pair_el1, LAST_BEFORE_HOLE + PAGE - 8, 0x96000007,
         LAST_BEFORE_HOLE + PAGE),
    TEST("store, translation fault", store_el1, UNMAPPED + 16, 0x96000047, UNMAPPED + 16),
    TEST("store, permission fault", store_el1, READ_ONLY + 24, 0x9600004f, READ_ONLY + 24),
    TEST("store to text", store_el1, (u64)store_el1, 0x9600004f, (u64)store_el1),
    TEST("vector store, permission fault", store_vector_el1, READ_ONLY + 32, 0x9600004f, READ_ONLY + 32),
    TEST("fetch, translation fault", call_el1, UNMAPPED + 0x40, 0x86000007, UNMAPPED + 0x40),
    TEST("fetch, permission fault", call_el1, WRITABLE + 0x80, 0x8600000f, WRITABLE + 0x80),
    TEST("fetch of EL0's text", call_el1, (u64)call_el0, 0x8600000f, (u64)call_el0),
};

static const struct test el0_tests[] = {
    TEST("EL0: SVC", supervisor_call_el0, 0, 0x56001234, NO_FAR),
    TEST("EL0: UDF", undefined_el0, 0, 0x02000000, NO_FAR),
    TEST("EL0: system register of EL1", el1_register_el0, 0, 0x02000000, NO_FAR),
    TEST("EL0: BRK", breakpoint_el0, 0, 0xf2000abc, NO_FAR),
    TEST("EL0: load, translation fault", load_el0, UNMAPPED, 0x92000007, UNMAPPED),
    TEST("EL0: load of EL1's data", load_el0, (u64)&boot_info, 0x9200000f, (u64)&boot_info),
    TEST("EL0: load of EL1's block", load_el0, RAM_BASE + 8 * BLOCK, 0x9200000e, RAM_BASE + 8 * BLOCK),
    TEST("EL0: store, translation fault", store_el0, UNMAPPED + 8, 0x92000047, UNMAPPED + 8),
    TEST("EL0: store, permission fault", store_el0, USER_READ_ONLY + 8, 0x9200004f, USER_READ_ONLY + 8),
    TEST("EL0: fetch, translation fault", call_el0, UNMAPPED, 0x82000007, UNMAPPED),
    TEST("EL0: fetch of EL1's text", call_el0, (u64)call_el1, 0x8200000f, (u64)call_el1),
};

/* Trapped by a control bit that the program sets in front of these. */
static const struct test trapped_tests[] = {
    TEST("EL0: CTR_EL0 with UCT = 0", cache_type_el0, 0, 0x6232c021, NO_FAR),
    TEST("EL0: DC ZVA with DZE = 0", zero_block_el0, 0, 0x6212dc08, NO_FAR),
    TEST("EL0: WFI with nTWI = 0", wait_el0, 0, 0x07e00000, NO_FAR),
    TEST("EL0: CNTVCT_EL0 with EL0VCTEN = 0", counter_el0, 0, 0x6234f821, NO_FAR),
};

static volatile unsigned taken;
static struct frame caught;
static u8 user_stack[4096] USER_BSS __attribute__((aligned(16)));

#define SVC_LEAVE 0xfff
#define SVC_NEST 0x77

void on_exception(struct frame *frame) {
    bool svc = ESR_EC(frame->esr) == EC_SVC;
    if (svc && (frame->esr & 0xffff) == SVC_LEAVE)
        el0_leave(0);
    taken++;
    caught = *frame;
    if (svc && (frame->esr & 0xffff) == SVC_NEST)
        asm volatile("svc #0x78" ::: "memory");
    if (frame->elr == frame->far) /* a fetch: back to the caller */
        frame->elr = frame->x[30];
    else if (!svc)
        frame->elr += 4;
}

#define SPSR_CHECKED 0xf03003df /* NZCV, SS, IL, DAIF, M */

static void check(const struct test *test, unsigned el, u64 sp) {
    bool fetch = ESR_EC(test->esr) == EC_INSTRUCTION_ABORT || ESR_EC(test->esr) == EC_INSTRUCTION_ABORT_LOWER;
    u64 elr = fetch ? test->far : (u64)test->at + (ESR_EC(test->esr) == EC_SVC ? 4 : 0);
    bool good = taken == 1 && caught.vector == (el ? VECTOR_CURRENT_SYNC : VECTOR_LOWER_SYNC) &&
                caught.esr == test->esr && (test->far == NO_FAR || caught.far == test->far) && caught.elr == elr &&
                (caught.spsr & SPSR_CHECKED) == (el ? 0xa00003c5 : 0xa00003c0) && (el || caught.sp == sp);
    if (!ok(good, test->name))
        print("# taken %u, vector %lu, ESR %lx (expected %x), FAR %lx, ELR %lx (expected %lx), SPSR %lx\n", taken,
              caught.vector, caught.esr, test->esr, caught.far, caught.elr, elr, caught.spsr);
}

static void run_el1(const struct test *test) {
    taken = 0;
    ((void (*)(u64))test->entry)(test->argument);
    check(test, 1, 0);
}

static void run_el0(const struct test *test) {
    u64 user_sp = (u64)user_stack + sizeof user_stack - 64;
    taken = 0;
    el0_call((u64)test->entry, test->argument, 0, user_sp);
    check(test, 0, el0_caller);
    if (caught.sp_el0 != user_sp)
        is(caught.sp_el0, user_sp, "SP_EL0 is EL0's stack pointer");
}

/* Fills x3 to x28 and q0 to q31, makes a supervisor call, and returns how many of them changed. */
asm("    .global survivors\n"
    "    .type survivors, %function\n"
    "survivors:\n"
    "    stp x29, x30, [sp, #-160]!\n"
    "    stp x19, x20, [sp, #16]\n"
    "    stp x21, x22, [sp, #32]\n"
    "    stp x23, x24, [sp, #48]\n"
    "    stp x25, x26, [sp, #64]\n"
    "    stp x27, x28, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    .irp n, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28\n"
    "    mov x\\n, #(\\n + 0x1200)\n"
    "    .endr\n"
    "    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "    movi v\\n\\().16b, #(\\n + 0x40)\n"
    "    .endr\n"
    "    mov x0, #0x60000000\n"
    "    msr nzcv, x0\n"
    "    svc #0x77\n"
    "    cset x0, ne\n" /* Z was set */
    "    .irp n, 3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28\n"
    "    mov x1, #(\\n + 0x1200)\n"
    "    cmp x1, x\\n\n"
    "    cinc x0, x0, ne\n"
    "    .endr\n"
    "    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    "    mov x1, #(\\n + 0x40)\n"
    "    umov w2, v\\n\\().b[15]\n"
    "    cmp x1, x2\n"
    "    cinc x0, x0, ne\n"
    "    .endr\n"
    "    ldp x19, x20, [sp, #16]\n"
    "    ldp x21, x22, [sp, #32]\n"
    "    ldp x23, x24, [sp, #48]\n"
    "    ldp x25, x26, [sp, #64]\n"
    "    ldp x27, x28, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    ldp x29, x30, [sp], #160\n"
    "    ret\n"
    "    .size survivors, . - survivors\n");
u64 survivors(void);

static void stack_pointers(void) {
    taken = 0;
    write_sysreg(sp_el0, 0x12345670);
    asm volatile("msr spsel, #0\n"
                 "svc #0x21\n"
                 "msr spsel, #1" ::: "memory");
    ok(taken == 1 && caught.vector == 0, "with SP_EL0 in use an exception from EL1 takes vector 0");
    is(caught.spsr & SPSR_CHECKED & 0xfffffff, 0x3c4, "SPSR_EL1.M says EL1t");
    is(caught.sp_el0, 0x12345670, "SP_EL0 keeps its value");
    ok(caught.sp % 16 == 0 && caught.sp > (u64)__data_start && caught.sp < (u64)__image_end,
       "the handler runs on SP_EL1");
}

int main(void) {
    mmu_on();
    *(volatile u64 *)(LAST_BEFORE_HOLE + PAGE - 8) = 0; /* the first element of the pair that faults */
    unmap_page(UNMAPPED);
    map_page(READ_ONLY, READ_ONLY, PROT_RO);
    map_page_unaccessed(UNACCESSED, UNACCESSED, PROT_RW);
    map_page(USER_READ_ONLY, USER_READ_ONLY, PROT_USER_RO);
    unmap_page(LAST_BEFORE_HOLE + PAGE);

    for (unsigned i = 0; i < ARRAY_SIZE(el1_tests); i++)
        run_el1(&el1_tests[i]);
    stack_pointers();
    taken = 0;
    is(survivors(), 0, "registers and flags survive a call with a call inside");
    is(taken, 2, "both calls were taken");

    for (unsigned i = 0; i < ARRAY_SIZE(el0_tests); i++)
        run_el0(&el0_tests[i]);

    write_sysreg(cntkctl_el1, 0);
    write_sysreg(sctlr_el1, read_sysreg(sctlr_el1) & ~(BIT(14) | BIT(15) | BIT(16)));
    isb();
    for (unsigned i = 0; i < ARRAY_SIZE(trapped_tests); i++)
        run_el0(&trapped_tests[i]);

    map_page(UNMAPPED, WRITABLE, PROT_RW);
    *(volatile u64 *)UNMAPPED = 0x600d;
    is(*(volatile u64 *)WRITABLE, 0x600d, "a page mapped where a fault was is used at once");
    map_page(UNMAPPED, READ_ONLY, PROT_RW);
    *(volatile u64 *)UNMAPPED = 0xcafe;
    is(*(volatile u64 *)READ_ONLY, 0xcafe, "a page mapped elsewhere is found there");
    flush(WRITABLE, WRITABLE + 8);
    mmu_off();
    is(*(volatile u64 *)WRITABLE, 0x600d, "with the MMU off memory is as it was");
    return tap_done();
}
