/* EL0 alone is profiled, across system calls: every place in the EL0 loop is sampled equally often, and
   what EL1 does in between neither counts nor shows. */
#include "lib/mmu.h"
#include "lib/spe.h"

#define LOOPS 1500
#define INTERVAL 256
#define RECORDS 1024
#define CONTEXT 0x5bec0de

/* 13 operations: 257 and 13 have no common factor, so sampling walks through all places. */
asm("    .section .user.text, \"ax\"\n"
    "    .global user_loop, user_loop_end\n"
    "    .type user_loop, %function\n"
    "user_loop:\n"
    "    add x2, x2, #1\n"
    "    svc #1\n"
    "    eor x3, x2, x0\n"
    "    ldr x4, [x1]\n"
    "    svc #2\n"
    "    svc #3\n"
    "    str x3, [x1, #8]\n"
    "    orr x5, x3, x4\n"
    "    cbz xzr, 1f\n"
    "1:  sub x6, x5, x2\n"
    "    svc #4\n"
    "    subs x0, x0, #1\n"
    "    b.ne user_loop\n"
    "user_loop_end:\n"
    "    svc #0xfff\n"
    "    .size user_loop, . - user_loop\n"
    "    .text\n");
extern char user_loop[], user_loop_end[];
#define PLACES 13

static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static u64 user_data[2] USER_BSS;
static u8 user_stack[256] USER_BSS __attribute__((aligned(16)));

static unsigned calls, moved;

void on_exception(struct frame *frame) {
    u64 before = read_sysreg(PMSICR_EL1);
    if (ESR_EC(frame->esr) != EC_SVC) {
        print("unexpected exception: ESR 0x%lx, FAR 0x%lx, ELR 0x%lx\n", frame->esr, frame->far, frame->elr);
        exit_with(99);
    }
    if ((frame->esr & 0xffff) == 0xfff)
        el0_leave(0);
    calls++;
    for (volatile unsigned i = 0; i < calls % 7; i++) { /* takes a different time each time */
    }
    moved += read_sysreg(PMSICR_EL1) != before;
}

static bool is_call(u64 place) {
    return place == 1 || place == 4 || place == 5 || place == 10;
}

int main(void) {
    struct spe_id id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    mmu_on();
    write_sysreg(contextidr_el1, CONTEXT);

    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL};
    spe_setup(&session);
    write_sysreg(PMSCR_EL1, PMSCR_E0SPE | PMSCR_CX | PMSCR_TS);
    isb();
    el0_call((u64)user_loop, LOOPS, (u64)user_data, (u64)user_stack + sizeof user_stack);
    spe_drain();
    u64 end = read_sysreg(PMBPTR_EL1), next;
    u64 pmbsr = read_sysreg(PMBSR_EL1);
    spe_stop();

    is(calls, 4 * LOOPS, "all system calls were served");
    is(moved, 0, "PMSICR_EL1 stands still at EL1");
    is(pmbsr & ~PMBSR_COLL, 0, "no management event");
    unsigned count = spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
    is(next, end, "whole records lie in front of PMBPTR_EL1");

    unsigned sane = 0, context = 0, exceptions = 0, at_place[PLACES] = {0}, steps = 0;
    u64 last = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        u64 place = (r->pc - (u64)user_loop) / 4;
        if (!spe_record_sane(r, &id, 0) || place >= PLACES) {
            spe_print_record(r);
            continue;
        }
        sane++;
        context += r->has & SPE_HAS_CONTEXT1 && r->context1 == CONTEXT;
        exceptions += (bool)(r->events & SPE_EVENT_EXCEPTION) == is_call(place);
        steps += i > 0 && place == (last + INTERVAL + 1) % PLACES;
        last = place;
        at_place[place]++;
    }
    is(sane, count, "every record is of the loop at EL0");
    is(context, count, "every record has CONTEXTIDR_EL1");
    is(exceptions, count, "the supervisor calls, and only they, have the exception event");
    unsigned least = ~0u, most = 0;
    for (unsigned i = 0; i < PLACES; i++) {
        least = at_place[i] < least ? at_place[i] : least;
        most = at_place[i] > most ? at_place[i] : most;
    }
    print("# %u records, each place %u to %u times\n", count, least, most);
    if (id.arch_inst && !(pmbsr & PMBSR_COLL)) {
        is(count, (PLACES * LOOPS + 1) / (INTERVAL + 1), "as many records as EL0 operations give");
        is((records[0].pc - (u64)user_loop) / 4, INTERVAL % PLACES, "the first is of EL0 operation 257");
        is(steps, count - 1, "from one to the next there are exactly 257 EL0 operations");
        ok(most - least <= 1, "no place is favoured, also not after a return");
    } else {
        ok(least > 0, "no place is left out");
    }

    spe_setup(&session);
    write_sysreg(PMSCR_EL1, PMSCR_TS);
    isb();
    el0_call((u64)user_loop, 100, (u64)user_data, (u64)user_stack + sizeof user_stack);
    spe_drain();
    is(read_sysreg(PMBPTR_EL1), (u64)buffer, "with E0SPE = 0 nothing is recorded");
    is(read_sysreg(PMSICR_EL1), 0, "and nothing is counted");
    spe_stop();
    return tap_done();
}
