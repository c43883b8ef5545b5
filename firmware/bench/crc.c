/* CRC-32 (IEEE 802.3) by table over a buffer that ends in its own CRC. */
#include "bench/bench.h"

#define SIZE (384 * 1024)
#define RESIDUE 0xdebb20e3u /* of any message followed by its CRC, before the final complement */

static u8 buffer[SIZE] __attribute__((aligned(8)));
static u32 table[256];

static u32 update(u32 crc, const u8 *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        crc = table[(crc ^ data[i]) & 0xff] ^ crc >> 8;
    return crc;
}

void bench_setup(void) {
    for (u32 i = 0; i < 256; i++) {
        u32 crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        table[i] = crc;
    }
    for (unsigned i = 0; i < SIZE; i += 8)
        *(u64 *)(buffer + i) = bench_random();
    u32 crc = ~update(~0u, buffer, SIZE - 4);
    for (unsigned i = 0; i < 4; i++)
        buffer[SIZE - 4 + i] = (u8)(crc >> (8 * i));
}

bool bench_work(void) {
    return update(~0u, (const u8 *)"123456789", 9) == ~0xcbf43926u && update(~0u, buffer, SIZE) == RESIDUE;
}
