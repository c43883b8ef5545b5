#include "pmu.h"

unsigned pmu_version(void) {
    unsigned version = FIELD(read_sysreg(id_aa64dfr0_el1), 11, 8);
    return version == 15 ? 0 : version;
}

void pmu_stop(void) {
    write_sysreg(pmcr_el0, 0);
    isb();
    write_sysreg(pmcntenclr_el0, ~0ull);
    write_sysreg(pmintenclr_el1, ~0ull);
    write_sysreg(pmovsclr_el0, ~0ull);
    isb();
}

void pmu_interrupts(void) {
    if (FIELD(read_sysreg(S3_0_C0_C5_1), 51, 48)) /* ID_AA64DFR1_EL1.EBEP */
        write_sysreg(PMECR_EL1, 0);
    isb();
}

#define EACH_COUNTER(access) \
    case 0:                  \
        access(0);           \
        break;               \
    case 1:                  \
        access(1);           \
        break;               \
    case 2:                  \
        access(2);           \
        break;               \
    case 3:                  \
        access(3);           \
        break;               \
    case 4:                  \
        access(4);           \
        break;               \
    case 5:                  \
        access(5);           \
        break

static void no_counter(unsigned counter) {
    print("no counter %u\n", counter);
    exit_with(98);
}

u64 pmu_count(unsigned counter) {
#define READ(n) value = read_sysreg(pmevcntr##n##_el0)
    u64 value = 0;
    switch (counter) {
        EACH_COUNTER(READ);
    case 31:
        return read_sysreg(pmccntr_el0);
    default:
        no_counter(counter);
    }
    return value;
}

void pmu_set_count(unsigned counter, u64 value) {
#define WRITE(n) write_sysreg(pmevcntr##n##_el0, value)
    switch (counter) {
        EACH_COUNTER(WRITE);
    case 31:
        write_sysreg(pmccntr_el0, value);
        break;
    default:
        no_counter(counter);
    }
    isb();
}

void pmu_set_type(unsigned counter, u64 type) {
#define WRITE_TYPE(n) write_sysreg(pmevtyper##n##_el0, type)
    switch (counter) {
        EACH_COUNTER(WRITE_TYPE);
    case 31:
        write_sysreg(pmccfiltr_el0, type);
        break;
    default:
        no_counter(counter);
    }
    isb();
}

static bool group_good = true;

void expect(bool condition, const char *what, u64 which, u64 got, u64 expected) {
    if (!condition && group_good)
        print("# %s, %lu: 0x%lx, expected 0x%lx\n", what, which, got, expected);
    group_good &= condition;
}

void ok_group(const char *name) {
    ok(group_good, name);
    group_good = true;
}
