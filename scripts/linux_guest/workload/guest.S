// What kvm.c runs in its guest, at EL1 and without the MMU. X19 is the address of a device.

        .section .rodata
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
        movz    w0, #0x8400, lsl #16
        movk    w0, #8                  // SYSTEM_OFF
        hvc     #0
2:      b       2b
guest_end:
