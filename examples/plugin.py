"""SPE on a ``Uc`` of your own: your memory map, your hooks, our sampling.

A loop that copies words runs on a plain engine. SPE is attached, every 1009th operation is sampled
from outside, and each record is printed. Two hooks of the script's own go on working beside it.

Run it with ``python examples/plugin.py``.
"""

from __future__ import annotations

import struct

from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_HOOK_MEM_WRITE, UC_MODE_ARM, Uc
from unicorn.arm64_const import UC_ARM64_REG_X0, UC_ARM64_REG_X1, UC_ARM64_REG_X2

import spe_unicorn

CODE, SOURCE, TARGET, WORDS = 0x10_0000, 0x20_0000, 0x30_0000, 20_000
LOOP = struct.pack(
    "<5I",
    0xF840_8403,  # loop: ldr x3, [x0], #8
    0xF800_8423,  #       str x3, [x1], #8
    0xF100_0442,  #       subs x2, x2, #1
    0x54FF_FFA1,  #       b.ne loop
    0xD503_201F,  #       nop
)


def main() -> None:
    """Copy, sampled."""
    uc = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    for base in (CODE, SOURCE, TARGET):
        uc.mem_map(base, 0x10_0000)
    uc.mem_write(CODE, LOOP)
    uc.reg_write(UC_ARM64_REG_X0, SOURCE)
    uc.reg_write(UC_ARM64_REG_X1, TARGET)
    uc.reg_write(UC_ARM64_REG_X2, WORDS)
    seen = {"loops": 0, "stores": 0}

    def on_loop(uc: Uc, address: int, size: int, data: object) -> None:
        seen["loops"] += 1

    def on_store(uc: Uc, kind: int, address: int, size: int, value: int, data: object) -> None:
        seen["stores"] += 1

    uc.hook_add(UC_HOOK_CODE, on_loop, begin=CODE, end=CODE)
    uc.hook_add(UC_HOOK_MEM_WRITE, on_store, begin=TARGET, end=TARGET + 8 * WORDS)

    spe = spe_unicorn.attach(uc, core="generic", seed=0)
    spe.on_record(lambda record, raw: print(record.pc, record.va, record.counters, len(raw)))
    spe.program(interval=1009)
    spe.emu_start(CODE, CODE + len(LOOP) - 4)

    print(f"{spe.statistics.written} records of {spe.statistics.population} operations")
    print(f"hooks of this script saw {seen['loops']} loops and {seen['stores']} stores")
    spe.detach()


if __name__ == "__main__":
    main()
