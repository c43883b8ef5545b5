// A program for Linux that runs a guest by /dev/kvm. It needs no library.
//
// The guest (guest.S) is at 0x40000000 of its own memory. It stores what it finds out at DEVICE, where no memory
// is, so that each store comes back here as an MMIO exit: the version of PSCI by HVC, what a load from DEVICE gave
// (42), the result of a long loop, and what exceptions it has taken without the MMU and with it, their classes and
// vectors. Then it turns itself off. Its memory is mapped for it by pages of 4 KiB, each when it is first touched.
//
// Output: kvm VERSION | psci VERSION | loaded NUMBER | loop NUMBER | classes NUMBER | vectors NUMBER | classes NUMBER |
// vectors NUMBER | off, and exit status 0; else what failed.

typedef unsigned int u32;
typedef unsigned long u64;

// What of the interface of /dev/kvm is needed, by Documentation/virt/kvm/api.rst of Linux.
enum {
    KVM_GET_API_VERSION = 0xae00,
    KVM_CREATE_VM = 0xae01,
    KVM_GET_VCPU_MMAP_SIZE = 0xae04,
    KVM_CREATE_VCPU = 0xae41,
    KVM_SET_USER_MEMORY_REGION = 0x4020ae46,
    KVM_RUN = 0xae80,
    KVM_SET_ONE_REG = 0x4010aeac,
    KVM_ARM_VCPU_INIT = 0x4020aeae,
};
#define KVM_ARM_PREFERRED_TARGET 0x8020aeafUL
#define PC 0x6030000000100040UL // arm64, 64 bits, core register, word 0x40 of struct kvm_regs
enum { FEATURE_PSCI = 1 << 2, EXIT_MMIO = 6, EXIT_SYSTEM_EVENT = 24, EVENT_SHUTDOWN = 1 };
struct region {
    u32 slot, flags;
    u64 guest_address, size, address;
};
struct vcpu_init {
    u32 target, features[7];
};
struct one_reg {
    u64 id, address;
};
struct run {
    unsigned char in[8];
    u32 reason;
    unsigned char more[20];
    union {
        struct {
            u64 address;
            unsigned char data[8];
            u32 length;
            unsigned char is_write;
        } mmio;
        u32 event;
    };
};

enum { IOCTL = 29, OPENAT = 56, WRITE = 64, EXIT = 93, MMAP = 222 };
enum { AT_FDCWD = -100, O_RDWR = 2, READ_AND_WRITE = 3, SHARED = 1, PRIVATE_ANONYMOUS = 0x22 };
enum { MEMORY = 0x40000000, SIZE = 0x10000, DEVICE = 0x10000000, ANSWER = 42, REPORTS = 7 };

extern const char guest_start[], guest_end[];
static const char *const names[REPORTS] = {"psci", "loaded", "loop", "classes", "vectors", "classes", "vectors"};

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static void print(const char *words, u64 number)
{
    char line[64], digits[20];
    unsigned length = 0, count = 0;
    while (*words)
        line[length++] = *words++;
    line[length++] = ' ';
    do
        digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count)
        line[length++] = digits[--count];
    line[length++] = '\n';
    call(WRITE, 1, (long)line, length, 0, 0, 0);
}

static void quit(int status)
{
    call(EXIT, status, 0, 0, 0, 0, 0);
    __builtin_unreachable();
}

static long want(const char *what, long result)
{
    if (result < 0) {
        print(what, (u64)-result);
        quit(1);
    }
    return result;
}

static long ask(const char *what, long file, u64 request, const void *argument)
{
    return want(what, call(IOCTL, file, (long)request, (long)argument, 0, 0, 0));
}

static void *map(const char *what, long size, int kind, long file)
{
    return (void *)want(what, call(MMAP, 0, size, READ_AND_WRITE, kind, file, 0));
}

void _start(void)
{
    long kvm = want("failed to open /dev/kvm", call(OPENAT, AT_FDCWD, (long)"/dev/kvm", O_RDWR, 0, 0, 0));
    print("kvm", (u64)ask("failed version", kvm, KVM_GET_API_VERSION, 0));
    long machine = ask("failed to make a machine", kvm, KVM_CREATE_VM, 0);

    char *memory = map("failed to map memory", SIZE, PRIVATE_ANONYMOUS, -1);
    for (long at = 0; at < guest_end - guest_start; at++)
        memory[at] = guest_start[at];
    struct region region = {.guest_address = MEMORY, .size = SIZE, .address = (u64)memory};
    ask("failed to give it memory", machine, KVM_SET_USER_MEMORY_REGION, &region);

    long cpu = ask("failed to make a CPU", machine, KVM_CREATE_VCPU, 0);
    struct vcpu_init init;
    ask("failed to find the CPU's kind", machine, KVM_ARM_PREFERRED_TARGET, &init);
    init.features[0] |= FEATURE_PSCI;
    ask("failed to set the CPU up", cpu, KVM_ARM_VCPU_INIT, &init);
    u64 start = MEMORY;
    struct one_reg pc = {.id = PC, .address = (u64)&start};
    ask("failed to set PC", cpu, KVM_SET_ONE_REG, &pc);
    struct run *run =
        map("failed to map the CPU", ask("failed size", kvm, KVM_GET_VCPU_MMAP_SIZE, 0), SHARED, cpu);

    for (int report = 0;;) {
        ask("failed to run", cpu, KVM_RUN, 0);
        if (run->reason == EXIT_SYSTEM_EVENT && run->event == EVENT_SHUTDOWN && report == REPORTS)
            break;
        if (run->reason != EXIT_MMIO || run->mmio.address != DEVICE || run->mmio.length != 8 ||
            (run->mmio.is_write && report == REPORTS)) {
            print("failed: the guest ended for reason", run->reason);
            quit(1);
        }
        if (run->mmio.is_write)
            print(names[report++], *(u64 *)run->mmio.data);
        else
            *(u64 *)run->mmio.data = ANSWER;
    }
    call(WRITE, 1, (long)"off\n", 4, 0, 0, 0);
    quit(0);
}
