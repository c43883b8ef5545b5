/* Programs of which each is built for several cores. All builds of one print the same. */
#pragma once

#include "lib/firmware.h"

typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;

void program(void);

/* CRC-32 (IEEE 802.3), continued from `crc`; that of nothing is 0. */
u32 crc32(u32 crc, const void *data, size_t size);
