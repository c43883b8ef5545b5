/* QEMU's fw_cfg at 0x09020000: signature, features, the number of PEs, the directory; by reads and by DMA. */
#include "lib/firmware.h"

#define BASE 0x09020000ull
#define DATA8 (*(volatile u8 *)BASE)
#define DATA32 (*(volatile u32 *)BASE)
#define DATA64 (*(volatile u64 *)BASE)
#define SELECTOR (*(volatile u16 *)(BASE + 8))
#define DMA_HIGH (*(volatile u32 *)(BASE + 16))
#define DMA_LOW (*(volatile u32 *)(BASE + 20))
#define DMA (*(volatile u64 *)(BASE + 16))

enum key { SIGNATURE = 0, ID = 1, CPUS = 5, DIRECTORY = 0x19, NOTHING = 0x3000 };
enum control { ERROR = 1, READ = 2, SKIP = 4, SELECT = 8, WRITE = 16 };

struct request {
    u32 control, length;
    u64 address;
} __attribute__((aligned(16)));

static void select(enum key key) {
    SELECTOR = __builtin_bswap16(key);
}

/* What the control word is after a request. */
static u32 dma(u32 control, u32 length, void *to, bool halves) {
    static volatile struct request request;
    request.control = __builtin_bswap32(control);
    request.length = __builtin_bswap32(length);
    request.address = __builtin_bswap64((u64)to);
    dsb(sy);
    if (halves) {
        DMA_HIGH = __builtin_bswap32((u64)&request >> 32);
        DMA_LOW = __builtin_bswap32((u32)(u64)&request);
    } else {
        DMA = __builtin_bswap64((u64)&request);
    }
    dsb(sy);
    return __builtin_bswap32(request.control);
}

int main(void) {
    static u8 bytes[16];

    select(SIGNATURE);
    ok(DATA8 == 'Q' && DATA8 == 'E' && DATA8 == 'M' && DATA8 == 'U', "the signature");
    is(DATA8, 0, "zeros behind the end");
    select(SIGNATURE);
    is(DATA32, 0x554d4551, "a word has its bytes in order");
    select(SIGNATURE);
    is(DATA64, 0x554d4551, "a double word has, too");
    select(ID);
    is(DATA32, 3, "reads and DMA");
    select(CPUS);
    is(DATA8, 1, "one PE");
    select(NOTHING);
    is(DATA64, 0, "an item that is not there reads as zero");
    is(DMA, 0x47464320554d4551, "the register of DMA says QEMU CFG");

    is(dma(SIGNATURE << 16 | SELECT | READ, 4, bytes, true), 0, "a request by two writes");
    ok(bytes[0] == 'Q' && bytes[3] == 'U' && bytes[4] == 0, "four bytes came");
    for (u32 n = 0; n < ARRAY_SIZE(bytes); n++)
        bytes[n] = 0xee;
    is(dma(SIGNATURE << 16 | SELECT | SKIP, 2, 0, false), 0, "a request by one write");
    is(dma(READ, 4, bytes, false), 0, "one that goes on");
    ok(bytes[0] == 'M' && bytes[1] == 'U' && bytes[2] == 0 && bytes[3] == 0, "the rest, then zeros");
    is(bytes[4], 0xee, "and no more");

    select(DIRECTORY);
    u32 count = __builtin_bswap32(DATA32);
    char before[56] = "";
    bool in_order = true;
    for (u32 n = 0; n < count; n++) {
        char name[56];
        (void)DATA64; /* size, key, reserved */
        for (u32 at = 0; at < sizeof(name); at++)
            name[at] = DATA8;
        u32 at = 0;
        while (name[at] && name[at] == before[at])
            at++;
        in_order = in_order && (u8)name[at] >= (u8)before[at];
        for (at = 0; at < sizeof(name); at++)
            before[at] = name[at];
    }
    ok(in_order, "files are listed by name");
    return tap_done();
}
