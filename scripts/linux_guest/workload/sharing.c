// A program for Linux in which two threads add to two counters by turns, on two CPUs. It needs no library.
//
//     sharing shared|padded ROUNDS     the counters are in one cache line, or 128 bytes apart
//
// Output: counters ADDRESS (of the first one, in decimal) | sum LEFT RIGHT

typedef unsigned long u64;

enum { WRITE = 64, EXIT = 93, EXIT_GROUP = 94, SCHED_SETAFFINITY = 122 };
enum { FLAGS = 0x00010f00 }; // CLONE_VM, FS, FILES, SIGHAND, THREAD
enum { APART = 128 };

static _Alignas(4096) volatile u64 counters[2 * APART / sizeof(u64)];
static _Alignas(4096) u64 whose; // 0 for the left thread, 1 for the right one, in a line of its own
static _Alignas(4096) u64 done;
static _Alignas(16) char stack[4096];
static volatile u64 *right_counter;
static u64 rounds;

static long call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}

static void stay_on(u64 cpu)
{
    u64 mask = 1ul << cpu;
    call(SCHED_SETAFFINITY, 0, sizeof mask, (long)&mask);
}

static void hand_over(u64 me)
{
    __atomic_store_n(&whose, !me, __ATOMIC_RELEASE);
    while (__atomic_load_n(&whose, __ATOMIC_ACQUIRE) != me) {
    }
}

__attribute__((noinline)) void add_left(volatile u64 *counter)
{
    for (u64 round = 0; round < rounds; round++) {
        *counter += 1;
        hand_over(0);
    }
}

__attribute__((noinline)) void add_right(volatile u64 *counter)
{
    while (__atomic_load_n(&whose, __ATOMIC_ACQUIRE) != 1) {
    }
    for (u64 round = 0; round < rounds - 1; round++) {
        *counter += 1;
        hand_over(1);
    }
    *counter += 1;
    __atomic_store_n(&whose, 0, __ATOMIC_RELEASE);
}

void right(void)
{
    stay_on(1);
    add_right(right_counter);
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    call(EXIT, 0, 0, 0);
}

// A thread that begins in right().
__asm__("start_right: mov x8, #220 // clone\n svc #0\n cbnz x0, 0f\n mov x29, #0\n bl right\n0: ret\n");
extern long start_right(u64 flags, void *end_of_stack);

static char line[128];
static unsigned length;

static void number(u64 value)
{
    char digits[20];
    unsigned n = 0;
    do
        digits[n++] = '0' + value % 10;
    while (value /= 10);
    line[length++] = ' ';
    while (n)
        line[length++] = digits[--n];
}

static void say(const char *word, u64 value, const u64 *other)
{
    length = 0;
    while (*word)
        line[length++] = *word++;
    number(value);
    if (other)
        number(*other);
    line[length++] = '\n';
    call(WRITE, 1, (long)line, length);
}

void run(u64 count, char **arguments)
{
    u64 apart = count > 1 && arguments[1][0] == 'p' ? APART : 8;
    for (const char *digit = count > 2 ? arguments[2] : "1"; *digit; digit++)
        rounds = 10 * rounds + (u64)(*digit - '0');
    right_counter = counters + apart / sizeof(u64);
    say("counters", (u64)counters, 0);
    stay_on(0);
    start_right(FLAGS, stack + sizeof stack);
    add_left(counters);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
    }
    u64 sum = *right_counter;
    say("sum", *counters, &sum);
    call(EXIT_GROUP, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov x29, #0\n ldr x0, [sp]\n add x1, sp, #8\n bl run\n");
