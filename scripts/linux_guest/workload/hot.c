// A program for Linux that does a known number of operations in known functions on known arrays, and says so.
// It needs no library, so what perf shows of it is what stands here.
//
//     hot ROUNDS      calls each loop that often
//
// Output, all numbers in decimal:  pid N | clock COUNTER NANOSECONDS | function NAME OPERATIONS |
// array NAME ADDRESS BYTES | page ADDRESS FRAME (a physical page number, by /proc/self/pagemap)

typedef unsigned long u64;

enum { OPENAT = 56, READ = 63, WRITE = 64, PREAD = 67, EXIT = 93, CLOCK_GETTIME = 113, GETPID = 172 };
enum { PAGE = 4096, ENTRIES = 8192, BYTES = 8 * ENTRIES, CLOCK_MONOTONIC_RAW = 4, AT_FDCWD = -100 };

__attribute__((aligned(PAGE))) u64 first[ENTRIES], second[ENTRIES], third[ENTRIES];

typedef u64 loop(void *array, u64 rounds);
extern loop sum_first, fill_second, bump_third, mix_registers, count_down;
struct operations {
    u64 round, call;
};
extern const struct operations operations_of_sum_first, operations_of_fill_second, operations_of_bump_third,
    operations_of_mix_registers, operations_of_count_down;

static const struct {
    const char *name;
    loop *run;
    const struct operations *operations;
    void *array;
    u64 rounds;
} loops[] = {
    {"sum_first", sum_first, &operations_of_sum_first, first, ENTRIES / 3},
    {"fill_second", fill_second, &operations_of_fill_second, second, ENTRIES},
    {"bump_third", bump_third, &operations_of_bump_third, third, 2 * ENTRIES},
    {"mix_registers", mix_registers, &operations_of_mix_registers, 0, 4000},
    {"count_down", count_down, &operations_of_count_down, 0, 5000},
};
static const struct {
    const char *name;
    u64 *at;
} arrays[] = {{"first", first}, {"second", second}, {"third", third}};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static long call(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}

static char line[256];
static unsigned length;

static void text(const char *words)
{
    while (*words)
        line[length++] = *words++;
}

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

static void end_line(void)
{
    line[length++] = '\n';
    call(WRITE, 1, (long)line, length, 0);
    length = 0;
}

static void say_clock(void)
{
    u64 before, after;
    struct {
        u64 seconds, nanoseconds;
    } now;
    // the counter in the middle of the call is known to half of its duration
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(before)::"memory");
    call(CLOCK_GETTIME, CLOCK_MONOTONIC_RAW, (long)&now, 0, 0);
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(after)::"memory");
    text("clock");
    number((before + after) / 2);
    number(now.seconds * 1000000000 + now.nanoseconds);
    end_line();
}

static void say_pages(const char *name, u64 start)
{
    text("array ");
    text(name);
    number(start);
    number(BYTES);
    end_line();
    int pagemap = call(OPENAT, AT_FDCWD, (long)"/proc/self/pagemap", 0, 0);
    for (u64 at = start; at < start + BYTES; at += PAGE) {
        u64 entry = 0;
        call(PREAD, pagemap, (long)&entry, 8, at / PAGE * 8);
        text("page");
        number(at);
        number(entry & ((1UL << 55) - 1));
        end_line();
    }
}

void run(char **arguments)
{
    u64 rounds = 0;
    for (const char *digit = arguments[1] ? arguments[1] : "1"; *digit; digit++)
        rounds = 10 * rounds + (u64)(*digit - '0');
    text("pid");
    number(call(GETPID, 0, 0, 0, 0));
    end_line();
    for (unsigned n = 0; n < COUNT(arrays); n++)
        for (u64 entry = 0; entry < ENTRIES; entry += PAGE / 8)
            ((volatile u64 *)arrays[n].at)[entry] = entry; // the page is there from now on
    say_clock();
    for (u64 round = 0; round < rounds; round++)
        for (unsigned n = 0; n < COUNT(loops); n++)
            loops[n].run(loops[n].array, loops[n].rounds);
    say_clock();
    for (unsigned n = 0; n < COUNT(loops); n++) {
        text("function ");
        text(loops[n].name);
        number(rounds * (loops[n].rounds * loops[n].operations->round + loops[n].operations->call));
        end_line();
    }
    for (unsigned n = 0; n < COUNT(arrays); n++)
        say_pages(arrays[n].name, (u64)arrays[n].at);
    call(EXIT, 0, 0, 0, 0);
}

__asm__(".globl _start\n_start: mov x29, #0\n add x0, sp, #8\n bl run\n");
