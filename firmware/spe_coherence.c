/* Cache lines that go from PE to PE: what the records of PE 0 say of counters that another PE writes, or only reads, in
   the same lines or beside them. For the core `generic` with `--model cache --smp 5`, whose sizes these are: PEs 0 to 3
   are a cluster, PE 4 is in the next one. */
#include "lib/smp.h"
#include "lib/spe.h"

#define GENERIC 0x000f5e00 /* MIDR_EL1 */
#define PMSIDR_LDS BIT(4)
#define INTERVAL 256
#define RECORDS 1024
#define NEAR 1
#define FAR 4

#define LINES 64 /* of 64 bytes, in steps of 128: a quarter of the L1 cache */
#define STEP 128
#define FIRST_ROUNDS 2 /* that are not profiled, so that everything has its place */
#define ROUNDS 72

#define SOURCE_L1D 0x0
#define SOURCE_PEER_CORE 0x9
#define SOURCE_PEER_CLUSTER 0xc

#define HIT 0x16 /* retired, L1D access, TLB access */
#define REFILL 0x8
#define LAST 0x300 /* last level access and miss */

/* Six operations for each line: one more in the counters at x0, or a look at them. */
asm("    .text\n"
    "add_all:\n"
    "    mov x1, #64\n"
    "at_load: ldr x3, [x0]\n"
    "    add x3, x3, #1\n"
    "at_store: str x3, [x0]\n"
    "    add x0, x0, #128\n"
    "    subs x1, x1, #1\n"
    "    b.ne at_load\n"
    "    ret\n"
    "look_at_all:\n"
    "    mov x1, #64\n"
    "0:  ldr x3, [x0]\n"
    "    add x0, x0, #128\n"
    "    subs x1, x1, #1\n"
    "    b.ne 0b\n"
    "    ret\n");
extern char at_load[], at_store[];
void add_all(u64 counters);
void look_at_all(u64 counters);

static u8 counters[LINES * STEP] __attribute__((aligned(4096)));
static u8 buffer[RECORDS * 64] __attribute__((aligned(4096)));
static struct spe_record records[RECORDS];
static struct spe_id id;

static volatile u64 turns __attribute__((aligned(64))); /* odd while the other PE has its turn */
static unsigned with; /* the other PE */
static void (*others_work)(u64);
static u64 others_counters;

static void other(void) {
    for (u64 round = 0; round < FIRST_ROUNDS + ROUNDS; round++) {
        wait_for(&turns, 2 * round + 1);
        others_work(others_counters);
        store_release(&turns, 2 * round + 2);
    }
}

static void play(u64 from, u64 to) {
    for (u64 round = from; round < to; round++) {
        add_all((u64)counters);
        store_release(&turns, 2 * round + 1);
        wait_for(&turns, 2 * round + 2);
    }
}

/* What PE 0 records of its loads and stores while the other PE does its work by turns with it. */
static unsigned profile(void) {
    struct spe_session session = {.buffer = (u64)buffer, .size = sizeof buffer, .interval = INTERVAL,
                                  .pmsfcr = PMSFCR_FT | PMSFCR_LD | PMSFCR_ST};
    u64 next;
    play(0, FIRST_ROUNDS);
    spe_setup(&session);
    spe_profile(PMSCR_E1SPE, (u64)play, FIRST_ROUNDS, FIRST_ROUNDS + ROUNDS, 0);
    u64 end = read_sysreg(PMBPTR_EL1);
    spe_stop();
    return spe_read_all((u64)buffer, end, id.align, records, RECORDS, &next);
}

static unsigned count;
static void begin(unsigned index) {
    if (index == with)
        other();
    else if (index == 0)
        count = profile();
}

/* Each load has these events, source and total; each store, whose line is there by then, hits. */
static void together(const char *name, unsigned other_pe, void (*work)(u64), u64 offset, unsigned source, u64 events,
                     unsigned total) {
    turns = 0;
    with = other_pe;
    others_work = work;
    others_counters = (u64)counters + offset;
    on_all(with + 1, begin);
    unsigned loads = 0, stores = 0, good = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct spe_record *r = &records[i];
        bool load = r->pc == (u64)at_load, store = r->pc == (u64)at_store;
        if (!load && !store)
            continue;
        loads += load;
        stores += store;
        bool fits = load ? r->events == events && r->has & SPE_HAS_SOURCE && r->source == source && r->counter[0] == total
                         : r->events == HIT && !(r->has & SPE_HAS_SOURCE) && r->counter[0] == 2;
        good += fits;
        if (!fits && loads + stores - good < 4) {
            print("# events 0x%lx, source 0x%x, total %u\n", r->events, r->source, r->counter[0]);
            spe_print_record(r);
        }
    }
    print("# %s: %u loads, %u stores\n", name, loads, stores);
    ok(loads > 10 && stores > 10 && good == loads + stores, name);
}

int main(void) {
    id = spe_probe();
    if (!id.usable)
        return tap_skip_all("no SPE");
    if (read_sysreg(MIDR_EL1) != GENERIC || !(read_sysreg(PMSIDR_EL1) & PMSIDR_LDS))
        return tap_skip_all("not the core generic with --model cache");
    mmu_on();
    for (unsigned index = 1; index <= FAR; index++)
        if (smp_start(index, 0) != PSCI_SUCCESS)
            return tap_skip_all("needs five PEs");

    together("counters of a PE of the cluster in the same lines", NEAR, add_all, 8, SOURCE_PEER_CORE, HIT | REFILL, 46);
    together("its counters in lines of their own", NEAR, add_all, 64, SOURCE_L1D, HIT, 5);
    together("it only reads the same lines", NEAR, look_at_all, 0, SOURCE_L1D, HIT, 5);
    together("counters of a PE of another cluster in the same lines", FAR, add_all, 8, SOURCE_PEER_CLUSTER,
             HIT | REFILL | LAST, 121);
    together("its counters in lines of their own", FAR, add_all, 64, SOURCE_L1D, HIT, 5);
    return tap_done();
}
