/* Who may access which register of the Performance Monitors: each MRS and MSR at every Exception level, under
   PMUSERENR_EL0 and the traps of EL2 and EL3. What the architecture says stands in rows written by hand. Starts at EL3. */
#include "lib/el.h"
#include "lib/pmu.h"

/* --- The registers, in this order in all rows --- */

enum { COUNTERS_OF_EL1 = 5, REGISTERS = 28 }; /* PMEVCNTR5_EL0 and PMEVTYPER5_EL0 are EL2's */
static const struct {
    const char *name;
    u8 op1, crn, crm, op2;
} registers[REGISTERS] = {
    {"PMCR_EL0", 3, 9, 12, 0},       {"PMCNTENSET_EL0", 3, 9, 12, 1}, {"PMCNTENCLR_EL0", 3, 9, 12, 2},
    {"PMOVSCLR_EL0", 3, 9, 12, 3},   {"PMOVSSET_EL0", 3, 9, 14, 3},   {"PMSWINC_EL0", 3, 9, 12, 4},
    {"PMSELR_EL0", 3, 9, 12, 5},     {"PMCEID0_EL0", 3, 9, 12, 6},    {"PMCEID1_EL0", 3, 9, 12, 7},
    {"PMCCNTR_EL0", 3, 9, 13, 0},    {"PMXEVTYPER_EL0", 3, 9, 13, 1}, {"PMXEVCNTR_EL0", 3, 9, 13, 2},
    {"PMEVCNTR0_EL0", 3, 14, 8, 0},  {"PMEVCNTR5_EL0", 3, 14, 8, 5},  {"PMEVTYPER0_EL0", 3, 14, 12, 0},
    {"PMEVTYPER5_EL0", 3, 14, 12, 5}, {"PMCCFILTR_EL0", 3, 14, 15, 7}, {"PMUSERENR_EL0", 3, 9, 14, 0},
    {"PMINTENSET_EL1", 0, 9, 14, 1}, {"PMINTENCLR_EL1", 0, 9, 14, 2}, {"PMZR_EL0", 3, 9, 13, 4},
    {"PMMIR_EL1", 0, 9, 14, 6},      {"PMUACR_EL1", 0, 9, 14, 4},     {"PMECR_EL1", 0, 9, 14, 5},
    {"PMIAR_EL1", 0, 9, 14, 7},      {"PMICNTR_EL0", 3, 9, 4, 0},     {"PMICFILTR_EL0", 3, 9, 6, 0},
    {"PMEVCNTR6_EL0", 3, 14, 8, 6},
};

/* --- The controls --- */

#define SCR_INITIAL (BIT(10) | BIT(8) | 3ull << 4) /* RW, HCE, RES1 */
#define SCR_NS BIT(0)
#define SCR_FGTEN BIT(27)
#define SCR_FGTEN2 BIT(59)
#define OPEN (SCR_NS | SCR_FGTEN | SCR_FGTEN2)
#define ENPM2 BIT(7)
#define TPM3 BIT(6) /* MDCR_EL3 */
#define TPM BIT(6) /* MDCR_EL2 */
#define TPMCR BIT(5)
#define TGE BIT(27)
#define E2H BIT(34)
#define EN BIT(0)
#define SW BIT(1)
#define CR BIT(2)
#define ER BIT(3)
#define UEN BIT(4)
#define TID BIT(6)
#define READS 1 /* fine-grained traps of all */
#define WRITES 2
#define FINE (BIT(58) | BIT(57) | 0x7ff000ull) /* PMCEIDn, PMUSERENR; PMMIR to PMEVCNTRn */
#define FINE2 (0x1full | BIT(21)) /* nPMUACR to nPMECR, nPMZR */

/* --- The rows. A letter a register: . it is accessed, U UNDEFINED, 1 2 3 a trap to that level; blanks are nothing --- */

#define EL1_READS "..... U . .. . .. .2.2 . . .. U . ..... U"
#define EL1_WRITES "..... . . UU . .. .2.2 . . .. . U ..... U"
#define ALL_READS "..... U . .. . .. .... . . .. U . ..... U"
#define ALL_WRITES "..... . . UU . .. .... . . .. . U ..... U"
#define EL0_CLOSED_READS "11111 U 1 11 1 11 1111 1 . UU U U UUU11 U"
#define EL0_CLOSED_WRITES "11111 1 1 UU 1 11 1111 1 U UU 1 U UUU11 U"

static const struct {
    u8 el;
    u64 scr, mdcr_el3, mdcr_el2, hcr, user;
    u8 fine;
    const char *reads, *writes, *name;
} rows[] = {
    {1, OPEN, ENPM2, 0, 0, 0, 0, EL1_READS, EL1_WRITES, "EL1"},
    {2, OPEN, ENPM2, 0, 0, 0, 0, ALL_READS, ALL_WRITES, "EL2"},
    {3, OPEN, ENPM2, 0, 0, 0, 0, ALL_READS, ALL_WRITES, "EL3"},
    {1, OPEN & ~SCR_NS, ENPM2, TPM | TPMCR, 0, 0, READS | WRITES, ALL_READS, ALL_WRITES, "Secure EL1: no EL2"},

    {0, OPEN, ENPM2, 0, 0, 0, 0, EL0_CLOSED_READS, EL0_CLOSED_WRITES, "EL0"},
    {0, OPEN, ENPM2, 0, 0, EN, 0, "..... U . .. . .. .2.2 . . UU U U UUU11 U",
     "..... . . UU . .. .2.2 . U UU . U UUU11 U", "PMUSERENR_EL0.EN"},
    {0, OPEN, ENPM2, 0, 0, UEN, 0, "1.... U . .. . .. .2.2 . . UU U U UUU.. U",
     "1.... . . UU . .. .2.2 . U UU . U UUU.. U", "UEN"},
    {0, OPEN, ENPM2, 0, 0, ER, 0, "11111 U . 11 1 1. .211 1 . UU U U UUU11 U",
     "11111 1 . UU 1 11 1111 1 U UU 1 U UUU11 U", "ER"},
    {0, OPEN, ENPM2, 0, 0, CR, 0, "11111 U 1 11 . 11 1111 1 . UU U U UUU11 U", EL0_CLOSED_WRITES, "CR"},
    {0, OPEN, ENPM2, 0, 0, SW, 0, EL0_CLOSED_READS, "11111 . 1 UU 1 11 1111 1 U UU 1 U UUU11 U", "SW"},
    {0, OPEN, ENPM2, 0, 0, EN | TID, 0, "..... U . 11 . .. .2.2 . . UU U U UUU11 U",
     "..... . . UU . .. .2.2 . U UU . U UUU11 U", "EN and TID"},
    {0, OPEN, ENPM2, 0, 0, EN | UEN | TID, 0, "1.... U . 11 . .. .2.2 . . UU U U UUU.. U",
     "1.... . . UU . .. .2.2 . U UU . U UUU.. U", "EN, UEN and TID"},
    {0, OPEN, ENPM2, 0, TGE, 0, 0, "22222 U 2 22 2 22 2222 2 . UU U U UUU22 U",
     "22222 2 2 UU 2 22 2222 2 U UU 2 U UUU22 U", "EL0 of EL2"},
    {0, OPEN, ENPM2, 0, TGE, EN | UEN, 0, "2.... U . .. . .. .2.2 . . UU U U UUU.. U",
     "2.... . . UU . .. .2.2 . U UU . U UUU.. U", "EL0 of EL2, EN and UEN"},

    {1, OPEN, ENPM2, TPM, 0, 0, 0, "22222 U 2 22 2 22 2222 2 2 22 U 2 22222 U",
     "22222 2 2 UU 2 22 2222 2 2 22 2 U 22222 U", "MDCR_EL2.TPM at EL1"},
    {0, OPEN, ENPM2, TPM, 0, EN | UEN, 0, "12222 U 2 22 2 22 2222 2 2 UU U U UUU22 U",
     "12222 2 2 UU 2 22 2222 2 U UU 2 U UUU22 U", "at EL0, behind PMUSERENR_EL0"},
    {0, OPEN, ENPM2, TPM, 0, 0, 0, "11111 U 1 11 1 11 1111 1 2 UU U U UUU11 U", EL0_CLOSED_WRITES, "at EL0, closed"},
    {2, OPEN, ENPM2, TPM | TPMCR, 0, 0, READS | WRITES, ALL_READS, ALL_WRITES, "not at EL2"},
    {1, OPEN, ENPM2, TPMCR, 0, 0, 0, "2.... U . .. . .. .2.2 . . .. U . ..... U",
     "2.... . . UU . .. .2.2 . . .. . U ..... U", "MDCR_EL2.TPMCR at EL1"},
    {0, OPEN, ENPM2, TPMCR, 0, EN, 0, "2.... U . .. . .. .2.2 . . UU U U UUU11 U",
     "2.... . . UU . .. .2.2 . U UU . U UUU11 U", "at EL0"},

    {1, OPEN, ENPM2 | TPM3, 0, 0, 0, 0, "33333 U 3 33 3 33 3232 3 3 33 U 3 33333 U",
     "33333 3 3 UU 3 33 3232 3 3 33 3 U 33333 U", "MDCR_EL3.TPM at EL1"},
    {2, OPEN, ENPM2 | TPM3, 0, 0, 0, 0, "33333 U 3 33 3 33 3333 3 3 33 U 3 33333 U",
     "33333 3 3 UU 3 33 3333 3 3 33 3 U 33333 U", "at EL2"},
    {3, OPEN, TPM3, 0, 0, 0, 0, ALL_READS, ALL_WRITES, "not at EL3"},
    {0, OPEN, ENPM2 | TPM3, 0, 0, EN, 0, "33333 U 3 33 3 33 3232 3 3 UU U U UUU11 U",
     "33333 3 3 UU 3 33 3232 3 U UU 3 U UUU11 U", "at EL0"},
    {1, OPEN, ENPM2 | TPM3, TPM, 0, 0, 0, "22222 U 2 22 2 22 2222 2 2 22 U 2 22222 U",
     "22222 2 2 UU 2 22 2222 2 2 22 2 U 22222 U", "behind EL2's"},
    {1, OPEN, 0, 0, 0, 0, 0, "..... U . .. . .. .2.2 . . .. U . 33333 U",
     "..... . . UU . .. .2.2 . . .. . U 33333 U", "MDCR_EL3.EnPM2 at EL1"},
    {2, OPEN, 0, 0, 0, 0, 0, "..... U . .. . .. .... . . .. U . 33333 U",
     "..... . . UU . .. .... . . .. . U 33333 U", "at EL2"},
    {0, OPEN, 0, 0, 0, UEN, 0, "1.... U . .. . .. .2.2 . . UU U U UUU33 U",
     "1.... . . UU . .. .2.2 . U UU . U UUU33 U", "at EL0"},

    {1, OPEN, ENPM2, 0, 0, 0, READS, ".2222 U 2 22 2 22 2222 2 2 22 U 2 22222 U", EL1_WRITES, "fine-grained: reads"},
    {1, OPEN, ENPM2, 0, 0, 0, WRITES, EL1_READS, "22222 2 2 UU 2 22 2222 2 2 22 2 U 22222 U", "writes"},
    {0, OPEN, ENPM2, 0, 0, EN | UEN, READS | WRITES, "12222 U 2 22 2 22 2222 2 2 UU U U UUU22 U",
     "12222 2 2 UU 2 22 2222 2 U UU 2 U UUU22 U", "at EL0"},
    {0, OPEN, ENPM2, 0, TGE | E2H, EN | UEN, READS | WRITES, "2.... U . .. . .. .2.2 . . UU U U UUU.. U",
     "2.... . . UU . .. .2.2 . U UU . U UUU.. U", "not at the EL0 of a host"},
    {1, OPEN & ~SCR_FGTEN2, ENPM2, 0, 0, 0, 0, "..... U . .. . .. .2.2 . . .. U . 22222 U",
     "..... . . UU . .. .2.2 . . .. 2 U 22222 U", "SCR_EL3.FGTEn2 is 0: the later ones trap"},
    {1, OPEN & ~SCR_FGTEN, ENPM2, 0, 0, 0, READS | WRITES, "..... U . .. . .. .2.2 . . .. U . 22222 U",
     "..... . . UU . .. .2.2 . . .. 2 U 22222 U", "SCR_EL3.FGTEn is 0: the earlier ones do not"},
};

/* --- One access: MOV Xt, X0; MRS or MSR; MOV X0, Xt; RET --- */

static struct stub {
    u32 word[4];
} stubs[2][REGISTERS];

static u32 access_word(bool read, unsigned n, unsigned rt) {
    return (read ? 0xd5380000 : 0xd5180000) | (u32)registers[n].op1 << 16 | (u32)registers[n].crn << 12 |
           (u32)registers[n].crm << 8 | (u32)registers[n].op2 << 5 | rt;
}

static u64 trap_esr(bool read, unsigned n, unsigned rt) {
    return 0x62000000ull | 3 << 20 | (u64)registers[n].op2 << 17 | (u64)registers[n].op1 << 14 |
           (u64)registers[n].crn << 10 | rt << 5 | (u64)registers[n].crm << 1 | read;
}

static void build_all(void) {
    for (unsigned read = 0; read < 2; read++)
        for (unsigned n = 0; n < REGISTERS; n++) {
            unsigned rt = n % 18; /* those that a function may change */
            stubs[read][n] = (struct stub){
                {0xaa0003e0 | rt, access_word(read, n, rt), 0xaa0003e0 | rt << 16, 0xd65f03c0}};
        }
    dsb(sy);
    asm volatile("ic iallu\n dsb sy\n isb" ::: "memory");
}

static u64 from_above(u64 f, u64 a) {
    return call_at(EL0T, (function *)f, a, 0);
}

static void run_at(unsigned el, bool tge, struct stub *stub) {
    static u8 el2_stack[4096] __attribute__((aligned(16)));
    write_sysreg(sp_el2, el2_stack + sizeof el2_stack);
    taken = 0;
    if (el == 0)
        call_at(tge ? EL2H : EL1H, from_above, (u64)stub, 0);
    else if (el == 3)
        ((function *)stub)(0, 0);
    else
        call_at(el == 2 ? EL2H : EL1H, (function *)stub, 0, 0);
}

static unsigned cases;

static bool is_as(unsigned row, bool read, unsigned n, char letter) {
    unsigned el = rows[row].el;
    bool tge = rows[row].hcr & TGE;
    run_at(el, tge, &stubs[read][n]);
    cases++;
    unsigned level = letter == 'U' ? (el ? el : tge ? 2 : 1) : letter == '.' ? 0 : (unsigned)(letter - '0');
    u64 esr = letter == 'U' ? 0x02000000 : trap_esr(read, n, n % 18);
    bool good = level ? taken == 1 && caught.level == level && caught.esr == esr &&
                            caught.elr == (u64)&stubs[read][n].word[1] &&
                            caught.vector == (level == el ? FROM_CURRENT(VECTOR_SYNC) : FROM_LOWER(VECTOR_SYNC))
                      : taken == 0;
    if (!good)
        print("# %s %s, expected %c: %u exceptions, EL%lu, vector %lu, ESR 0x%lx (expected 0x%lx), ELR 0x%lx\n",
              read ? "MRS" : "MSR", registers[n].name, letter, taken, caught.level, caught.vector, caught.esr, esr,
              caught.elr);
    return good;
}

static void set_controls(unsigned row) {
    bool reads = rows[row].fine & READS, writes = rows[row].fine & WRITES;
    write_sysreg(scr_el3, SCR_INITIAL | rows[row].scr);
    write_sysreg(mdcr_el3, rows[row].mdcr_el3);
    write_sysreg(mdcr_el2, rows[row].mdcr_el2 | COUNTERS_OF_EL1);
    write_sysreg(hcr_el2, HCR_RW | rows[row].hcr);
    write_sysreg(S3_4_C3_C1_4, reads ? FINE : 0); /* HDFGRTR_EL2, HDFGWTR_EL2 */
    write_sysreg(S3_4_C3_C1_5, writes ? FINE : 0);
    write_sysreg(S3_4_C3_C1_0, reads ? 0 : FINE2); /* HDFGRTR2_EL2, HDFGWTR2_EL2 */
    write_sysreg(S3_4_C3_C1_1, writes ? 0 : FINE2);
    isb();
}

static bool try_row(unsigned row, bool read) {
    const char *letters = read ? rows[row].reads : rows[row].writes;
    bool good = true;
    unsigned n = 0;
    for (; *letters; letters++) {
        if (*letters == ' ')
            continue;
        if (n == REGISTERS) {
            print("# a row that is too long\n");
            return false;
        }
        write_sysreg(pmselr_el0, 0);
        write_sysreg(pmuserenr_el0, rows[row].user);
        isb();
        good &= is_as(row, read, n++, *letters);
        taken = 0;
    }
    return good && n == REGISTERS;
}

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("starts at EL3");
    if (pmu_version() < PMUV3P9 || FIELD(read_sysreg(id_aa64mmfr0_el1), 59, 56) < 2)
        return tap_skip_all("needs FEAT_PMUv3p9 and FEAT_FGT2");
    write_sysreg(scr_el3, SCR_INITIAL | OPEN);
    write_sysreg(mdcr_el3, ENPM2);
    isb();
    prepare_el2();
    prepare_el1();
    pmu_stop();
    build_all();
    for (unsigned row = 0; row < ARRAY_SIZE(rows); row++) {
        set_controls(row);
        bool good = try_row(row, true);
        good &= try_row(row, false);
        ok(good, rows[row].name);
    }
    print("# %u cases\n", cases);
    return tap_done();
}
