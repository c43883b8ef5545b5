"""SVE registers that the engine has no numbers for, and how long vectors are.

The engine's saved state holds them. Their offsets are found by setting some of them.
"""

from __future__ import annotations

import ctypes
import struct
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from unicorn import arm64_const as regs

from spe_unicorn.arch.operation import Active, Instruction
from spe_unicorn.arch.pe import EL0, EL1, EL2, EL3
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.sysreg import Encoding
from spe_unicorn.arch.rules.effective import el2_enabled, el_is_in_host
from spe_unicorn.host.engine.engine import PC, TO_FIND_OUT, Engine, X, new_engine
from spe_unicorn.host.pe.cpu import UnicornCPU
from spe_unicorn.instructions.sve2.p1.counters import COUNTER, mask_of

_ZCR: Final = {
    EL1: Encoding(3, 0, 1, 2, 0),
    EL2: Encoding(3, 4, 1, 2, 0),
    EL3: Encoding(3, 6, 1, 2, 0),
}
_LEN: Final = 0xF
_GRANULE: Final = 128
"""Vector lengths are multiples of this, in bits."""
_PREDICATE: Final = 32
"""Bytes of a predicate register in the saved state: an eighth of the longest vector."""
FFR: Final = 16
"""The number of the first fault register behind the predicates."""
_VECTOR: Final = 256
"""Bytes of a vector register in the saved state."""
_PTRUE: Final = (0x2518_E3E0, 0x2558_E3E1, 0x2598_E3E2, 0x25D8_E3E3)
"""PTRUE P0.B, P1.H, P2.S, P3.D."""
_AFTER_PTRUE: Final = (0xFFFF, 0x5555, 0x1111, 0x0101)
"""The predicates that these set, with vectors of 128 bits."""
_Q: Final = (regs.UC_ARM64_REG_Q0, regs.UC_ARM64_REG_Q1)
_IN_Q: Final = (
    0x0123_4567_89AB_CDEF_1122_3344_5566_7788,
    0x99AA_BBCC_DDEE_FF00_1357_9BDF_2468_ACE0,
)


_IN_X: Final = (0x1F2E_3D4C_5B6A_7988, 0x8899_AABB_0011_2233)


_LENGTHS: Final = (3, 5, 7)
"""Values of ZCR_EL1, ZCR_EL2 and ZCR_EL3, which lie in a row."""
_SYSTEM_CONTROLS: Final = {
    system.SCTLR_EL1.encoding: 0x30C5_0834,
    system.SCTLR_EL2.encoding: 0x30C5_0838,
    system.SCTLR_EL3.encoding: 0x30C5_1830,
}
"""Values of these, which lie in a row."""
_CONTROLS: Final = {
    system.CPACR_EL1.encoding: (0b11 << 20, 0b11 << 20 | 0b11 << 16),
    system.CPTR_EL2.encoding: (1 << 8, 1 << 10),
    system.CPTR_EL3.encoding: (1 << 8, 1 << 8 | 1 << 10),
    system.HCR_EL2.encoding: (1 << 31 | 1 << 27, 1 << 31 | 1 << 34),
}
"""Two values of each, which are found in turn where the register is."""


class Offsets(NamedTuple):
    """Where the engine's saved state holds registers: Z0, P0, X0, and those of EL1 to EL3."""

    vectors: int
    predicates: int
    general: int
    lengths: int
    """ZCR_EL1."""
    system_controls: int
    """SCTLR_EL1."""
    controls: tuple[int, ...]
    """CPACR_EL1, CPTR_EL2, CPTR_EL3 and HCR_EL2."""


@lru_cache(maxsize=1)
def offsets() -> Offsets:
    """Find the offsets by setting some registers. Raises RuntimeError if they are nowhere."""
    uc = new_engine(TO_FIND_OUT)
    engine = Engine(uc)
    uc.mem_map(0, 0x1000)
    uc.mem_write(0, struct.pack("<4I", *_PTRUE))
    engine.set_system(system.CPACR_EL1.encoding, 0b11 << 20 | 0b11 << 16)
    engine.set_system(system.CPTR_EL3.encoding, 1 << 8)
    uc.emu_start(0, 4 * len(_PTRUE))
    for number, value in zip(_Q, _IN_Q, strict=True):
        uc.reg_write(number, value)
    for number, value in zip(X[:2], _IN_X, strict=True):
        engine.put(number, value)
    pc = engine.get(PC)
    for encoding, length in zip(_ZCR.values(), _LENGTHS, strict=True):
        engine.set_system(encoding, length)
    for encoding, value in _SYSTEM_CONTROLS.items():
        engine.set_system(encoding, value)
    state = bytes(uc.context_save())
    general = state.find(struct.pack("<2Q", *_IN_X))
    lengths = state.find(struct.pack("<3Q", *_LENGTHS))
    sctlr = state.find(struct.pack("<3Q", *_SYSTEM_CONTROLS.values()))
    predicates = state.find(b"".join(v.to_bytes(_PREDICATE, "little") for v in _AFTER_PTRUE))
    first, second = (state.find(value.to_bytes(16, "little")) for value in _IN_Q)
    lost = min(predicates, first, general, lengths, sctlr) < 0 or second != first + _VECTOR
    if lost or pc != 4 * len(_PTRUE):
        raise RuntimeError(
            "this build of the Unicorn engine does not show SVE registers: of the "
            f"{len(state)} bytes of its state, P0 is at {predicates}, Z0 at {first}, Z1 at "
            f"{second}, X0 at {general}, ZCR_EL1 at {lengths} and SCTLR_EL1 at {sctlr} (-1 is "
            f"nowhere), and {len(_PTRUE)} instructions ended at {pc:#x}"
        )
    controls = tuple(_control(engine, encoding) for encoding in _CONTROLS)
    return Offsets(first, predicates, general, lengths, sctlr, controls)


def _control(engine: Engine, encoding: Encoding) -> int:
    """Where the engine's saved state holds a System register. Raises RuntimeError if nowhere."""
    places: list[set[int]] = []
    for value in _CONTROLS[encoding]:
        engine.set_system(encoding, value)
        state = bytes(engine.uc.context_save())
        words = np.frombuffer(state[: len(state) & -8], np.uint64)
        places.append(set((words == value).nonzero()[0].tolist()))
    found = places[0] & places[1]
    if len(found) != 1:
        raise RuntimeError(
            f"this build of the Unicorn engine does not show {encoding}: it may be at {found}"
        )
    return 8 * found.pop()


def vector_bits(cpu: UnicornCPU) -> int:
    """The vector length at the PE's Exception level, in bits: CurrentNSVL()."""
    el = cpu.el
    levels = []
    if el == EL1 or (el == EL0 and not el_is_in_host(cpu, EL0)):
        levels.append(EL1)
    if el <= EL2 and (el == EL2 or el2_enabled(cpu)):
        levels.append(EL2)
    levels.append(EL3)
    return _GRANULE * (1 + min(cpu.engine.system(_ZCR[level]) & _LEN for level in levels))


def predicate(cpu: UnicornCPU, number: int) -> int:
    """A predicate register, a bit for each byte of a vector; 16 is the first fault register."""
    at = offsets().predicates + _PREDICATE * number
    return _saved(cpu, at, _PREDICATE)


def governing_predicate(cpu: UnicornCPU, instruction: Instruction) -> int:
    """Which elements of an SVE operation are active: a bit for each byte of the vectors it moves.

    An element is active by the bit of its lowest byte.
    """
    if instruction.governor is None:
        raise RuntimeError(f"no predicate governs {instruction.word:#010x}, which has elements")
    governing = predicate(cpu, instruction.governor)
    if instruction.counter:
        size = vector_bits(cpu) // 8
        return mask_of(governing & COUNTER, instruction.governed * size, size)
    return governing


def vector_element(cpu: UnicornCPU, number: int, lane: int, index: int) -> int:
    """Element ``index``, of ``lane`` bytes, of a vector register."""
    return _saved(cpu, offsets().vectors + _VECTOR * number + lane * index, lane)


def vector(cpu: UnicornCPU, number: int, bits: int) -> int:
    """The low ``bits`` of Z0 to Z31 by number."""
    return _saved(cpu, offsets().vectors + _VECTOR * number, bits // 8)


def set_vector(cpu: UnicornCPU, number: int, value: int, bits: int) -> None:
    """Write the low ``bits`` of Z0 to Z31 by number."""
    _save(cpu, offsets().vectors + _VECTOR * number, value.to_bytes(bits // 8, "little"))


def set_predicate(cpu: UnicornCPU, number: int, value: int, bits: int) -> None:
    """Write the low ``bits`` of P0 to P15 by number; 16 is the first fault register."""
    _save(cpu, offsets().predicates + _PREDICATE * number, value.to_bytes(bits // 8, "little"))


def active_elements(cpu: UnicornCPU, instruction: Instruction, bits: int) -> Active:
    """Whether all, some or none of an SVE operation's elements are active.

    The vector has ``bits`` bits.
    """
    governing = governing_predicate(cpu, instruction)
    elements = range(0, instruction.governed * bits // 8, instruction.lane)
    count = sum(governing >> element & 1 for element in elements)
    if count == len(elements):
        return Active.ALL
    return Active.SOME if count else Active.NONE


def _saved(cpu: UnicornCPU, at: int, size: int) -> int:
    return int.from_bytes(bytes(cpu.engine.uc.context_save())[at : at + size], "little")


def _save(cpu: UnicornCPU, at: int, data: bytes) -> None:
    uc = cpu.engine.uc
    context = uc.context_save()
    ctypes.memmove(context.context.value + at, data, len(data))
    uc.context_restore(context)
