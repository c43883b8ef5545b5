"""Non-fault and first-fault loads of SVE that a tag check or a watchpoint ends.

The engine knows neither, so it loads the elements before that, and FFR tells of the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from spe_unicorn.decode import decode
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.host.pe.vectors import FFR, predicate, set_predicate, vector_bits


def load_up_to(cpu: UnicornCPU, element: int, access: Callable[[int], bool]) -> bool:
    """Execute the load at the PC up to ``element``. True if it raised an exception.

    Elements from there on are 0, one of the values that Arm allows, and FALSE in FFR. ``access``
    has the engine execute a word at the PC; it returns whether that raised an exception.
    """
    word = (cpu.virtual.code(cpu.pc, 1) or (0,))[0]
    load = decode(word)
    if load.governor is None:
        raise RuntimeError(f"the operation at {cpu.pc:#x} is no load that ends: {word:#010x}")
    bits = vector_bits(cpu) // 8
    loaded = (1 << element * load.lane) - 1
    active = predicate(cpu, load.governor)
    set_predicate(cpu, load.governor, active & loaded, bits)
    try:
        raised = access(word)
    finally:
        set_predicate(cpu, load.governor, active & (1 << bits) - 1, bits)
    if not raised:
        set_predicate(cpu, FFR, predicate(cpu, FFR) & loaded, bits)
    return raised
