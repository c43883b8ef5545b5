/* The flash at 0x04000000, by Intel's command set: query, identification, erasure, programming, status.
 * It starts in the flash before it: flash_cfi.bin. */
#include "lib/firmware.h"

#define FLASH ((volatile u32 *)0x04000000ull)
#define SECTOR_WORDS (0x40000 / 4)
#define BOTH(command) ((u32)(command) << 16 | (command)) /* for two chips of 16 bits, side by side */
#define READY BOTH(0x80)

static void send(u64 word, u32 command) {
    FLASH[word] = BOTH(command);
}

static u32 finished(u64 word) {
    while ((FLASH[word] & READY) != READY)
        ;
    return FLASH[word];
}

static void query(void) {
    static const u8 expected[] = {'Q', 'R', 'Y', 0x01, 0x00, 0x31, 0x00};
    send(0x55, 0x98);
    bool same = true;
    for (u64 n = 0; n < ARRAY_SIZE(expected); n++)
        same = same && FLASH[0x10 + n] == BOTH(expected[n]);
    ok(same, "a query tells of Intel's command set");
    for (u64 place = 0; place < 0x60; place++)
        print("# %x: %x\n", (unsigned)place, (unsigned)FLASH[place]);
    is(*(volatile u8 *)&FLASH[0x10], 'Q', "a byte of it");
    is(*(volatile u16 *)&FLASH[0x11], 'R', "a half-word of it");
    send(0, 0xff);
}

static void identification(void) {
    send(0, 0x90);
    is(FLASH[0], BOTH(0x89), "the manufacturer");
    is(FLASH[1], BOTH(0x18), "the device");
    is(FLASH[2], 0, "nothing else");
    send(0, 0xff);
}

static void erasure(void) {
    u64 sector = SECTOR_WORDS;
    send(sector, 0x20);
    send(sector, 0xd0);
    is(finished(sector), READY, "an erasure ends well");
    send(0, 0xff);
    is(FLASH[sector], 0xffffffff, "the first word of the sector");
    is(FLASH[sector + SECTOR_WORDS - 1], 0xffffffff, "the last one");
    is(FLASH[sector - 1], 0, "the word before it");
    is(FLASH[sector + SECTOR_WORDS], 0, "the word after it");
}

static void programming(void) {
    u64 word = SECTOR_WORDS + 4;
    send(word, 0x40);
    FLASH[word] = 0x12345678;
    is(finished(word), READY, "programming ends well");
    send(word, 0xff);
    is(FLASH[word], 0x12345678, "the word that was programmed");
    is(*(volatile u8 *)&FLASH[word], 0x78, "its first byte");
    is(FLASH[word + 1], 0xffffffff, "the word after it");
}

static void buffer(void) {
    u64 first = SECTOR_WORDS + 0x100;
    send(first, 0xe8);
    is(finished(first), READY, "the buffer is free");
    FLASH[first] = BOTH(15);
    for (u32 n = 0; n < 16; n++)
        FLASH[first + n] = n * 0x01010101;
    send(first, 0xd0);
    is(finished(first), READY, "programming the buffer ends well");
    send(first, 0xff);
    bool same = true;
    for (u32 n = 0; n < 16; n++)
        same = same && FLASH[first + n] == n * 0x01010101;
    ok(same, "16 words are there");
    is(FLASH[first + 16], 0xffffffff, "the word after them is not");
}

static void others(void) {
    send(0, 0x60);
    send(0, 0xd0);
    is(finished(0), READY, "a sector is unlocked");
    send(0, 0x50);
    is(FLASH[0], 0, "a status that is cleared leaves the array");
    send(0, 0x70);
    is(FLASH[0], 0, "the status is clear");
    send(0, 0x77);
    is(FLASH[0], 0, "what is no command leads to the array");
    send(0, 0x20);
    send(0, 0xd0);
    is(finished(0), READY, "the first sector is erased");
    send(0, 0xff);
    is(FLASH[0], 0xffffffff, "and empty");
}

int main(void) {
    is(FLASH[0], 0, "flash that nobody has programmed reads as zero");
    query();
    identification();
    erasure();
    programming();
    buffer();
    others();
    return tap_done();
}
