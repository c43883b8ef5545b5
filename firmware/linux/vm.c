// Runs a virtual machine by /dev/kvm: one CPU, RAM, KVM's own GICv3, timer and PSCI, and a PL011 that only sends.
//
//     vm [WORD]...
//
// /vm/plan says in numbers, one a line: bytes of RAM, and where in the guest the kernel, its first instruction, the
// device tree and the initial RAM disk are. They are in /vm/kernel, /vm/dtb and /vm/initrd. A Linux guest whose first
// program is ours (init.c) does what /vm/steps says and runs the words as its command: both go behind its RAM disk as
// the file /init.steps. What the guest sends goes to standard output, but for the line with its status, which is the
// exit status here: 125 if the guest ends without one.

#include "sys.h"

// Of the interface of /dev/kvm, by Documentation/virt/kvm/api.rst of Linux.
enum {
    KVM_CREATE_VM = 0xAE01,
    KVM_GET_VCPU_MMAP_SIZE = 0xAE04,
    KVM_CREATE_VCPU = 0xAE41,
    KVM_SET_USER_MEMORY_REGION = 0x4020AE46,
    KVM_RUN = 0xAE80,
    KVM_SET_ONE_REG = 0x4010AEAC,
    KVM_ARM_VCPU_INIT = 0x4020AEAE,
    KVM_SET_DEVICE_ATTR = 0x4018AEE1,
};
#define KVM_ARM_PREFERRED_TARGET 0x8020AEAFUL
#define KVM_CREATE_DEVICE 0xC00CAEE0UL
#define CORE_REGISTER 0x6030000000100000UL
enum { X0 = 0, PC = 0x40, FEATURE_PSCI = 1 << 2, VGIC_V3 = 7 };
enum { GIC_ADDRESSES = 0, GIC_INTERRUPTS = 3, GIC_CONTROL = 4, GIC_INIT = 0, DISTRIBUTOR = 2, REDISTRIBUTORS = 3 };
enum { EXIT_MMIO = 6, EXIT_SYSTEM_EVENT = 24, SHUTDOWN = 1, RESET = 2 };
enum { MADVISE = 233, HUGE = 14, BLOCK = 2 << 20 };
enum { EINTR = 4, EAGAIN = 11, READ_WRITE = 3, SHARED = 1, PRIVATE_ANONYMOUS = 0x4022, NO_FILE = -1 };

enum { RAM = 0x40000000, DISTRIBUTOR_AT = 0x08000000, REDISTRIBUTORS_AT = 0x080A0000, UART = 0x09000000 };
enum { DATA = 0, FLAGS = 0x18, NOTHING_TO_READ_OR_SEND = 0x90, UART_IDS = 0xFE0, PAGE = 0x1000 };
enum { STEPS = 8192, NO_STATUS = 125, FAILED = 126 };

struct run {
    u8 in[8];
    u32 reason;
    u8 more[20];
    union {
        struct {
            u64 address;
            u8 data[8];
            u32 length;
            u8 is_write;
        } mmio;
        u32 event;
    };
};

static u8 *ram;
static u64 ram_bytes;
static char line[1024];
static u64 line_length;
static long status = -1;

static long want(const char *what, long result)
{
    if (result < 0) {
        SAY(2, "vm: cannot ", what, ": error ", decimal((u64)-result), "\n");
        leave(FAILED);
    }
    return result;
}

static long ask(const char *what, long file, u64 request, const void *argument)
{
    return want(what, call(IOCTL, file, request, argument));
}

// Where the guest's physical addresses are here. Ends the program if they are not all RAM.
static u8 *place(const char *what, u64 address, u64 bytes)
{
    if (address < RAM || address - RAM > ram_bytes || bytes > ram_bytes - (address - RAM)) {
        SAY(2, "vm: no room for ", what, ": ", decimal(bytes), " bytes\n");
        leave(FAILED);
    }
    return ram + (address - RAM);
}

// Put a file at an address of the guest; the address behind it.
static u64 load(const char *path, u64 address)
{
    long file = want(path, open_file(path, O_RDONLY)), got;
    while ((got = want(path, call(READ, file, place(path, address, 1 << 16), 1 << 16))) > 0)
        address += (u64)got;
    call(CLOSE, file);
    return address;
}

static void put_hexadecimal(u8 *to, u64 number)
{
    for (int digit = 7; digit >= 0; digit--, number >>= 4)
        to[digit] = (u8)"0123456789ABCDEF"[number & 15];
}

// An entry of a cpio archive ("newc"); the address behind it.
static u64 put_entry(u64 address, const char *name, u32 mode, const void *data, u64 bytes)
{
    u64 name_bytes = length_of(name) + 1, head = (110 + name_bytes + 3) & ~3UL, whole = head + ((bytes + 3) & ~3UL);
    u8 *to = place("the command", address, whole);
    memset(to, 0, whole);
    memcpy(to, "070701", 6);
    for (int field = 0; field < 13; field++)
        put_hexadecimal(to + 6 + 8 * field, 0);
    put_hexadecimal(to + 6 + 8 * 1, mode);
    put_hexadecimal(to + 6 + 8 * 4, 1);
    put_hexadecimal(to + 6 + 8 * 6, bytes);
    put_hexadecimal(to + 6 + 8 * 11, name_bytes);
    memcpy(to + 110, name, name_bytes);
    memcpy(to + head, data, bytes);
    return address + whole;
}

static u64 put_text(char *to, u64 at, const char *text)
{
    u64 bytes = length_of(text) + 1;
    if (bytes > STEPS - at) {
        SAY(2, "vm: the command is too long\n");
        leave(FAILED);
    }
    memcpy(to + at, text, bytes);
    return at + bytes;
}

static void put_command(u64 address, char **words, u64 count)
{
    static char steps[STEPS];
    u64 bytes = (u64)want("read /vm/steps", read_file("/vm/steps", steps, STEPS));
    bytes = put_text(steps, put_text(steps, bytes, "run"), decimal(count));
    for (u64 word = 0; word < count; word++)
        bytes = put_text(steps, bytes, words[word]);
    address = put_entry((address + 3) & ~3UL, "init.steps", 0100644, steps, bytes);
    put_entry(address, "TRAILER!!!", 0, "", 0);
}

static void sent(char character)
{
    const char *end, *told = "=== exit status ";
    line[line_length++] = character;
    if (character != '\n' && line_length < sizeof(line) - 1)
        return;
    line[line_length] = 0;
    if (begins(line, told))
        status = (long)(number_of(line + length_of(told), &end) & 0xFF);
    else
        write_all(1, line, line_length);
    line_length = 0;
}

// What the guest does where no RAM is: a PL011, and nothing else.
static void access(struct run *run)
{
    static const u8 ids[8] = {0x11, 0x10, 0x14, 0x00, 0x0D, 0xF0, 0x05, 0xB1};
    static u32 kept[PAGE / 4];
    u64 at = run->mmio.address - UART;
    u32 value = 0;
    if (run->mmio.is_write) {
        memcpy(&value, run->mmio.data, run->mmio.length < 4 ? run->mmio.length : 4);
        if (at == DATA)
            sent((char)value);
        else if (at < PAGE)
            kept[at / 4] = value;
        return;
    }
    if (at == FLAGS)
        value = NOTHING_TO_READ_OR_SEND;
    else if (at >= UART_IDS && at < PAGE)
        value = ids[(at - UART_IDS) / 4];
    else if (at < PAGE && (at < 0x3C || at > 0x40)) // but for its interrupts, of which there is none
        value = kept[at / 4];
    memset(run->mmio.data, 0, sizeof(run->mmio.data));
    memcpy(run->mmio.data, &value, sizeof(value));
}

static void set_gic(long device, u32 group, u64 attribute, const void *value)
{
    struct {
        u32 flags, group;
        u64 attribute;
        const void *value;
    } set = {0, group, attribute, value};
    ask("set the GIC up", device, KVM_SET_DEVICE_ATTR, &set);
}

static void make_gic(long machine)
{
    struct {
        u32 kind;
        int file;
        u32 flags;
    } device = {VGIC_V3, 0, 0};
    ask("make a GICv3", machine, KVM_CREATE_DEVICE, &device);
    u64 distributor = DISTRIBUTOR_AT, redistributors = REDISTRIBUTORS_AT;
    u32 interrupts = 64;
    set_gic(device.file, GIC_ADDRESSES, DISTRIBUTOR, &distributor);
    set_gic(device.file, GIC_ADDRESSES, REDISTRIBUTORS, &redistributors);
    set_gic(device.file, GIC_INTERRUPTS, 0, &interrupts);
    set_gic(device.file, GIC_CONTROL, GIC_INIT, 0);
}

static void set_register(long cpu, u64 number, u64 value)
{
    struct {
        u64 id;
        const u64 *value;
    } one = {CORE_REGISTER + number, &value};
    ask("set a register", cpu, KVM_SET_ONE_REG, &one);
}

static struct {
    u64 ram, kernel, entry, dtb, initrd;
} plan;

static void read_plan(void)
{
    static char text[512];
    const char *at = text;
    want("read /vm/plan", read_file("/vm/plan", text, sizeof(text)));
    for (u64 *number = &plan.ram; number <= &plan.initrd; number++, at += *at == '\n')
        *number = number_of(at, &at);
}

static int until_the_end(long cpu, struct run *run)
{
    for (;;) {
        long error = call(IOCTL, cpu, KVM_RUN, 0);
        if (error == -EINTR || error == -EAGAIN)
            continue;
        want("run", error);
        if (run->reason == EXIT_MMIO) {
            access(run);
            continue;
        }
        if (line_length)
            sent('\n');
        if (run->reason == EXIT_SYSTEM_EVENT && run->event == SHUTDOWN && status >= 0)
            return (int)status;
        if (run->reason == EXIT_SYSTEM_EVENT && (run->event == SHUTDOWN || run->event == RESET))
            SAY(2, "vm: the guest ", run->event == RESET ? "resets" : "powers off", " and tells no status\n");
        else
            SAY(2, "vm: the guest ends for reason ", decimal(run->reason), "\n");
        return NO_STATUS;
    }
}

int run(int count, char **words, char **environment)
{
    (void)environment;
    read_plan();
    long kvm = want("open /dev/kvm", open_file("/dev/kvm", O_RDWR));
    long machine = ask("make a machine", kvm, KVM_CREATE_VM, 0);
    ram_bytes = plan.ram;
    // where blocks of 2 MiB can be blocks of stage 2, too: a page of 4 KiB is an exit each
    long got = want("have RAM", call(MMAP, 0, ram_bytes + BLOCK, READ_WRITE, PRIVATE_ANONYMOUS, NO_FILE, 0));
    ram = (u8 *)(((u64)got + BLOCK - 1) & ~(BLOCK - 1UL));
    call(MADVISE, ram, ram_bytes, HUGE);
    load("/vm/kernel", plan.kernel);
    load("/vm/dtb", plan.dtb);
    if (plan.initrd)
        put_command(load("/vm/initrd", plan.initrd), words + 1, (u64)count - 1);
    struct {
        u32 slot, flags;
        u64 guest_address, size;
        u8 *address;
    } region = {0, 0, RAM, ram_bytes, ram};
    ask("give the guest its RAM", machine, KVM_SET_USER_MEMORY_REGION, &region);
    long cpu = ask("make a CPU", machine, KVM_CREATE_VCPU, 0);
    struct {
        u32 target, features[7];
    } kind;
    ask("find the CPU's kind", machine, KVM_ARM_PREFERRED_TARGET, &kind);
    kind.features[0] |= FEATURE_PSCI;
    ask("set the CPU up", cpu, KVM_ARM_VCPU_INIT, &kind);
    make_gic(machine);
    set_register(cpu, PC, plan.entry);
    set_register(cpu, X0, plan.dtb);
    u64 size = (u64)ask("find the size of a run", kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
    return until_the_end(cpu, (struct run *)want("map the CPU", call(MMAP, 0, size, READ_WRITE, SHARED, cpu, 0)));
}
