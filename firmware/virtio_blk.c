/* A virtio disk of 64 KiB in the highest virtio-mmio place: set up, read, write, errors, the interrupt's status. */
#include "lib/virtio.h"

#define CAPACITY CONFIGURATION
#define SIZE 8
#define SECTORS 128

enum { IN = 0, OUT = 1, UNKNOWN = 99 };

static struct descriptor descriptors[SIZE] __attribute__((aligned(16)));
static volatile struct {
    u16 flags, index, ring[SIZE];
} available __attribute__((aligned(16)));
static volatile struct {
    u16 flags, index;
    struct {
        u32 head, size;
    } ring[SIZE];
} used __attribute__((aligned(16)));
static struct {
    u32 type, reserved;
    u64 sector;
} header;
static u8 data[512];
static volatile u8 status;

/* How many bytes came, from one request. */
static u32 ask(u32 type, u64 sector) {
    header.type = type;
    header.sector = sector;
    status = 0xee;
    descriptors[0].address = (u64)&header;
    descriptors[0].size = sizeof(header);
    descriptors[0].flags = NEXT;
    descriptors[0].next = 1;
    descriptors[1].address = (u64)data;
    descriptors[1].size = sizeof(data);
    descriptors[1].flags = NEXT | (type == OUT ? 0 : WRITE);
    descriptors[1].next = 2;
    descriptors[2].address = (u64)&status;
    descriptors[2].size = 1;
    descriptors[2].flags = WRITE;
    u16 before = used.index;
    available.ring[available.index % SIZE] = 0;
    dsb(sy);
    available.index++;
    dsb(sy);
    REGISTER(NOTIFY) = 0;
    while (used.index == before)
        ;
    dsb(sy);
    return used.ring[before % SIZE].size;
}

static void set_up(void) {
    accept_version_1();
    REGISTER(QUEUE) = 0;
    is(REGISTER(QUEUE_READY), 0, "the queue is not ready");
    ok(REGISTER(QUEUE_SIZE_MAX) >= SIZE, "it has room");
    REGISTER(QUEUE_SIZE) = SIZE;
    set_area(DESCRIPTORS, descriptors);
    set_area(DRIVER, &available);
    set_area(USED, &used);
    REGISTER(QUEUE_READY) = 1;
    is(REGISTER(QUEUE_READY), 1, "it is ready");
    REGISTER(STATUS) = 1 | 2 | 4 | 8;
}

int main(void) {
    if (REGISTER(DEVICE) != 2)
        return tap_skip_all("there is no disk");
    is(REGISTER(MAGIC), 0x74726976, "a virtio device");
    is(REGISTER(VERSION), 2, "version 2 of the transport");
    is(REGISTER(DEVICE), 2, "a disk");
    is(REGISTER(CAPACITY), SECTORS, "of so many sectors");
    set_up();

    is(ask(IN, 3), 513, "a sector and a status");
    is(status, 0, "the read is done");
    is(data[0], 'd', "what is there");
    is(REGISTER(INTERRUPT), 1, "an interrupt is due");
    REGISTER(ACKNOWLEDGE) = 1;
    is(REGISTER(INTERRUPT), 0, "no more");
    for (u32 n = 0; n < sizeof(data); n++)
        data[n] = (u8)n;
    is(ask(OUT, 3), 1, "a status alone");
    is(status, 0, "the write is done");
    for (u32 n = 0; n < sizeof(data); n++)
        data[n] = 0;
    ask(IN, 3);
    bool same = true;
    for (u32 n = 0; n < sizeof(data); n++)
        same = same && data[n] == (u8)n;
    ok(same, "it reads as written");
    ask(IN, 4);
    is(data[0], 'e', "the next sector is as it was");
    ask(IN, SECTORS);
    is(status, 1, "there is no sector behind the end");
    ask(OUT, SECTORS);
    is(status, 1, "nor can it be written");
    ask(UNKNOWN, 0);
    is(status, 2, "an unknown request");
    return tap_done();
}
