"""The decoder beside capstone, over random words, mutated words and a whole C library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import capstone
import pytest
from capstone import arm64
from elftools.elf.elffile import ELFFile

from spe_unicorn.arch.operation import NZCV, SP, Extend, Family, Instruction, Mark
from spe_unicorn.decode import branch_target, decode
from tests.decode.words import mutated_words, random_words

PC = 0x10_0000
LIBC = Path("/usr/aarch64-linux-gnu/lib/libc.so.6")

# What capstone 5 knows and we leave alone: SME, which has no group of its own in the decoder, the
# Transactional Memory Extension, which has left the architecture, and DRPS, which is UNDEFINED
# outside Debug state.
NOT_TOLD = ("tstart", "ttest", "tcommit", "tcancel", "drps")

# Aliases that drop the destination: capstone shifts the operands but not their read and write
# marks, so that it says the first source is written.
SHIFTED_MARKS = ("cmp", "cmn", "tst")


@pytest.fixture(scope="module")
def disassembler() -> capstone.Cs:
    result = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    result.detail = True
    return result


def library_words() -> Iterator[int]:
    if not LIBC.exists():
        pytest.skip("no AArch64 C library here")
    with LIBC.open("rb") as file:
        text = ELFFile(file).get_section_by_name(".text").data()
    return iter({int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4)})


def differences(disassembler: capstone.Cs, words: Iterable[int]) -> list[str]:
    found = []
    for word in words:
        known = next(disassembler.disasm(word.to_bytes(4, "little"), PC), None)
        if known is None or word >> 25 & 15 == 0 or known.mnemonic in NOT_TOLD:
            continue
        if word >> 22 == 0x354 and not word >> 19 & 3 and known.mnemonic in ("mrs", "msr"):
            continue  # op0 = 0: capstone names unallocated System words as registers
        instruction = decode(word)
        found += [
            f"{word:08x} {known.mnemonic} {known.op_str}: {problem}"
            for problem in problems(disassembler, known, instruction)
        ]
    return found


def problems(
    disassembler: capstone.Cs, known: capstone.CsInsn, instruction: Instruction
) -> Iterator[str]:
    if instruction.mark is Mark.UNALLOCATED:
        yield "said to be unallocated"
        return
    missed = written(disassembler, known) & ~instruction.writes
    if missed:
        yield f"misses writes {missed:#x}"
    yield from branch_problems(known, instruction)
    for operand in known.operands:
        if operand.type == arm64.ARM64_OP_MEM:
            yield from memory_problems(disassembler, known, operand.mem, instruction)


def register_set(disassembler: capstone.Cs, registers: Iterable[int]) -> int:
    result = 0
    for register in registers:
        number = register_number(disassembler.reg_name(register))
        if number is not None:
            result |= 1 << number
    return result


def register_number(name: str | None) -> int | None:
    special = {"sp": SP, "wsp": SP, "nzcv": NZCV, "fp": 29, "lr": 30}
    if name in special:
        return special[name]
    if name and name[0] in "xw" and name[1:].isdigit():
        return int(name[1:])
    return None


def written(disassembler: capstone.Cs, known: capstone.CsInsn) -> int:
    result = register_set(disassembler, known.regs_access()[1])
    if known.mnemonic in SHIFTED_MARKS:
        return result & 1 << NZCV
    if known.mnemonic == "svc":
        return 0  # says that X30 is written, as if it were a call
    if known.mnemonic in ("pacia1716", "pacib1716"):
        return result & ~(1 << 16)  # says that the modifier is written
    if known.id in (arm64.ARM64_INS_ST1, arm64.ARM64_INS_ST2):
        last = known.operands[-1]  # says that the post-index register is written
        if last.type == arm64.ARM64_OP_REG and last.reg != known.operands[-2].mem.base:
            result &= ~register_set(disassembler, [last.reg])
    return result


def branch_problems(known: capstone.CsInsn, instruction: Instruction) -> Iterator[str]:
    branches = (
        arm64.ARM64_GRP_JUMP,
        arm64.ARM64_GRP_CALL,
        arm64.ARM64_GRP_RET,
        arm64.ARM64_GRP_BRANCH_RELATIVE,
    )
    # These are in none of the groups
    ungrouped = known.mnemonic.startswith(("bc.", "eret"))
    is_branch = ungrouped or any(g in known.groups for g in branches)
    if is_branch != (instruction.family is Family.BRANCH):
        yield "a branch for one of us only"
    if instruction.target_offset is not None:
        target = branch_target(instruction, PC, [0] * 31)
        if known.operands[-1].imm % (1 << 64) != target:
            yield f"goes to {target:#x}"


EXTENDS = {
    arm64.ARM64_EXT_INVALID: Extend.LSL,
    arm64.ARM64_EXT_UXTW: Extend.UXTW,
    arm64.ARM64_EXT_SXTW: Extend.SXTW,
    arm64.ARM64_EXT_SXTX: Extend.SXTX,
}


def memory_problems(
    disassembler: capstone.Cs, known: capstone.CsInsn, mem: object, instruction: Instruction
) -> Iterator[str]:
    access = instruction.access
    if access is None:
        prefetch = known.mnemonic.startswith(("prf", "prfum"))
        if not prefetch and not instruction.gather_scatter:
            yield "no access"
        return
    base = disassembler.reg_name(mem.base)
    if register_number(base) != access.base:
        yield f"base {access.base}"
    if access.extend is Extend.REMAINS:
        return  # the size of a memory copy, which stands in no address of assembly code
    index = register_number(disassembler.reg_name(mem.index)) if mem.index else None
    if index != access.index:
        yield f"index {access.index}"
    if not instruction.sve and mem.disp not in (access.offset, access.writeback):
        yield f"offset {access.offset}"
    operand = next(o for o in known.operands if o.type == arm64.ARM64_OP_MEM)
    if access.index is not None:
        if EXTENDS.get(operand.ext) is not access.extend:
            yield f"extend {access.extend!r}"
        if operand.shift.value != access.shift:
            yield f"shift {access.shift}"
    changes = access.writeback is not None or access.index_writeback is not None
    if bool(known.writeback) != changes:
        yield f"writeback {access.writeback}"


def test_random_words_agree(disassembler: capstone.Cs) -> None:
    assert differences(disassembler, random_words(20_000)) == []


def test_mutated_words_agree(disassembler: capstone.Cs) -> None:
    assert differences(disassembler, mutated_words(20_000)) == []


@pytest.mark.slow
def test_words_of_a_c_library_agree(disassembler: capstone.Cs) -> None:
    assert differences(disassembler, library_words()) == []


def test_words_that_no_one_knows_are_unallocated_outside_the_vector_groups(
    disassembler: capstone.Cs,
) -> None:
    """Branches, system and data processing on general registers are told apart in full."""
    later = (0x74, 0x75, 0xF4, 0xF5, 0x55)  # CB<cc>, RETAASPPC came after capstone 5
    unknown = 0
    for word in random_words(20_000):
        if word >> 25 & 15 not in (5, 8, 9, 10, 11, 13) or word >> 24 in later:
            continue
        if next(disassembler.disasm(word.to_bytes(4, "little"), PC), None) is None:
            unknown += 1
            unallocated = decode(word).mark is Mark.UNALLOCATED
            assert unallocated or is_known_to_us_alone(word), f"{word:08x}"
    assert unknown > 1000


def is_known_to_us_alone(word: int) -> bool:
    """Whether ``word`` came after capstone 5, or is ADDG with bits set that should be zero."""
    return (
        word & 0xBFC0_0000 == 0x9180_0000
        or word & 0xFFD0_0000 == 0xD550_0000  # MSRR, MRRS
        or word & 0xFFF8_0000 == 0xD548_0000  # SYSP
        or word & 0x7FC0_0000 == 0x11C0_0000  # FEAT_CSSC, immediate
        or word & 0x7FFF_E000 == 0x5AC0_0000
        or word & 0x7FE0_F000 == 0x1AC0_6000
        or word & 0xBFE0_E000 == 0x9A00_2000  # FEAT_CPA
        or word & 0xFFE0_0000 == 0x9B60_0000
        or word & 0xFFFF_0000 == 0xDAC1_0000  # FEAT_PAuth_LR
        or word & 0xFFC0_001F == 0xF380_001F
        or word & 0xFFFF_F800 == 0xD65F_0800
    )
