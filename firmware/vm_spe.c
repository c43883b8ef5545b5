/* What a guest of a hypervisor sees of SPE: all of it, or nothing. It runs at EL1 of a machine, and in a virtual machine
   of Linux's KVM (`spe-unicorn linux --kvm --kvm-kernel`), which gives its guests no SPE so far. */
#include "lib/spe.h"

#define INTERVAL 1024
#define LOOPS 20000 /* of three operations */
#define RECORDS (LOOPS * 3 / INTERVAL)
#define FEW 4 /* records that a small buffer takes */
#define HLT_SEMIHOSTING 0xd45e0000 /* what ends a run on a machine, and is UNDEFINED in a virtual one */
#define PMBIDR_P BIT(4)
#define PSCI_SYSTEM_OFF 0x84000008

static u8 buffer[2 << 12] __attribute__((aligned(4096)));
static struct spe_record records[128];
static unsigned exceptions;
static u64 syndrome;

static void __attribute__((noreturn)) leave_virtual_machine(u64 status) {
    print("=== exit status %lu\n", status);
    register u64 x0 asm("x0") = PSCI_SYSTEM_OFF;
    for (;;)
        asm volatile("hvc #0" : "+r"(x0) : : "x1", "x2", "x3", "memory");
}

void on_exception(struct frame *frame) {
    if (*(u32 *)frame->elr == HLT_SEMIHOSTING)
        leave_virtual_machine(((u64 *)frame->x[1])[1]);
    exceptions++;
    syndrome = frame->esr;
    frame->elr += 4;
}

/* Whether a register is UNDEFINED, and nothing but that or readable. */
#define UNDEFINED(name) \
    ({ \
        exceptions = 0; \
        (void)read_sysreg(name); \
        exceptions == 1 && ESR_EC(syndrome) == EC_UNKNOWN; \
    })
#define EACH_REGISTER(DO) \
    DO(PMSCR_EL1) DO(PMSICR_EL1) DO(PMSIRR_EL1) DO(PMSFCR_EL1) DO(PMSEVFR_EL1) DO(PMSLATFR_EL1) DO(PMSIDR_EL1) \
    DO(PMBLIMITR_EL1) DO(PMBPTR_EL1) DO(PMBSR_EL1)
#define IS_HIDDEN(name) ok(UNDEFINED(name), #name " is UNDEFINED, as PMSVer says");
#define IS_THERE(name) ok((UNDEFINED(name), exceptions == 0), #name " can be read");

static void __attribute__((noinline)) work(u64 loops) {
    asm volatile("1: add x1, x1, #1\n"
                 "subs %0, %0, #1\n"
                 "b.ne 1b\n" : "+r"(loops) : : "x1", "cc");
}

static u64 counter(void) {
    asm volatile("isb" ::: "memory");
    return read_sysreg(cntvct_el0);
}

static void sessions(const struct spe_id *id) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof(buffer), .interval = INTERVAL};
    u64 next, before, after;
    spe_setup(&session);
    is(read_sysreg(PMSIRR_EL1), INTERVAL, "what was written is there");
    before = counter();
    spe_profile(PMSCR_E1SPE | PMSCR_TS, (u64)work, LOOPS, 0, 0);
    after = counter();
    u64 end = read_sysreg(PMBPTR_EL1);
    unsigned found = spe_read_all((u64)buffer, end, id->align, records, 128, &next);
    ok(found + 1 >= RECORDS && found <= RECORDS + 1, "as many records as intervals");
    is(next, end, "PMBPTR_EL1 is where they end");
    is(read_sysreg(PMBSR_EL1), 0, "there is nothing to report");
    unsigned strange = 0, late = 0;
    for (unsigned n = 0; n < found; n++) {
        strange += records[n].pc_el != 1 || !(records[n].events & SPE_EVENT_RETIRED);
        late += records[n].timestamp < before || records[n].timestamp > after;
    }
    is(strange, 0, "each is of EL1 and retired");
    is(late, 0, "each timestamp lies between readings of CNTVCT_EL0");

    session.size = 4096;
    spe_setup(&session);
    spe_set_buffer((u64)buffer + 4096 - FEW * id->max_size, 0, ((u64)buffer + 4096) | PMBLIMITR_E);
    spe_profile(PMSCR_E1SPE, (u64)work, LOOPS, 0, 0);
    ok((read_sysreg(PMBSR_EL1) & PMBSR_FULL) == PMBSR_FULL, "a full buffer is told");
    ok(read_sysreg(PMBPTR_EL1) <= (u64)buffer + 4096, "nothing is written behind it");
    spe_stop();
}

int main(void) {
    unsigned version = FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32);
    print("# PMSVer %u\n", version);
    if (!version) {
        EACH_REGISTER(IS_HIDDEN)
        /* without fine-grained traps EL2 cannot hide it, and it tells that the buffer is EL2's */
        ok(UNDEFINED(PMBIDR_EL1) || read_sysreg(PMBIDR_EL1) & PMBIDR_P, "PMBIDR_EL1 is UNDEFINED, or P is 1");
        return tap_done();
    }
    EACH_REGISTER(IS_THERE)
    IS_THERE(PMBIDR_EL1)
    struct spe_id id = spe_probe();
    if (ok(id.usable, "PMBIDR_EL1.P lets this level have the buffer"))
        sessions(&id);
    return tap_done();
}
