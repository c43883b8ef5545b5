"""A guest that executes instruction words one by one, each on registers that it loads before.

The same bytes run on QEMU and here. For each case the guest loads Z0 to Z31, P0 to P15, X0 to X15,
NZCV, FPCR and FPSR, executes the word, and stores vectors, predicates, NZCV, FPSR, and whether the
word was UNDEFINED.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple, cast

import numpy as np

from spe_unicorn.arch.pe import EL3
from spe_unicorn.compiled import Words
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.instructions.carry import carry_out
from spe_unicorn.instructions.decoder import TABLE, UNIT, USES, find
from spe_unicorn.instructions.registers import REGISTERS, SCRATCH_ROWS
from spe_unicorn.instructions.table import NONE
from spe_unicorn.machine.board import Board
from tests.support import a64
from tests.support.running.processes import WALL_SECONDS
from tests.support.small_boards import MIB, board_at

QEMU: Final = shutil.which("qemu-system-aarch64")
BASE: Final = 0x4020_0000
_NZCV, _FPCR, _FPSR = (3, 3, 4, 2, 0), (3, 3, 4, 4, 0), (3, 3, 4, 4, 1)
_CPTR, _ZCR, _VBAR, _ELR = (3, 6, 1, 1, 2), (3, 6, 1, 2, 0), (3, 6, 12, 0, 0), (3, 6, 4, 0, 1)
_X: Final = 16
_EZ: Final = 1 << 8
_HANDLER: Final = 0x800
"""Where the vectors are, from the guest's begin; the image's data begins after them."""
_DATA: Final = 0x1000
_NAME: Final = 128
"""Bytes for the name of the file that QEMU writes."""


class State(NamedTuple):
    """The registers before an instruction; those above are left out where vectors are shorter."""

    z: tuple[int, ...]
    p: tuple[int, ...]
    x: tuple[int, ...]
    nzcv: int = 0
    fpcr: int = 0
    fpsr: int = 0


class Result(NamedTuple):
    """The registers after it."""

    z: tuple[int, ...]
    p: tuple[int, ...]
    nzcv: int
    fpsr: int
    undefined: bool


NO_PREDICATES: Final[Mapping[int, int]] = MappingProxyType({})


Case = tuple[int, State]


def _vector(load: int, register: int, base: int) -> int:
    """LDR, STR of Z<register> at its place after ``base``."""
    word = 0x8580_4000 if load else 0xE580_4000
    return word | (register >> 3) << 16 | (register & 7) << 10 | base << 5 | register


def _predicate(load: int, register: int, base: int) -> int:
    word = 0x8580_0000 if load else 0xE580_0000
    return word | (register >> 3) << 16 | (register & 7) << 10 | base << 5 | register


def _state_size(size: int) -> int:
    return 32 * size + 16 * (size // 8) + 8 * _X + 24


def _result_size(size: int) -> int:
    return 32 * size + 16 * (size // 8) + 24


class Guest(NamedTuple):
    """The bytes at BASE, where they end the run, and where results are."""

    image: bytes
    done: int
    results: int
    cases: int
    size: int

    def read(self, data: bytes) -> list[Result]:
        """The results in what lies at ``results``."""
        size, found = self.size, []
        for n in range(self.cases):
            one = data[n * _result_size(size) : (n + 1) * _result_size(size)]
            z = tuple(int.from_bytes(one[k * size :][:size], "little") for k in range(32))
            p_at, p_size = 32 * size, size // 8
            p = tuple(
                int.from_bytes(one[p_at + k * p_size :][:p_size], "little") for k in range(16)
            )
            nzcv, fpsr, undefined = struct.unpack("<3Q", one[-24:])
            found.append(Result(z, p, nzcv, fpsr, bool(undefined)))
        return found


def guest(cases: Sequence[Case], size: int, file: str = "") -> Guest:
    """The guest for these cases with vectors of ``size`` bytes; QEMU writes results to ``file``."""
    states_at = BASE + _DATA + _NAME
    stubs_at = states_at + len(cases) * _state_size(size)
    results_at = stubs_at + 8 * len(cases)
    length = len(cases) * _result_size(size)
    p_size = 16 * (size // 8)
    code = [
        *a64.mov64(0, _EZ), a64.msr(_CPTR, 0), 0xD503_3FDF,
        *a64.mov64(0, size // 16 - 1), a64.msr(_ZCR, 0),
        *a64.mov64(0, BASE + _HANDLER), a64.msr(_VBAR, 0), 0xD503_3FDF,
        *a64.mov64(20, states_at), *a64.mov64(21, len(cases)),
        *a64.mov64(22, results_at), *a64.mov64(26, stubs_at),
    ]  # fmt: skip
    loop = len(code)
    code += [_vector(1, k, 20) for k in range(32)]
    code += [*a64.mov64(25, 32 * size), a64.add(24, 20, 25)]
    code += [_predicate(1, k, 24) for k in range(16)]
    code += [*a64.mov64(25, p_size), a64.add(24, 24, 25)]
    at = 8 * _X
    for n, register in enumerate((_NZCV, _FPCR, _FPSR)):
        code += [a64.ldr(0, 24, at + 8 * n), a64.msr(register, 0)]
    code += [a64.ldr(k, 24, 8 * k) for k in range(_X)]
    code += [a64.movz(28, 0), a64.blr(26)]
    code += [a64.mrs(1, _NZCV)]
    code += [_vector(0, k, 22) for k in range(32)]
    code += [*a64.mov64(25, 32 * size), a64.add(22, 22, 25)]
    code += [_predicate(0, k, 22) for k in range(16)]
    code += [*a64.mov64(25, p_size), a64.add(22, 22, 25), a64.str_(1, 22, 0)]
    code += [a64.mrs(0, _FPSR), a64.str_(0, 22, 8), a64.str_(28, 22, 16), a64.add_imm(22, 22, 24)]
    code += [*a64.mov64(25, _state_size(size)), a64.add(20, 20, 25), a64.add_imm(26, 26, 8)]
    code += [a64.subs_imm(21, 21, 1)]
    code += [a64.b_cond(1, 4 * (loop - len(code)))]
    done = BASE + 4 * len(code)
    block = BASE + _DATA - 64
    name = BASE + _DATA
    for call, values in (
        (1, (name, 5, len(file))),
        (5, (None, results_at, length)),
        (24, (0x20026, 0)),
    ):
        code += a64.mov64(1, block)
        for k, value in enumerate(values):
            if value is not None:
                code += a64.mov64(2, value)
            else:
                code += [a64.orr(2, 31, 0)]
            code.append(a64.str_(2, 1, 8 * k))
        code += [*a64.mov64(0, call), 0xD45E_0000]
    image = bytearray(a64.code(code))
    assert len(image) < _HANDLER
    image += bytes(_HANDLER + 0x200 - len(image))
    image += a64.code(
        [a64.mrs(29, _ELR), a64.add_imm(29, 29, 4), a64.msr(_ELR, 29), a64.movz(28, 1), 0xD69F_03E0]
    )
    image += bytes(_DATA - len(image))
    image += file.encode().ljust(_NAME, b"\0")
    for _, state in cases:
        image += b"".join(value.to_bytes(256, "little")[:size] for value in state.z)
        image += b"".join(value.to_bytes(32, "little")[: size // 8] for value in state.p)
        image += struct.pack("<19Q", *state.x, state.nzcv, state.fpcr, state.fpsr)
    for word, _ in cases:
        image += a64.code([word, a64.ret()])
    return Guest(bytes(image), done, results_at, len(cases), size)


def on_qemu(cases: Sequence[Case], size: int, folder: Path) -> list[Result]:
    """What QEMU's ``max`` makes of the cases."""
    file = folder / "results"
    made = guest(cases, size, str(file))
    (folder / "guest").write_bytes(made.image)
    machine = "virt,secure=on,virtualization=on,gic-version=3"
    subprocess.run(
        [
            *(str(QEMU), "-machine", machine, "-cpu", "max", "-m", "256", "-nographic"),
            *("-semihosting-config", "enable=on,target=native", "-nic", "none"),
            *("-device", f"loader,file={folder / 'guest'},addr={BASE:#x},cpu-num=0,force-raw=on"),
        ],
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=WALL_SECONDS,
    )
    return made.read(file.read_bytes())


def here(
    cases: Sequence[Case],
    size: int,
    core: str = "max",
    runner: type[Runner] | type[ReferenceRunner] = Runner,
) -> list[Result]:
    """What a board with that core makes of them."""
    made = guest(cases, size)
    board: Board = board_at([], core=load_core(core), ram=64 * MIB, runner=runner)  # type: ignore[arg-type]
    board.memory.fill(BASE, made.image)
    board.pes[0].start(EL3, BASE)
    board.run(until=made.done)
    assert board.cpu.pc == made.done
    data = board.memory.read(made.results, made.cases * _result_size(size))
    assert data is not None
    return made.read(data)


_INTERESTING: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFF_FFFF, 0x8000_0000)
_FLOATS: Final = {
    16: (
        *(0, 0x8000, 1, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0x7D01),
        *(0xFE23, 0x0080, 0x3F80, 0x7F80, 0xFF80, 0x7FC1, 0x7F81, 0xFFC3, 0x7F7F, 1, 0x8080),
    ),
    32: (
        *(0, 1 << 31, 1, 0x807F_FFFF, 0x0080_0000, 0x3F80_0000, 0xBF80_0000, 0x7F7F_FFFF),
        *(0x7F80_0000, 0xFF80_0000, 0x7FC0_0123, 0x7F80_4567, 0xFFC8_9000, 0x3F80_8000),
        *(0x3F81_8000, 0x3F80_8001),
    ),
    64: (
        *(0, 1 << 63, 1, 0x3FF << 52, 0xBFF << 52, 0x7FEF_FFFF_FFFF_FFFF, 0x7FF << 52),
        *(0xFFF << 52, 0x7FF8_0000_0000_0123, 0x7FF0_1234_0000_0000, 1 << 52),
    ),
}


def _lanes(random: Random, size: int) -> int:
    """A vector of random elements, some of them at the edges of their type."""
    kind = random.randrange(6)
    if kind == 0:
        return random.getrandbits(8 * size)
    lane = random.choice((8, 16, 32, 64))
    value = 0
    for k in range(8 * size // lane):
        pick = random.randrange(4)
        if kind < 3 and lane > 8:
            base = random.choice(_FLOATS[lane])
            element = base ^ random.getrandbits(3) if pick == 0 else base
            if pick == 1:
                element = random.getrandbits(lane)
            if pick == 2 and lane == 32:
                element = (random.randrange(0x70, 0x90) << 23 | random.getrandbits(23)) ^ (
                    random.getrandbits(1) << 31
                )
        elif pick == 0:
            element = random.choice(_INTERESTING)
        elif pick == 1:
            element = -random.choice(_INTERESTING)
        elif pick == 2:
            element = random.randrange(-4, 5)
        else:
            element = random.getrandbits(lane)
        value |= (element & (1 << lane) - 1) << k * lane
    return value


def random_state(random: Random, size: int) -> State:
    """Random registers; FPCR has each rounding mode, DN, FZ and FZ16."""
    mask = (1 << 64) - 1
    base = random.getrandbits(64)
    x = []
    for _ in range(_X):
        near = random.randrange(64), -random.randrange(9), base + random.randrange(-40, 40)
        x.append(random.choice((random.getrandbits(64), *near)) & mask)
    p = [random.choice((random.getrandbits(size), (1 << size) - 1, 0)) for _ in range(16)]
    fpcr = random.getrandbits(4) << 22 | random.getrandbits(1) << 19
    if random.random() < 0.5:
        fpcr = random.getrandbits(2) << 22
    return State(
        tuple(_lanes(random, size) for _ in range(32)),
        tuple(p),
        tuple(x),
        random.getrandbits(4) << 28,
        fpcr,
        random.choice((0, 0, random.getrandbits(5))),
    )


def random_cases(random: Random, patterns: Sequence[str], each: int, size: int) -> list[Case]:
    """So many random words of each pattern of a row, with random registers."""
    cases = []
    for pattern in patterns:
        for _ in range(each):
            bits = "".join(b if b in "01" else random.choice("01") for b in pattern)
            for letter in "xy":  # the guest loads X0 to X15
                if letter in pattern:
                    number = random.choice((*range(_X), 31))
                    at = pattern.index(letter)
                    bits = f"{bits[:at]}{number:05b}{bits[at + 5 :]}"
            cases.append((int(bits, 2), random_state(random, size)))
    return cases


def carried(cases: Sequence[Case], size: int, features: int = -1) -> list[Result | None]:
    """What the functions alone make of the cases, without a machine; None where there is no row."""
    z, p = np.zeros((32, 32), np.int64), np.zeros((16, 4), np.int64)
    x, scratch = np.zeros(32, np.int64), np.zeros((SCRATCH_ROWS, 32), np.int64)
    registers = np.zeros(1, cast("np.dtype[np.void]", REGISTERS))
    for name, array in (("z", z), ("p", p), ("x", x), ("scratch", scratch)):
        registers[name] = array.ctypes.data
    registers["bytes"] = size
    found: list[Result | None] = []
    for word, state in cases:
        place = find(cast("Words", TABLE), word, features)
        if place == NONE:
            found.append(None)
            continue
        z[:] = np.frombuffer(
            b"".join(v.to_bytes(256, "little") for v in state.z), np.int64
        ).reshape(32, 32)
        p[:] = np.frombuffer(b"".join(v.to_bytes(32, "little") for v in state.p), np.int64).reshape(
            16, 4
        )
        x[:_X] = np.array(state.x, np.uint64).view(np.int64)
        registers["nzcv"], registers["fpcr"], registers["fpsr"] = state.nzcv, state.fpcr, state.fpsr
        carry_out(registers.ctypes.data, word, *map(int, TABLE[place + UNIT : place + USES]))
        found.append(
            Result(
                tuple(int.from_bytes(z[k].tobytes()[:size], "little") for k in range(32)),
                tuple(int.from_bytes(p[k].tobytes()[: size // 8], "little") for k in range(16)),
                int(registers["nzcv"][0]),
                int(registers["fpsr"][0]),
                undefined=False,
            )
        )
    return found


def one(
    word: int,
    z: Mapping[int, int],
    *,
    size: int = 16,
    p: Mapping[int, int] = NO_PREDICATES,
    fpcr: int = 0,
) -> Result:
    """What a word makes of a few registers; the others are 0."""
    state = State(
        tuple(z.get(k, 0) for k in range(32)),
        tuple(p.get(k, 0) for k in range(16)),
        (0,) * _X,
        0,
        fpcr,
    )
    (result,) = carried([(word, state)], size)
    if result is None:
        raise LookupError(f"{word:#010x} has no row")
    return result


def lanes(*elements: int, size: int) -> int:
    """A vector of elements of so many bits, the first one lowest."""
    return sum((e & (1 << size) - 1) << n * size for n, e in enumerate(elements))
