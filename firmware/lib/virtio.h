/* A virtio device in the highest virtio-mmio place: its registers (virtio 1.2, 4.2.2), and how its set-up begins. */
#pragma once

#include "firmware.h"

#define PLACE 0x0a003e00ull
#define REGISTER(offset) (*(volatile u32 *)(PLACE + (offset)))

enum {
    MAGIC = 0x000,
    VERSION = 0x004,
    DEVICE = 0x008,
    FEATURES = 0x010,
    FEATURES_SELECT = 0x014,
    ACCEPTED = 0x020,
    ACCEPTED_SELECT = 0x024,
    QUEUE = 0x030,
    QUEUE_SIZE_MAX = 0x034,
    QUEUE_SIZE = 0x038,
    QUEUE_READY = 0x044,
    NOTIFY = 0x050,
    INTERRUPT = 0x060,
    ACKNOWLEDGE = 0x064,
    STATUS = 0x070,
    DESCRIPTORS = 0x080,
    DRIVER = 0x090,
    USED = 0x0a0,
    CONFIGURATION = 0x100,
};

enum { NEXT = 1, WRITE = 2 }; /* flags of a descriptor */

struct descriptor {
    u64 address;
    u32 size;
    u16 flags, next;
};

/* Say where a part of a queue lies. */
static inline void set_area(u32 offset, const volatile void *area) {
    REGISTER(offset) = (u32)(u64)area;
    REGISTER(offset + 4) = (u64)area >> 32;
}

/* Reset the device, and accept version 1 of virtio alone: two checks. */
static inline void accept_version_1(void) {
    REGISTER(STATUS) = 0;
    REGISTER(STATUS) = 1 | 2;
    REGISTER(FEATURES_SELECT) = 1;
    is(REGISTER(FEATURES) & 1, 1, "version 1 is offered");
    REGISTER(ACCEPTED_SELECT) = 0;
    REGISTER(ACCEPTED) = 0;
    REGISTER(ACCEPTED_SELECT) = 1;
    REGISTER(ACCEPTED) = 1;
    REGISTER(STATUS) = 1 | 2 | 8;
    is(REGISTER(STATUS), 1 | 2 | 8, "and accepted");
}
