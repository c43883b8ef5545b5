/* A virtio console in the highest virtio-mmio place: set up, emergency write, a prompt, and a line that is typed. */
#include "lib/virtio.h"

#define EMERGENCY (CONFIGURATION + 8)
#define SIZE 4
#define LONGEST 64

enum { RECEIVE, TRANSMIT, QUEUES };

static struct queue {
    struct descriptor descriptors[SIZE] __attribute__((aligned(16)));
    volatile struct {
        u16 flags, index, ring[SIZE];
    } available __attribute__((aligned(16)));
    volatile struct {
        u16 flags, index;
        struct {
            u32 head, size;
        } ring[SIZE];
    } used __attribute__((aligned(16)));
} queues[QUEUES];

/* One buffer through a queue; how many bytes the device has stored in it. */
static u32 pass(u32 number, const volatile void *buffer, u32 size) {
    struct queue *queue = &queues[number];
    queue->descriptors[0].address = (u64)buffer;
    queue->descriptors[0].size = size;
    queue->descriptors[0].flags = number == RECEIVE ? WRITE : 0;
    u16 before = queue->used.index;
    queue->available.ring[queue->available.index % SIZE] = 0;
    dsb(sy);
    queue->available.index++;
    dsb(sy);
    REGISTER(NOTIFY) = number;
    while (queue->used.index == before)
        ;
    dsb(sy);
    return queue->used.ring[before % SIZE].size;
}

static void say(const char *text) {
    u32 size = 0;
    while (text[size])
        size++;
    pass(TRANSMIT, text, size);
}

static void set_up(void) {
    accept_version_1();
    for (u32 number = 0; number < QUEUES; number++) {
        REGISTER(QUEUE) = number;
        ok(REGISTER(QUEUE_SIZE_MAX) >= SIZE, "the queue has room");
        REGISTER(QUEUE_SIZE) = SIZE;
        set_area(DESCRIPTORS, queues[number].descriptors);
        set_area(DRIVER, &queues[number].available);
        set_area(USED, &queues[number].used);
        REGISTER(QUEUE_READY) = 1;
        is(REGISTER(QUEUE_READY), 1, "it is ready");
    }
    REGISTER(STATUS) = 1 | 2 | 4 | 8;
}

int main(void) {
    if (REGISTER(DEVICE) != 3)
        return tap_skip_all("there is no virtio console");
    is(REGISTER(MAGIC), 0x74726976, "a virtio device");
    is(REGISTER(VERSION), 2, "version 2 of the transport");
    REGISTER(FEATURES_SELECT) = 0;
    is(REGISTER(FEATURES) & 4, 4, "the emergency write is offered");
    REGISTER(EMERGENCY) = '!';
    REGISTER(EMERGENCY) = '\n';
    set_up();

    is(queues[TRANSMIT].used.index, 0, "nothing is printed");
    say("your name? ");
    is(queues[TRANSMIT].used.index, 1, "a prompt is");
    is(REGISTER(INTERRUPT) & 1, 1, "an interrupt is due");
    REGISTER(ACKNOWLEDGE) = 1;
    is(REGISTER(INTERRUPT) & 1, 0, "no more");

    static char line[LONGEST + 1];
    u32 length = 0;
    while (length < LONGEST && (length == 0 || line[length - 1] != '\n')) {
        volatile char c = 0;
        is(pass(RECEIVE, &c, 1), 1, "a character came");
        line[length++] = c;
    }
    is(length, 4, "a line of three letters");
    say("hello, ");
    say(line);
    return tap_done();
}
