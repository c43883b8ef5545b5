#include "firmware.h"

struct boot_info boot_info;

void __attribute__((weak)) on_exception(struct frame *frame) {
    print("unexpected exception: vector %lu, ESR_EL1 0x%lx, FAR_EL1 0x%lx, ELR_EL1 0x%lx\n", frame->vector,
          frame->esr, frame->far, frame->elr);
    exit_with(99);
}
