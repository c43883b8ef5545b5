/* A program that is right, and with an argument has one mistake that passes unnoticed: stack, text, data, null,
   uninitialised, race, lost, torn. `spe-unicorn doctor`, `--check` and `--interrupt-sweep` find them (docs/how-to/ci.md). */
#include "lib/arguments.h"
#include "lib/el.h"
#include "lib/gic.h"

#define SGI 3
#define DEEP 64
#define RET 0xd65f03c0
#define STACK_BYTES 1024
#define SOON 1000 /* ticks */

static const char *planted;
/* What a stack that runs over lands in lies below it. */
asm("    .bss\n"
    "    .balign 16\n"
    "below: .skip 4096\n"
    "    .global small_stack\n"
    "    .type small_stack, %object\n"
    "small_stack: .skip " STRINGIFY(STACK_BYTES) "\n"
    "    .size small_stack, . - small_stack\n"
    "    .text\n");
extern char small_stack[];
static volatile u64 counter, pair[2];
static volatile unsigned interrupts, torn;
static volatile bool waiting;
static u32 words[16] __attribute__((aligned(64)));
extern char __heap_start[];

static bool has(const char *mistake) {
    return planted && strcmp(planted, mistake) == 0;
}

void on_interrupt(struct trap *trap) {
    (void)trap;
    u64 intid = read_sysreg(icc_iar1_el1);
    if (intid == SPURIOUS)
        return;
    interrupts++;
    counter++;
    torn += pair[0] != pair[1];
    if (intid == PPI_EL1_PHYSICAL) {
        write_sysreg(cntp_ctl_el0, 0);
        waiting = false;
    }
    write_sysreg(icc_eoir1_el1, intid);
    isb();
}

#define unmask() asm volatile("msr daifclr, #2" ::: "memory")
#define mask() asm volatile("msr daifset, #2" ::: "memory")

/* A frame of 64 bytes for each level. */
static u64 __attribute__((noinline, noclone)) recurse(unsigned depth) {
    volatile u64 frame[4] = {depth, depth, depth, depth};
    return depth ? recurse(depth - 1) + frame[0] : frame[1];
}

static u64 __attribute__((noinline, noclone)) on_small_stack(unsigned depth) {
    u64 result, top = (u64)small_stack + STACK_BYTES;
    asm volatile("mov x19, sp\n mov sp, %2\n mov x0, %1\n bl recurse_for_stack\n mov sp, x19\n mov %0, x0"
                 : "=r"(result)
                 : "r"((u64)depth), "r"(top)
                 : "memory", "cc", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                   "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x30");
    return result;
}

u64 recurse_for_stack(u64 depth);
u64 recurse_for_stack(u64 depth) {
    return recurse((unsigned)depth);
}

static void __attribute__((noinline, noclone)) write_code(void *at) {
    *(volatile u32 *)at = RET; /* nobody calls it any more */
}

static void __attribute__((noinline, noclone, used)) patched(void) {
    asm volatile("nop");
}

static void __attribute__((noinline, noclone)) run_data(void) {
    words[0] = RET;
    dsb(sy);
    asm volatile("ic iallu\n dsb sy\n isb" ::: "memory");
    ((void (*)(void))(u64)words)();
}

static u64 __attribute__((noinline, noclone)) load(const volatile u64 *at) {
    return *at;
}

/* What the window of an interrupt sweep holds: `handler` and this share `counter` and `pair`. */
static void __attribute__((noinline, noclone)) share(void) {
    if (!has("race"))
        mask();
    counter++;
    unmask();
    if (!has("torn"))
        mask();
    pair[0]++;
    pair[1]++;
    unmask();
}

/* Waits for the timer; wrongly it looks first and sleeps then, so an interrupt in between is lost. */
static void __attribute__((noinline, noclone)) wait(void) {
    bool masks = !has("lost");
    if (masks)
        mask();
    while (waiting) {
        asm volatile("wfi");
        unmask();
        isb();
        if (masks)
            mask();
    }
    unmask();
}

int main(void) {
    if (current_el() != 1)
        return tap_skip_all("needs a start at EL1");
    planted = argument(1);
    gic_init();
    gic_enable(SGI);
    gic_enable(PPI_EL1_PHYSICAL);
    unmask();

    u64 sum = on_small_stack(has("stack") ? DEEP : 4);
    ok(sum != 0, "a recursion returns");
    if (has("text"))
        write_code((void *)(u64)patched);
    if (has("data"))
        run_data();
    if (has("null"))
        load(0);
    const volatile u64 *heap = (const volatile u64 *)__heap_start;
    u64 first = has("uninitialised") ? load(heap) : 0;
    ok(first == 0, "the heap begins with 0");

    waiting = true;
    write_sysreg(cntp_tval_el0, SOON);
    write_sysreg(cntp_ctl_el0, 1);
    share();
    wait();
    mask();
    is(counter, 1 + interrupts, "nothing of the counter was lost");
    is(torn, 0, "the pair was whole whenever the handler looked");
    ok(!waiting, "the timer came");
    return tap_done();
}
