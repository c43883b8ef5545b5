#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

global_asm!(".section .text.start", ".global _start", "_start:", "adr x0, stack_top", "mov sp, x0", "b main",
            ".bss", ".balign 16", ".skip 4096", "stack_top:");

/// Semihosting: SYS_WRITE0 prints, SYS_EXIT ends the run.
fn call(operation: u64, argument: u64) {
    unsafe { asm!("hlt #0xf000", inout("x0") operation => _, in("x1") argument) };
}

#[no_mangle]
extern "C" fn main() -> ! {
    call(4, b"hello from Rust\n\0".as_ptr() as u64);
    let status: [u64; 2] = [0x20026, 0];
    loop {
        call(0x18, status.as_ptr() as u64);
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
