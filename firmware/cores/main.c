/* What the programs built for a core begin with: translation, so that vectors may lie anywhere, and SVE where there is any.
   Compiled for Armv8.0, as the library is: nothing the core may lack is executed before program() is called.
   An argument says how often that is. */
#include "cores/program.h"
#include "lib/arguments.h"
#include "lib/mmu.h"

#define PFR0_SVE(id) FIELD(id, 35, 32)
#define CPACR_ZEN (3 << 16)
#define ZCR_EL1 S3_0_C1_C2_0

int main(void) {
    mmu_on();
    if (PFR0_SVE(read_sysreg(id_aa64pfr0_el1))) {
        write_sysreg(cpacr_el1, read_sysreg(cpacr_el1) | CPACR_ZEN);
        isb();
        write_sysreg(ZCR_EL1, 0xf); /* the longest vectors */
        isb();
    }
    for (u64 times = argument_number(1, 1); times; times--)
        program();
    return tap_done();
}

u32 crc32(u32 crc, const void *data, size_t size) {
    const u8 *bytes = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}
