// What kvm.c runs in its guest, at EL1. X19 is the address of a device.
//
// The hypervisor maps a page of 4 KiB when the guest first touches it. Exceptions are taken with vectors that nobody
// has touched yet, without the MMU and with it: SVC, UDF and BRK of EL1, SVC and UDF of EL0; then also a load and a
// fetch of EL1, and a load of EL0. X20 collects their classes (6 bits each, the first one above the others, a 1 above
// all), X21 the numbers of their vectors (4 bits each).

        // To code at `label` at the Exception level of `spsr`; its exception comes back after this.
        .macro  raise label, spsr
        adr     x9, \label
        msr     elr_el1, x9
        mov     x9, #\spsr
        msr     spsr_el1, x9
        adr     x15, 9f
        eret
9:
        .endm

        // A table of vectors: what they are told goes to X20 and X21, and then on at EL1 from X15.
        .macro  vectors
        .irp    index, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
        .balign 128
        mrs     x9, esr_el1
        lsr     x9, x9, #26
        orr     x20, x9, x20, lsl #6
        mov     x9, #\index
        orr     x21, x9, x21, lsl #4
        msr     elr_el1, x15
        mov     x9, #EL1H
        msr     spsr_el1, x9
        eret
        .endr
        .endm

        .set    EL0T, 0x3c0
        .set    EL1H, 0x3c5

        .macro  take_exceptions table
        adr     x9, \table
        msr     vbar_el1, x9
        isb
        mov     x20, #1
        mov     x21, #0
        raise   call, EL1H
        raise   undefined, EL1H
        raise   breakpoint, EL1H
        raise   call, EL0T
        raise   undefined, EL0T
        .endm

        .section .rodata
        .balign 4096
        .globl  guest_start, guest_end
guest_start:
        mov     x19, #0x10000000
        movz    w0, #0x8400, lsl #16    // PSCI_VERSION
        hvc     #0
        str     x0, [x19]
        ldr     x1, [x19]
        str     x1, [x19]
        mov     x2, #0
        movz    x3, #15, lsl #16        // 983,040 rounds
1:      add     x2, x2, x3
        subs    x3, x3, #1
        b.ne    1b
        str     x2, [x19]               // the sum of all numbers from 1 to that
        take_exceptions vectors
        str     x20, [x19]
        str     x21, [x19]

        adr     x9, level1
        msr     ttbr0_el1, x9
        mov     x9, #0x04ff             // MAIR_EL1: Normal, Device-nGnRE
        msr     mair_el1, x9
        movz    x9, #2, lsl #32         // TCR_EL1: IPS of 40 bits, EPD1, inner shareable, write-back, 39 bits
        movk    x9, #0x80, lsl #16
        movk    x9, #0x3519
        msr     tcr_el1, x9
        isb
        mrs     x9, sctlr_el1
        orr     x9, x9, #1
        msr     sctlr_el1, x9
        isb
        take_exceptions more_vectors
        raise   load, EL1H
        raise   fetch, EL1H
        raise   load, EL0T
        str     x20, [x19]
        str     x21, [x19]

        movz    w0, #0x8400, lsl #16
        movk    w0, #8                  // SYSTEM_OFF
        hvc     #0
2:      b       2b

        .balign 4096
call:   svc     #0
undefined:
        udf     #0
breakpoint:
        brk     #0
load:   mov     x9, #0x80000000         // which stage 1 does not map
        ldr     x9, [x9]
fetch:  mov     x9, #0x80000000
        br      x9
        .balign 4096
vectors:
        vectors
        .balign 4096
more_vectors:
        vectors

        .balign 4096
level1: .quad   0x0060000000000405      // the device: AF, Device, only EL1, never executable
        .quad   0x00000000400007c1      // the guest: AF, inner shareable, read-only for all
        .balign 4096
guest_end:
