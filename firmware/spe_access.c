/* Who may access which SPE register: each MRS and MSR of the nineteen names, at every exception level, under
   controls of EL2 and EL3. What the architecture says about each stands in rows written by hand. */
#include "lib/el.h"

/* --- The names --- */

enum need {
    FNE = 1,
    FDS = 2,
    NVM = 4,
    EXC = 8,
    VHE = 16,
    FGT = 32,
    FGT2 = 64,
    NV2 = 128,
    V1P5 = 256,
};

/* In this order in all rows: sampling | buffer | EL2, EL12, EL3. */
enum column {
    CR1, NEVFR, ICR, IRR, FCR, EVFR, LATFR, IDR, DSFR,
    LIMITR, PTR, SR1, MAR, BIDR,
    CR2, SR2, CR12, SR12, SR3,
    COLUMNS,
};
#define UNALLOCATED 43 /* encodings between them */
#define CRN 9

static const struct accessor {
    const char *name;
    u8 op1, crm, op2;
    unsigned needs; /* features; without one the name is UNDEFINED */
    u64 first, second; /* what the register holds, what is written into it */
    enum column reaches;
    u16 nvmem; /* offset from VNCR_EL2.BADDR */
} accessors[COLUMNS] = {
    [CR1] = {"PMSCR_EL1", 0, 9, 0, 0, 0x28, 0x08, CR1, 0x828},
    [NEVFR] = {"PMSNEVFR_EL1", 0, 9, 1, FNE, 0xa8, 0x20, NEVFR, 0x850},
    [ICR] = {"PMSICR_EL1", 0, 9, 2, 0, 0x1234, 0x56789abc, ICR, 0x838},
    [IRR] = {"PMSIRR_EL1", 0, 9, 3, 0, 0x45600, 0x78901, IRR, 0x840},
    [FCR] = {"PMSFCR_EL1", 0, 9, 4, 0, 0x30002, 0x40005, FCR, 0},
    [EVFR] = {"PMSEVFR_EL1", 0, 9, 5, 0, 0x20, 0x88, EVFR, 0x830},
    [LATFR] = {"PMSLATFR_EL1", 0, 9, 6, 0, 0x123, 0xabc, LATFR, 0x848},
    [IDR] = {"PMSIDR_EL1", 0, 9, 7, 0, 0, ~0ull, IDR, 0},
    [DSFR] = {"PMSDSFR_EL1", 0, 10, 4, FDS, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, DSFR, 0x858},
    [LIMITR] = {"PMBLIMITR_EL1", 0, 10, 0, 0, 0x41230000, 0x45670000, LIMITR, 0x800},
    [PTR] = {"PMBPTR_EL1", 0, 10, 1, 0, 0x4112340000, 0x4256780000, PTR, 0x810},
    [SR1] = {"PMBSR_EL1", 0, 10, 3, 0, 0x90000004, 0x94010006, SR1, 0x820},
    [MAR] = {"PMBMAR_EL1", 0, 10, 5, NVM, 0x2ff, 0x344, MAR, 0},
    [BIDR] = {"PMBIDR_EL1", 0, 10, 7, 0, 0, ~0ull, BIDR, 0},
    [CR2] = {"PMSCR_EL2", 4, 9, 0, 0, 0x30, 0x18, CR2, 0},
    [SR2] = {"PMBSR_EL2", 4, 10, 3, EXC, 0x9000000d, 0x94010005, SR2, 0},
    [CR12] = {"PMSCR_EL12", 5, 9, 0, VHE, 0, 0x10, CR1, 0x828},
    [SR12] = {"PMBSR_EL12", 5, 10, 3, EXC | VHE, 0, 0x90010021, SR1, 0x820},
    [SR3] = {"PMBSR_EL3", 6, 10, 3, EXC, 0x94000009, 0x90010007, SR3, 0},
};

#define PMBIDR_P BIT(4)
#define PMBIDR_ADDRMODE (3ull << 6)
#define PMSCR_EE(value) ((u64)(value) << 8)

/* --- The controls --- */

enum control {
    SCR_EL3, MDCR_EL3, MDCR_EL2, HCR_EL2, HDFGRTR_EL2, HDFGWTR_EL2, HDFGRTR2_EL2, HDFGWTR2_EL2, HFGITR_EL2,
    EE_EL1, EE_EL2,
    CONTROLS,
};

#define PLAIN(name, control, msb, lsb) {name, control, msb, lsb, false, false, 0}
#define TRAPS_AT_0(control, field, bit, column) {#control "." #field, control, bit, bit, true, true, column}
#define TRAPS_AT_1(control, field, bit, column) {#control "." #field, control, bit, bit, false, true, column}
static const struct field {
    const char *name;
    u8 control, msb, lsb;
    bool inverted, traps;
    u8 column;
} fields[] = {
    PLAIN("SCR_EL3.NS", SCR_EL3, 0, 0),
    PLAIN("SCR_EL3.FGTEn", SCR_EL3, 27, 27),
    PLAIN("SCR_EL3.FGTEn2", SCR_EL3, 59, 59),
    PLAIN("MDCR_EL3.NSPB", MDCR_EL3, 13, 12),
    PLAIN("MDCR_EL3.EnPMSN", MDCR_EL3, 36, 36),
    PLAIN("MDCR_EL3.EnPMS3", MDCR_EL3, 42, 42),
    PLAIN("MDCR_EL3.EnPMS4", MDCR_EL3, 55, 55),
    PLAIN("MDCR_EL3.PMSEE", MDCR_EL3, 52, 51),
    PLAIN("MDCR_EL2.TPMS", MDCR_EL2, 14, 14),
    PLAIN("MDCR_EL2.E2PB", MDCR_EL2, 13, 12),
    PLAIN("HCR_EL2.E2H", HCR_EL2, 34, 34),
    PLAIN("HCR_EL2.TGE", HCR_EL2, 27, 27),
    PLAIN("HCR_EL2.NV", HCR_EL2, 42, 42),
    PLAIN("HCR_EL2.NV1", HCR_EL2, 43, 43),
    PLAIN("HCR_EL2.NV2", HCR_EL2, 45, 45),
    PLAIN("HFGITR_EL2.PSBCSYNC", HFGITR_EL2, 63, 63),
    PLAIN("PMSCR_EL1.EE", EE_EL1, 1, 0),
    PLAIN("PMSCR_EL2.EE", EE_EL2, 1, 0),
    TRAPS_AT_1(HDFGRTR_EL2, PMBIDR_EL1, 63, BIDR),
    TRAPS_AT_0(HDFGRTR_EL2, nPMSNEVFR_EL1, 62, NEVFR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSLATFR_EL1, 32, LATFR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSIRR_EL1, 31, IRR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSIDR_EL1, 30, IDR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSICR_EL1, 29, ICR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSFCR_EL1, 28, FCR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSEVFR_EL1, 27, EVFR),
    TRAPS_AT_1(HDFGRTR_EL2, PMSCR_EL1, 26, CR1),
    TRAPS_AT_1(HDFGRTR_EL2, PMBSR_EL1, 25, SR1),
    TRAPS_AT_1(HDFGRTR_EL2, PMBPTR_EL1, 24, PTR),
    TRAPS_AT_1(HDFGRTR_EL2, PMBLIMITR_EL1, 23, LIMITR),
    TRAPS_AT_0(HDFGWTR_EL2, nPMSNEVFR_EL1, 62, NEVFR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSLATFR_EL1, 32, LATFR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSIRR_EL1, 31, IRR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSICR_EL1, 29, ICR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSFCR_EL1, 28, FCR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSEVFR_EL1, 27, EVFR),
    TRAPS_AT_1(HDFGWTR_EL2, PMSCR_EL1, 26, CR1),
    TRAPS_AT_1(HDFGWTR_EL2, PMBSR_EL1, 25, SR1),
    TRAPS_AT_1(HDFGWTR_EL2, PMBPTR_EL1, 24, PTR),
    TRAPS_AT_1(HDFGWTR_EL2, PMBLIMITR_EL1, 23, LIMITR),
    TRAPS_AT_0(HDFGRTR2_EL2, nPMBMAR_EL1, 24, MAR),
    TRAPS_AT_0(HDFGRTR2_EL2, nPMSDSFR_EL1, 19, DSFR),
    TRAPS_AT_0(HDFGWTR2_EL2, nPMBMAR_EL1, 24, MAR),
    TRAPS_AT_0(HDFGWTR2_EL2, nPMSDSFR_EL1, 19, DSFR),
};

/* Base line of every row: Non-secure, nothing trapped, the buffer is EL1's. */
#define BASE                                                                                        \
    "SCR_EL3.NS=1 SCR_EL3.FGTEn=1 SCR_EL3.FGTEn2=1 MDCR_EL3.NSPB=11 MDCR_EL3.EnPMSN=1 "              \
    "MDCR_EL3.EnPMS3=1 MDCR_EL3.EnPMS4=1 MDCR_EL3.PMSEE=01 MDCR_EL2.TPMS=0 MDCR_EL2.E2PB=11 "       \
    "HDFGRTR_EL2.nPMSNEVFR_EL1=1 HDFGWTR_EL2.nPMSNEVFR_EL1=1 HDFGRTR2_EL2.nPMBMAR_EL1=1 "           \
    "HDFGRTR2_EL2.nPMSDSFR_EL1=1 HDFGWTR2_EL2.nPMBMAR_EL1=1 HDFGWTR2_EL2.nPMSDSFR_EL1=1"
#define READ_TRAPS "HDFGRTR_EL2:traps HDFGRTR2_EL2:traps"
#define WRITE_TRAPS "HDFGWTR_EL2:traps HDFGWTR2_EL2:traps"
#define NESTED_101 "HCR_EL2.NV2=1 HCR_EL2.NV1=0 HCR_EL2.NV=1"
#define NESTED_111 "HCR_EL2.NV2=1 HCR_EL2.NV1=1 HCR_EL2.NV=1"

/* --- The rows ---
   Values are binary. One letter a name:
     .  the register of that name, or of EL1 for an _EL12 name; PMBIDR_EL1.P is 0
     p  PMBIDR_EL1, whose P is 1
     h  the register of EL2, by a name of EL1
     m  memory at VNCR_EL2
     U  UNDEFINED
     2  a trap to EL2
     3  a trap to EL3
   A name whose feature the core lacks is UNDEFINED whatever the letter. */

static const struct row {
    u8 el;
    unsigned needs;
    const char *controls, *reads, *writes;
} rows[] = {
    /*                                         sampling  buffer EL2..3   sampling  buffer EL2..3 */
    {0, 0, "",                                "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {1, 0, "",                                "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {2, 0, "",                                "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {3, 0, "",                                "......... ..... ..UU.", ".......U. ....U ..UU."},

    /* EL0 is UNDEFINED before anything traps. */
    {0, 0, "MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00", "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {0, 0, "MDCR_EL3.NSPB=00",                 "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {0, 0, "SCR_EL3.NS=0",                     "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {0, FGT, READ_TRAPS " " WRITE_TRAPS,       "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {0, VHE, "HCR_EL2.E2H=1 HCR_EL2.TGE=1",    "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},
    {0, NV2, NESTED_101,                       "UUUUUUUUU UUUUU UUUUU", "UUUUUUUUU UUUUU UUUUU"},

    /* MDCR_EL2. E2PB = 01 is reserved; here the buffer is EL1's and nothing traps. */
    {1, 0, "MDCR_EL2.TPMS=1",                  "222222222 ..... UUUUU", "2222222U2 ....U UUUUU"},
    {1, 0, "MDCR_EL2.E2PB=00",                 "......... 2222p UUUUU", ".......U. 2222U UUUUU"},
    {1, 0, "MDCR_EL2.E2PB=01",                 "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, 0, "MDCR_EL2.E2PB=10",                 "......... 2222. UUUUU", ".......U. 2222U UUUUU"},
    {1, 0, "MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00", "222222222 2222p UUUUU", "2222222U2 2222U UUUUU"},
    {2, 0, "MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00", "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {2, 0, "MDCR_EL2.E2PB=10",                 "......... ..... ..UUU", ".......U. ....U ..UUU"},

    /* MDCR_EL3.NSPB, in Non-secure state. */
    {1, 0, "MDCR_EL3.NSPB=00",                 "333333333 3333p UUUUU", "3333333U3 3333U UUUUU"},
    {1, 0, "MDCR_EL3.NSPB=01",                 "333333333 3333p UUUUU", "3333333U3 3333U UUUUU"},
    {1, 0, "MDCR_EL3.NSPB=10",                 "333333333 3333. UUUUU", "3333333U3 3333U UUUUU"},
    {2, 0, "MDCR_EL3.NSPB=00",                 "333333333 3333p 33UUU", "3333333U3 3333U 33UUU"},
    {2, 0, "MDCR_EL3.NSPB=01",                 "333333333 3333p 33UUU", "3333333U3 3333U 33UUU"},
    {2, 0, "MDCR_EL3.NSPB=10",                 "333333333 3333. 33UUU", "3333333U3 3333U 33UUU"},
    {2, VHE, "MDCR_EL3.NSPB=01 HCR_EL2.E2H=1", "333333333 3333p 3333U", "3333333U3 3333U 3333U"},

    /* In Secure state, where EL2 is disabled, and so are its traps. */
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01",    "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=00",    "333333333 3333. UUUUU", "3333333U3 3333U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=10",    "333333333 3333p UUUUU", "3333333U3 3333U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=11",    "333333333 3333p UUUUU", "3333333U3 3333U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01 MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00",
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=11 MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00",
                                               "333333333 3333p UUUUU", "3333333U3 3333U UUUUU"},
    {1, FGT, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01 " READ_TRAPS " " WRITE_TRAPS,
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, FGT2, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01 SCR_EL3.FGTEn2=0",
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01 MDCR_EL3.EnPMSN=0",
                                               ".3....... ..... UUUUU", ".3.....U. ....U UUUUU"},
    {1, NV2, "SCR_EL3.NS=0 MDCR_EL3.NSPB=01 " NESTED_111,
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},

    /* Traps of EL2 come before those of EL3. */
    {1, 0, "MDCR_EL3.NSPB=01 MDCR_EL2.TPMS=1", "222222222 3333p UUUUU", "2222222U2 3333U UUUUU"},
    {1, 0, "MDCR_EL3.NSPB=01 MDCR_EL2.E2PB=00", "333333333 2222p UUUUU", "3333333U3 2222U UUUUU"},
    {1, 0, "MDCR_EL3.NSPB=10 MDCR_EL2.E2PB=10", "333333333 2222. UUUUU", "3333333U3 2222U UUUUU"},
    {1, 0, "MDCR_EL3.NSPB=01 MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00",
                                               "222222222 2222p UUUUU", "2222222U2 2222U UUUUU"},
    {1, FGT, "MDCR_EL3.NSPB=01 " READ_TRAPS,   "222222222 22222 UUUUU", "3333333U3 3333U UUUUU"},
    {1, FGT, "MDCR_EL3.NSPB=01 " WRITE_TRAPS,  "333333333 3333p UUUUU", "2222222U2 2222U UUUUU"},

    /* Single registers' enables in MDCR_EL3. */
    {1, FNE, "MDCR_EL3.EnPMSN=0",              ".3....... ..... UUUUU", ".3.....U. ....U UUUUU"},
    {2, FNE, "MDCR_EL3.EnPMSN=0",              ".3....... ..... ..UUU", ".3.....U. ....U ..UUU"},
    {1, FDS, "MDCR_EL3.EnPMS3=0",              "........3 ..... UUUUU", ".......U3 ....U UUUUU"},
    {2, FDS, "MDCR_EL3.EnPMS3=0",              "........3 ..... ..UUU", ".......U3 ....U ..UUU"},
    {1, NVM, "MDCR_EL3.EnPMS4=0",              "......... ...3. UUUUU", ".......U. ...3U UUUUU"},
    {2, NVM, "MDCR_EL3.EnPMS4=0",              "......... ...3. ..UUU", ".......U. ...3U ..UUU"},
    {1, 0, "MDCR_EL3.EnPMSN=0 MDCR_EL3.EnPMS3=0 MDCR_EL3.EnPMS4=0 MDCR_EL2.TPMS=1",
                                               "222222222 ...3. UUUUU", "2222222U2 ...3U UUUUU"},
    {1, 0, "MDCR_EL3.EnPMSN=0 MDCR_EL3.EnPMS3=0 MDCR_EL3.EnPMS4=0 MDCR_EL2.E2PB=10",
                                               ".3......3 2222. UUUUU", ".3.....U3 2222U UUUUU"},
    {1, FGT, "MDCR_EL3.EnPMSN=0 MDCR_EL3.EnPMS3=0 MDCR_EL3.EnPMS4=0 " READ_TRAPS,
                                               "222222222 22222 UUUUU", ".3.....U3 ...3U UUUUU"},

    /* MDCR_EL3.PMSEE. */
    {1, EXC, "MDCR_EL3.PMSEE=00",              "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {2, EXC, "MDCR_EL3.PMSEE=00",              "......... ..... .3UUU", ".......U. ....U .3UUU"},
    {2, EXC, "MDCR_EL3.PMSEE=10",              "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {2, EXC, "MDCR_EL3.PMSEE=11",              "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {3, EXC, "MDCR_EL3.PMSEE=00",              "......... ..... ..UU.", ".......U. ....U ..UU."},

    /* Nothing traps at EL3. */
    {3, 0, "MDCR_EL2.TPMS=1 MDCR_EL2.E2PB=00 MDCR_EL3.NSPB=00 MDCR_EL3.EnPMSN=0 MDCR_EL3.EnPMS3=0 "
           "MDCR_EL3.EnPMS4=0 MDCR_EL3.PMSEE=00",
                                               "......... ..... ..UU.", ".......U. ....U ..UU."},
    {3, 0, "SCR_EL3.NS=0 MDCR_EL3.NSPB=11",    "......... ..... ..UU.", ".......U. ....U ..UU."},
    {3, FGT, READ_TRAPS " " WRITE_TRAPS,       "......... ..... ..UU.", ".......U. ....U ..UU."},

    /* An operating system at EL2. */
    {1, VHE, "HCR_EL2.E2H=1",                  "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {2, VHE, "HCR_EL2.E2H=1",                  "h........ ..... ....U", "h......U. ....U ....U"},
    {2, VHE, "HCR_EL2.E2H=1 HCR_EL2.TGE=1",    "h........ ..... ....U", "h......U. ....U ....U"},
    {3, VHE, "HCR_EL2.E2H=1",                  "......... ..... .....", ".......U. ....U ....."},
    {3, VHE, "HCR_EL2.E2H=1 SCR_EL3.NS=0",     "......... ..... ..UU.", ".......U. ....U ..UU."},
    {2, EXC | VHE, "PMSCR_EL2.EE=11",          "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {2, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=01",
                                               "h........ ..h.. ....U", "h......U. ..h.U ....U"},
    {2, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=10",
                                               "h........ ..h.. ....U", "h......U. ..h.U ....U"},
    {2, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=11",
                                               "h........ ..h.. ....U", "h......U. ..h.U ....U"},
    {2, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=11 MDCR_EL3.PMSEE=00",
                                               "h........ ..... .3..U", "h......U. ....U .3..U"},
    {2, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=11 MDCR_EL3.PMSEE=00 MDCR_EL3.NSPB=10",
                                               "333333333 3333. 3333U", "3333333U3 3333U 3333U"},
    {3, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=11",
                                               "......... ..... .....", ".......U. ....U ....."},
    {1, EXC | VHE, "HCR_EL2.E2H=1 PMSCR_EL2.EE=11",
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},

    /* Fine-grained traps. */
    {1, FGT, READ_TRAPS,                       "222222222 22222 UUUUU", ".......U. ....U UUUUU"},
    {1, FGT, WRITE_TRAPS,                      "......... ..... UUUUU", "2222222U2 2222U UUUUU"},
    {2, FGT, READ_TRAPS " " WRITE_TRAPS,       "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {1, FGT, READ_TRAPS " " WRITE_TRAPS " SCR_EL3.FGTEn=0",
                                               "........2 ...2. UUUUU", ".......U2 ...2U UUUUU"},
    {1, FGT, "HDFGRTR_EL2:traps HDFGWTR_EL2:traps SCR_EL3.FGTEn=0",
                                               "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, FGT2, "SCR_EL3.FGTEn2=0",              "........2 ...2. UUUUU", ".......U2 ...2U UUUUU"},
    {1, FGT2, "SCR_EL3.FGTEn=0 SCR_EL3.FGTEn2=0",
                                               "........2 ...2. UUUUU", ".......U2 ...2U UUUUU"},
    {2, FGT2, "SCR_EL3.FGTEn=0 SCR_EL3.FGTEn2=0",
                                               "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {1, FGT, READ_TRAPS " SCR_EL3.FGTEn=0 MDCR_EL2.E2PB=00 MDCR_EL2.TPMS=1",
                                               "222222222 2222p UUUUU", "2222222U2 2222U UUUUU"},

    /* Nested virtualisation. NV1 without NV is CONSTRAINED UNPREDICTABLE; here it means nothing. */
    {1, NV2, "HCR_EL2.NV=1",                   "......... ..... 2222U", ".......U. ....U 2222U"},
    {1, NV2, "HCR_EL2.NV=1 HCR_EL2.NV1=1",     "......... ..... 2222U", ".......U. ....U 2222U"},
    {1, NV2, "HCR_EL2.NV2=1",                  "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, NV2, "HCR_EL2.NV2=1 HCR_EL2.NV1=1",    "......... ..... UUUUU", ".......U. ....U UUUUU"},
    {1, NV2, NESTED_101,                       ".mmm.mm.m mmm.. 22mmU", ".mmm.mmUm mmm.U 22mmU"},
    {1, NV2, NESTED_111,                       "mmmm.mm.m mmm.. 2222U", "mmmm.mmUm mmm.U 2222U"},
    {2, NV2, NESTED_101,                       "......... ..... ..UUU", ".......U. ....U ..UUU"},
    {2, NV2, NESTED_111 " HCR_EL2.E2H=1",      "h........ ..... ....U", "h......U. ....U ....U"},
    {3, NV2, NESTED_111,                       "......... ..... ..UU.", ".......U. ....U ..UU."},
    {1, NV2 | EXC, NESTED_101 " PMSCR_EL2.EE=11", ".mmm.mm.m mmm.. 22mmU", ".mmm.mmUm mmm.U 22mmU"},
    {1, NV2 | EXC, NESTED_101 " PMSCR_EL1.EE=11", ".mmm.mm.m mmm.. 22mmU", ".mmm.mmUm mmm.U 22mmU"},
    {1, NV2 | EXC, NESTED_101 " PMSCR_EL2.EE=11 PMSCR_EL1.EE=11",
                                               ".mmm.mm.m mm... 22mmU", ".mmm.mmUm mm..U 22mmU"},
    {1, NV2 | EXC, NESTED_101 " PMSCR_EL2.EE=01 PMSCR_EL1.EE=01",
                                               ".mmm.mm.m mm... 22mmU", ".mmm.mmUm mm..U 22mmU"},
    {1, NV2 | EXC, NESTED_101 " PMSCR_EL2.EE=11 PMSCR_EL1.EE=11 MDCR_EL3.PMSEE=00",
                                               ".mmm.mm.m mmm.. 22mmU", ".mmm.mmUm mmm.U 22mmU"},
    {1, NV2 | EXC, NESTED_111 " PMSCR_EL2.EE=11 PMSCR_EL1.EE=11",
                                               "mmmm.mm.m mmm.. 2222U", "mmmm.mmUm mmm.U 2222U"},
    {1, NV2, NESTED_101 " MDCR_EL2.TPMS=1",    "222222222 mmm.. 22mmU", "2222222U2 mmm.U 22mmU"},
    {1, NV2, NESTED_111 " MDCR_EL2.E2PB=10",   "mmmm.mm.m 2222. 2222U", "mmmm.mmUm 2222U 2222U"},
    {1, NV2, NESTED_101 " MDCR_EL3.NSPB=01",   "333333333 3333p 22mmU", "3333333U3 3333U 22mmU"},
    {1, NV2, NESTED_111 " MDCR_EL3.NSPB=10",   "333333333 3333. 2222U", "3333333U3 3333U 2222U"},
    {1, NV2, NESTED_101 " MDCR_EL3.EnPMSN=0 MDCR_EL3.EnPMS3=0 MDCR_EL3.EnPMS4=0",
                                               ".3mm.mm.3 mmm3. 22mmU", ".3mm.mmU3 mmm3U 22mmU"},
    {1, NV2 | FGT, NESTED_101 " " READ_TRAPS,  "222222222 22222 22mmU", ".mmm.mmUm mmm.U 22mmU"},
    {1, NV2 | FGT, NESTED_111 " " WRITE_TRAPS, "mmmm.mm.m mmm.. 2222U", "2222222U2 2222U 2222U"},
};

#define EL1_READS "......... ..... UUUUU"
#define EL1_WRITES ".......U. ....U UUUUU"
#define EL1_READ_TRAPS "222222222 22222 UUUUU"
#define EL1_WRITE_TRAPS "2222222U2 2222U UUUUU"

/* --- The machine --- */

#define HDFGRTR S3_4_C3_C1_4
#define HDFGWTR S3_4_C3_C1_5
#define HDFGRTR2 S3_4_C3_C1_0
#define HDFGWTR2 S3_4_C3_C1_1
#define HFGITR S3_4_C1_C1_6
#define VNCR_EL2 S3_4_C2_C2_0
#define ID_AA64DFR2_EL1 S3_0_C0_C5_2
#define ID_AA64MMFR0_EL1 S3_0_C0_C7_0
#define ID_AA64MMFR1_EL1 S3_0_C0_C7_1

#define SCR_INITIAL (BIT(10) | BIT(8) | 3ull << 4) /* RW, HCE, RES1 */
#define UNDEFINED_ESR 0x02000000ull
#define PSB_CSYNC 0xd503223fu
#define PSB_CSYNC_ESR 0x2a000003ull
#define VNCR_ABORT_ESR 0x96002010ull /* EC 0x25, VNCR, synchronous External abort */
#define WNR BIT(6)
#define NOTHING_THERE 0x0b000000ull

static unsigned implemented; /* of enum need */
static unsigned cases;
static u64 controls[CONTROLS];
static u64 mdcr_el2_initial;
static u64 held[COLUMNS]; /* what each register holds when a case begins */
static u64 dsfr_mask; /* data sources that can be filtered */

static u8 el2_stack[4096] __attribute__((aligned(16)));
static u64 nested[512] __attribute__((aligned(4096))); /* the page of VNCR_EL2 */

/* One access: MOV Xt, X0; MRS or MSR; MOV X0, Xt; RET. */
struct stub {
    u32 word[4];
};
static struct stub stubs[2][COLUMNS], unallocated[2][UNALLOCATED], to_zr[2], psb;

static void build(struct stub *stub, u32 word, unsigned rt) {
    const u32 mov = 0xaa0003e0; /* ORR Xd, XZR, Xm */
    stub->word[0] = mov | rt;
    stub->word[1] = word;
    stub->word[2] = mov | rt << 16;
    stub->word[3] = 0xd65f03c0;
}

static u32 instruction(bool read, unsigned op1, unsigned crm, unsigned op2, unsigned rt) {
    return (read ? 0xd5380000 : 0xd5180000) | op1 << 16 | CRN << 12 | crm << 8 | op2 << 5 | rt;
}

static u64 trap_esr(bool read, unsigned op1, unsigned crm, unsigned op2, unsigned rt) {
    return 0x62000000ull | 3 << 20 | op2 << 17 | op1 << 14 | CRN << 10 | rt << 5 | crm << 1 | read;
}

/* X0 to X17: those that a function may change. */
static unsigned rt_of(unsigned column) {
    return column % 18;
}

static bool is_accessor(unsigned op1, unsigned crm, unsigned op2) {
    for (unsigned c = 0; c < COLUMNS; c++)
        if (accessors[c].op1 == op1 && accessors[c].crm == crm && accessors[c].op2 == op2)
            return true;
    return false;
}

static unsigned build_all(void) {
    static const u8 op1s[] = {0, 4, 5, 6};
    unsigned count = 0;
    for (unsigned read = 0; read < 2; read++) {
        for (unsigned c = 0; c < COLUMNS; c++) {
            const struct accessor *a = &accessors[c];
            build(&stubs[read][c], instruction(read, a->op1, a->crm, a->op2, rt_of(c)), rt_of(c));
        }
        build(&to_zr[read], instruction(read, 0, 9, 2, 31), 31);
        count = 0;
        for (unsigned n = 0; n < ARRAY_SIZE(op1s) * 16; n++) {
            unsigned op1 = op1s[n / 16], crm = 9 + n / 8 % 2, op2 = n % 8;
            if (!is_accessor(op1, crm, op2) && count < UNALLOCATED)
                build(&unallocated[read][count++], instruction(read, op1, crm, op2, 3), 3);
        }
    }
    build(&psb, PSB_CSYNC, 0);
    dsb(sy);
    asm volatile("ic iallu\n dsb sy\n isb" ::: "memory");
    return count;
}

static bool present(unsigned column) {
    return (accessors[column].needs & ~implemented) == 0;
}

/* Whether the column is a register that can be written, not another name of one. */
static bool is_storage(unsigned column) {
    return column != IDR && column != BIDR && accessors[column].reaches == column && present(column);
}

/* At EL3, where nothing traps. */
static u64 get(unsigned column) {
    return ((function *)&stubs[1][column])(0, 0);
}

static void put(unsigned column, u64 value) {
    ((function *)&stubs[0][column])(value, 0);
}

static u64 exception_enable(unsigned column) {
    return column == CR1 ? PMSCR_EE(controls[EE_EL1]) : column == CR2 ? PMSCR_EE(controls[EE_EL2]) : 0;
}

/* What a column writes. */
static u64 written(unsigned column) {
    return accessors[column].second | exception_enable(accessors[column].reaches);
}

static u64 kept(unsigned column, u64 value) {
    return column == DSFR ? value & dsfr_mask : value;
}

/* --- Controls by name --- */

static bool same(const char *a, const char *b, size_t length) {
    for (size_t n = 0; n < length; n++)
        if (a[n] != b[n])
            return false;
    return true;
}

static void set_field(const struct field *field, u64 value) {
    u64 mask = ~0ull >> (63 - field->msb + field->lsb) << field->lsb;
    controls[field->control] = (controls[field->control] & ~mask) | value << field->lsb;
}

static void __attribute__((noreturn)) unknown_control(const char *text) {
    print("no such control: %s\n", text);
    exit_with(98);
}

/* "REGISTER.FIELD=binary", or "REGISTER:traps" for all its fields that trap, separated by blanks. */
static void set_by_text(const char *text) {
    while (*text) {
        size_t name = 0;
        bool found = false;
        while (text[name] && text[name] != '=' && text[name] != ':')
            name++;
        u64 value = 0;
        size_t end = name;
        for (; text[end] && text[end] != ' '; end++)
            value = value << 1 | (text[end] == '1');
        for (unsigned n = 0; n < ARRAY_SIZE(fields); n++) {
            const struct field *f = &fields[n];
            if (!same(f->name, text, name))
                continue;
            if (text[name] == ':' && f->name[name] == '.' && f->traps)
                set_field(f, !f->inverted), found = true;
            else if (text[name] == '=' && !f->name[name])
                set_field(f, value), found = true;
        }
        if (!found)
            unknown_control(text);
        text += end;
        while (*text == ' ')
            text++;
    }
}

static void program(void) {
    write_sysreg(scr_el3, SCR_INITIAL | controls[SCR_EL3]);
    write_sysreg(mdcr_el3, controls[MDCR_EL3]);
    write_sysreg(mdcr_el2, mdcr_el2_initial | controls[MDCR_EL2]);
    write_sysreg(hcr_el2, HCR_RW | controls[HCR_EL2]);
    if (implemented & FGT) {
        write_sysreg(HDFGRTR, controls[HDFGRTR_EL2]);
        write_sysreg(HDFGWTR, controls[HDFGWTR_EL2]);
        write_sysreg(HFGITR, controls[HFGITR_EL2]);
    }
    if (implemented & FGT2) {
        write_sysreg(HDFGRTR2, controls[HDFGRTR2_EL2]);
        write_sysreg(HDFGWTR2, controls[HDFGWTR2_EL2]);
    }
    isb();
    for (unsigned c = 0; c < COLUMNS; c++)
        if (is_storage(c)) {
            held[c] = kept(c, accessors[c].first | exception_enable(c));
            put(c, held[c]);
        }
    isb();
}

static void set_controls(const char *text) {
    for (unsigned n = 0; n < CONTROLS; n++)
        controls[n] = 0;
    set_by_text(BASE);
    set_by_text(text);
    program();
}

/* --- One case --- */

/* EL1 goes on at EL1, whatever SPSR_EL1 says of its mode to a guest hypervisor. */
void on_trap(struct trap *trap) {
    record_and_skip(trap);
    if (trap->level == 1 && trap->vector == FROM_CURRENT(VECTOR_SYNC))
        trap->spsr = (trap->spsr & ~0xfull) | (EL1H & 0xf);
}

static u64 call_el0(u64 f, u64 value) {
    return call_at(EL0T, (function *)f, value, 0);
}

static bool el0_is_host(void) {
    return (controls[HCR_EL2] & BIT(27)) != 0;
}

static u64 run_at(unsigned el, const struct stub *stub, u64 value) {
    write_sysreg(sp_el2, el2_stack + sizeof el2_stack);
    taken = 0;
    switch (el) {
    case 0:
        return call_at(el0_is_host() ? EL2H : EL1H, call_el0, (u64)stub, value);
    case 1:
        return call_at(EL1H, (function *)stub, value, 0);
    case 2:
        return call_at(EL2H, (function *)stub, value, 0);
    default:
        return ((function *)stub)(value, 0);
    }
}

static const char *what; /* the controls of the current cases */
static bool group_good;

static void wrong(unsigned el, bool read, const char *name, const char *why, u64 got, u64 expected) {
    group_good = false;
    print("# %s %s at EL%u, %s: %s 0x%lx, expected 0x%lx\n", read ? "MRS" : "MSR", name, el, what, why, got,
          expected);
}

/* SPSR_ELx.M[3:0]. A guest hypervisor is told that its exceptions at EL1 are from EL2: NV without NV1, or all of
   NV, NV1 and NV2, where EL2 is enabled. */
static u64 mode_from(unsigned el, unsigned level) {
    static const u8 modes[] = {EL0T & 0xf, EL1H & 0xf, EL2H & 0xf, 0xd};
    u64 hcr = controls[HCR_EL2], scr = controls[SCR_EL3];
    bool nv = hcr & BIT(42), nv1 = hcr & BIT(43), nv2 = hcr & BIT(45);
    if (el == 1 && level == 1 && (scr & BIT(0)) && nv && (!nv1 || nv2))
        return EL2H & 0xf;
    return modes[el];
}

/* The exception of the last access: none for level 0. */
static void check_exception(unsigned el, bool read, const char *name, const struct stub *stub, unsigned level,
                            u64 esr) {
    if (!level) {
        if (taken)
            wrong(el, read, name, "an exception with ESR", caught.esr, 0);
        return;
    }
    if (taken != 1) {
        wrong(el, read, name, "number of exceptions", taken, 1);
        return;
    }
    if (caught.level != level)
        wrong(el, read, name, "target EL", caught.level, level);
    if (caught.vector != (level == el ? FROM_CURRENT(VECTOR_SYNC) : FROM_LOWER(VECTOR_SYNC)))
        wrong(el, read, name, "vector", caught.vector, level == el ? FROM_CURRENT(0) : FROM_LOWER(0));
    if (caught.esr != esr)
        wrong(el, read, name, "ESR", caught.esr, esr);
    if (caught.elr != (u64)&stub->word[1])
        wrong(el, read, name, "ELR", caught.elr, (u64)&stub->word[1]);
    if ((caught.spsr & 0xf) != mode_from(el, level))
        wrong(el, read, name, "mode in SPSR", caught.spsr & 0xf, mode_from(el, level));
}

static u64 nested_value(unsigned n) {
    return 0x1111000022220000ull + n;
}

/* All registers and the page of VNCR_EL2 are as before, but for one register or doubleword. */
static void check_state(unsigned el, bool read, const char *name, unsigned changed, u64 value, unsigned doubleword) {
    for (unsigned c = 0; c < COLUMNS; c++) {
        if (!is_storage(c))
            continue;
        u64 expected = c == changed ? kept(c, value) : held[c], is_now = get(c);
        if (is_now != expected) {
            print("# %s:\n", accessors[c].name);
            wrong(el, read, name, "left", is_now, expected);
        }
        if (is_now != held[c])
            put(c, held[c]);
    }
    for (unsigned n = 0; n < ARRAY_SIZE(nested); n++) {
        u64 expected = n == doubleword ? value : nested_value(n);
        if (nested[n] != expected) {
            print("# VNCR_EL2 + 0x%x:\n", 8 * n);
            wrong(el, read, name, "left", nested[n], expected);
        }
        nested[n] = nested_value(n);
    }
}

static unsigned undefined_level(unsigned el) {
    return el ? el : el0_is_host() ? 2 : 1;
}

#define NONE 0xffff
#define KEPT_VALUE 0x5a5a5a5a12345678ull

static void one_case(unsigned el, bool read, unsigned column, char letter) {
    const struct accessor *a = &accessors[column];
    const struct stub *stub = &stubs[read][column];
    u64 value = read ? KEPT_VALUE : written(column);
    u64 result = run_at(el, stub, value);
    u64 expected = value; /* in the register that was read into, or written from */
    unsigned changed = NONE, doubleword = NONE;
    cases++;
    if (!present(column))
        letter = 'U';
    switch (letter) {
    case 'U':
        check_exception(el, read, a->name, stub, undefined_level(el), UNDEFINED_ESR);
        break;
    case '2':
    case '3':
        check_exception(el, read, a->name, stub, letter - '0',
                        trap_esr(read, a->op1, a->crm, a->op2, rt_of(column)));
        break;
    case 'm':
        check_exception(el, read, a->name, stub, 0, 0);
        if (read)
            expected = nested_value(a->nvmem / 8);
        else
            doubleword = a->nvmem / 8;
        break;
    case '.':
    case 'p':
    case 'h':
        check_exception(el, read, a->name, stub, 0, 0);
        unsigned reached = letter != 'h' ? a->reaches : column == CR1 ? CR2 : SR2;
        if (!read) {
            changed = reached;
        } else if (column == BIDR) {
            expected = (get(BIDR) & ~(PMBIDR_P | PMBIDR_ADDRMODE)) | (letter == 'p' ? PMBIDR_P : 0);
            result &= ~PMBIDR_ADDRMODE;
        } else {
            expected = column == IDR ? get(IDR) : held[reached];
        }
        break;
    default:
        unknown_control("a letter of a row");
    }
    if (result != expected)
        wrong(el, read, a->name, "value", result, expected);
    check_state(el, read, a->name, changed, value, doubleword);
}

/* --- Groups --- */

static char line[400]; /* the name of a group */

static void append(const char *text) {
    size_t n = 0;
    while (line[n])
        n++;
    while (*text && n < sizeof line - 1)
        line[n++] = *text++;
    line[n] = 0;
}

static void append_number(unsigned value) {
    char digits[12];
    unsigned n = sizeof digits;
    digits[--n] = 0;
    do {
        digits[--n] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    append(&digits[n]);
}

static unsigned group_start;

static void begin(const char *controls_text) {
    set_controls(controls_text);
    what = *controls_text ? controls_text : "base line";
    group_good = true;
    group_start = cases;
    line[0] = 0;
}

static void end(const char *who, const char *text, const char *more) {
    append_number(cases - group_start);
    append(" cases at ");
    append(who);
    append(": ");
    append(text);
    append(more);
    ok(group_good, line);
}

static const char *const level_names[] = {"EL0", "EL1", "EL2", "EL3"};

static void letters_of(char *letters, const char *text) {
    unsigned n = 0;
    for (; *text; text++)
        if (*text != ' ' && n < COLUMNS)
            letters[n++] = *text;
    if (n != COLUMNS)
        unknown_control("a row of the wrong length");
}

static void check_letters(unsigned el, const char *reads, const char *writes) {
    for (unsigned c = 0; c < COLUMNS; c++) {
        one_case(el, true, c, reads[c]);
        one_case(el, false, c, writes[c]);
    }
}

static void check_rows(void) {
    unsigned left_out = 0;
    for (unsigned n = 0; n < ARRAY_SIZE(rows); n++) {
        const struct row *row = &rows[n];
        char reads[COLUMNS], writes[COLUMNS];
        if (row->needs & ~implemented) {
            left_out++;
            continue;
        }
        letters_of(reads, row->reads);
        letters_of(writes, row->writes);
        begin(row->controls);
        check_letters(row->el, reads, writes);
        end(level_names[row->el], what, "");
    }
    print("# %u rows are for features that this core lacks\n", left_out);
}

static unsigned fgt_feature(const struct field *field) {
    return field->control == HDFGRTR2_EL2 || field->control == HDFGWTR2_EL2 ? FGT2 : FGT;
}

/* Each bit alone, and all but it: it traps its register in its direction, and nothing else. */
static void check_fine_grained(void) {
    for (unsigned n = 0; n < ARRAY_SIZE(fields); n++) {
        const struct field *f = &fields[n];
        if (!f->traps || (fgt_feature(f) & ~implemented) || !present(f->column))
            continue;
        char reads[COLUMNS], writes[COLUMNS];
        char *direction = f->control == HDFGRTR_EL2 || f->control == HDFGRTR2_EL2 ? reads : writes;

        letters_of(reads, EL1_READS);
        letters_of(writes, EL1_WRITES);
        direction[f->column] = '2';
        begin("");
        what = f->name;
        set_field(f, !f->inverted);
        program();
        check_letters(1, reads, writes);
        end("EL1", f->name, f->inverted ? " traps at 0" : " traps at 1");

        letters_of(reads, EL1_READ_TRAPS);
        letters_of(writes, EL1_WRITE_TRAPS);
        direction[f->column] = '.';
        begin(READ_TRAPS " " WRITE_TRAPS);
        what = f->name;
        set_field(f, f->inverted);
        program();
        check_letters(1, reads, writes);
        end("EL1", f->name, f->inverted ? " alone does not, at 1" : " alone does not, at 0");
    }
}

static void check_unallocated(void) {
    begin("");
    for (unsigned el = 0; el < 4; el++)
        for (unsigned read = 0; read < 2; read++)
            for (unsigned n = 0; n < UNALLOCATED; n++) {
                const struct stub *stub = &unallocated[read][n];
                run_at(el, stub, KEPT_VALUE);
                cases++;
                check_exception(el, read, "an unallocated encoding", stub, undefined_level(el), UNDEFINED_ESR);
            }
    end("all levels", "encodings between those of SPE are UNDEFINED", "");
}

static void check_zero_register(void) {
    begin("MDCR_EL2.TPMS=1");
    for (unsigned read = 0; read < 2; read++) {
        run_at(1, &to_zr[read], 0);
        cases++;
        check_exception(1, read, "PMSICR_EL1 with XZR", &to_zr[read], 2, trap_esr(read, 0, 9, 2, 31));
    }
    end("EL1", "XZR is 31 in the syndrome", "");
}

static void check_psb_csync(void) {
    static const struct {
        u8 el;
        unsigned needs;
        const char *controls;
        u8 level; /* that takes the exception, 0 for none */
    } psb_rows[] = {
        {0, 0, "", 0},
        {1, 0, "", 0},
        {2, 0, "", 0},
        {3, 0, "", 0},
        {0, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1", 2},
        {1, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1", 2},
        {2, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1", 0},
        {3, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1", 0},
        {0, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1 SCR_EL3.FGTEn=0", 0},
        {1, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1 SCR_EL3.FGTEn=0", 0},
        {0, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1 SCR_EL3.NS=0", 0},
        {1, FGT | V1P5, "HFGITR_EL2.PSBCSYNC=1 SCR_EL3.NS=0", 0},
        {0, FGT | V1P5 | VHE, "HFGITR_EL2.PSBCSYNC=1 HCR_EL2.E2H=1", 2},
        {1, FGT | V1P5 | VHE, "HFGITR_EL2.PSBCSYNC=1 HCR_EL2.E2H=1", 2},
        {0, FGT | V1P5 | VHE, "HFGITR_EL2.PSBCSYNC=1 HCR_EL2.E2H=1 HCR_EL2.TGE=1", 0},
        {2, FGT | V1P5 | VHE, "HFGITR_EL2.PSBCSYNC=1 HCR_EL2.E2H=1 HCR_EL2.TGE=1", 0},
    };
    begin("");
    for (unsigned n = 0; n < ARRAY_SIZE(psb_rows); n++) {
        unsigned el = psb_rows[n].el;
        if (psb_rows[n].needs & ~implemented)
            continue;
        what = psb_rows[n].controls;
        set_controls(what);
        run_at(el, &psb, 0);
        cases++;
        check_exception(el, false, "PSB CSYNC", &psb, psb_rows[n].level, PSB_CSYNC_ESR);
    }
    end("all levels", "PSB CSYNC, without and with HFGITR_EL2.PSBCSYNC", "");
}

/* The page of VNCR_EL2 is where there is no memory. */
static void check_nested_faults(void) {
    if (!(implemented & NV2))
        return;
    begin(NESTED_101);
    write_sysreg(VNCR_EL2, NOTHING_THERE);
    isb();
    for (unsigned read = 0; read < 2; read++) {
        u64 result = run_at(1, &stubs[read][ICR], KEPT_VALUE);
        cases++;
        check_exception(1, read, "PMSICR_EL1", &stubs[read][ICR], 2, VNCR_ABORT_ESR | (read ? 0 : WNR));
        if (caught.far != NOTHING_THERE + accessors[ICR].nvmem)
            wrong(1, read, "PMSICR_EL1", "FAR", caught.far, NOTHING_THERE + accessors[ICR].nvmem);
        if (result != KEPT_VALUE)
            wrong(1, read, "PMSICR_EL1", "value", result, KEPT_VALUE);
    }
    write_sysreg(VNCR_EL2, nested);
    isb();
    end("EL1", "VNCR_EL2 without memory: External aborts at EL2", "");
}

static void find_features(void) {
    unsigned version = FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32);
    unsigned fgt = FIELD(read_sysreg(ID_AA64MMFR0_EL1), 59, 56);
    u64 dfr2 = read_sysreg(ID_AA64DFR2_EL1), pmsidr = get(IDR);
    implemented = (FIELD(pmsidr, 6, 6) ? FNE : 0) | (FIELD(pmsidr, 7, 7) ? FDS : 0)
        | (FIELD(dfr2, 23, 20) ? NVM : 0) | (FIELD(dfr2, 19, 16) ? EXC : 0)
        | (FIELD(read_sysreg(ID_AA64MMFR1_EL1), 11, 8) ? VHE : 0) | (fgt ? FGT : 0) | (fgt > 1 ? FGT2 : 0)
        | (version >= 6 ? V1P5 : 0);
    taken = 0;
    write_sysreg(VNCR_EL2, nested); /* no ID register need show nested virtualisation */
    implemented |= taken ? 0 : NV2;
    taken = 0;
    print("# PMSVer %u;%s%s%s%s%s%s%s%s\n", version, implemented & FNE ? " FnE" : "", implemented & FDS ? " FDS" : "",
          implemented & NVM ? " nVM" : "", implemented & EXC ? " EXC" : "", implemented & VHE ? " VHE" : "",
          implemented & FGT ? " FGT" : "", implemented & FGT2 ? " FGT2" : "", implemented & NV2 ? " NV2" : "");
    if (implemented & FDS) {
        put(DSFR, ~0ull);
        dsfr_mask = get(DSFR);
    }
}

int main(void) {
    if (current_el() != 3)
        return tap_skip_all("needs a start at EL3");
    if (!FIELD(read_sysreg(id_aa64dfr0_el1), 35, 32))
        return tap_skip_all("needs SPE");
    write_sysreg(scr_el3, SCR_INITIAL | BIT(0));
    isb();
    prepare_el2();
    prepare_el1();
    mdcr_el2_initial = read_sysreg(mdcr_el2);
    is(build_all(), UNALLOCATED, "encodings that are not allocated");
    find_features();
    for (unsigned n = 0; n < ARRAY_SIZE(nested); n++)
        nested[n] = nested_value(n);
    check_rows();
    check_fine_grained();
    check_unallocated();
    check_zero_register();
    check_psb_csync();
    check_nested_faults();
    print("# %u cases\n", cases);
    return tap_done();
}
