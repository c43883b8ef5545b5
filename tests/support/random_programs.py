"""Random programs that do everything a sampled operation can be caught at.

A program is an endless loop of snippets. Its exception vectors step over what faults, so nothing
ends it: a run of one is bounded by its number of operations. X0 to X15 are the loop's, X16 to X18
point into its data, X19 to X24 have fixed values, X25 is where an instruction abort resumes, X26
and X27 belong to the vectors. Only X28 and X30 ever hold addresses of code, so that nothing is
stored there by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from spe_unicorn.machine.boot.image import Image
from spe_unicorn.machine.memory_map import RAM_BASE
from spe_unicorn.machine.memory_map import UART as UART_REGION
from tests.support import a64 as a
from tests.support.machine_runs import image_of

VECTORS = RAM_BASE
BOOT = RAM_BASE + 0x1000
CODE = RAM_BASE + 0x1_0000
DATA = RAM_BASE + 0x10_0000
DATA_SIZE = 0x1_0000
STACK = RAM_BASE + 0x1F_0000
TABLES = RAM_BASE + 0x20_0000
BUFFER = RAM_BASE + 0x30_0000
UART_BASE = UART_REGION.base
RAM = 4 << 20
HOLE = 0x1000_0000
"""A physical address that nothing answers."""

POINTERS, BASE, UART, FAULTING = (16, 17, 18), 19, 21, 22
STACK_TOP, RESUME, SCRATCH, SCRATCH2, TARGET = 24, 25, 26, 27, 28

ELR_EL1, ESR_EL1, SPSR_EL1 = (3, 0, 4, 0, 1), (3, 0, 5, 2, 0), (3, 0, 4, 0, 0)
VBAR_EL1, SP_EL0 = (3, 0, 12, 0, 0), (3, 0, 4, 1, 0)
TTBR0_EL1, TCR_EL1, MAIR_EL1 = (3, 0, 2, 0, 0), (3, 0, 2, 0, 2), (3, 0, 10, 2, 0)
SCTLR_EL1, CPACR_EL1 = (3, 0, 1, 0, 0), (3, 0, 1, 0, 2)
TPIDR_EL0, NZCV, FPCR = (3, 3, 13, 0, 2), (3, 3, 4, 2, 0), (3, 3, 4, 4, 0)
CNTVCT_EL0, CNTPCT_EL0, MIDR_EL1 = (3, 3, 14, 0, 2), (3, 3, 14, 0, 1), (3, 0, 0, 0, 0)
ID_AA64DFR0_EL1, CONTEXTIDR_EL1 = (3, 0, 0, 5, 0), (3, 0, 13, 0, 1)
CURRENTEL, DAIF = (3, 0, 4, 2, 2), (3, 3, 4, 2, 1)
PMSCR_EL1, PMSICR_EL1, PMSIRR_EL1 = (3, 0, 9, 9, 0), (3, 0, 9, 9, 2), (3, 0, 9, 9, 3)
PMSFCR_EL1, PMSIDR_EL1 = (3, 0, 9, 9, 4), (3, 0, 9, 9, 7)
PMBLIMITR_EL1, PMBPTR_EL1, PMBSR_EL1 = (3, 0, 9, 10, 0), (3, 0, 9, 10, 1), (3, 0, 9, 10, 3)


@dataclass(frozen=True)
class Settings:
    """What kind of program: where it runs, and whether it programs SPE itself.

    ``mmu`` turns translation on, ``el0`` runs the loop at EL0 (which needs ``mmu``), ``spe``
    programs the Profiling Unit, ``at`` is the offset of the loop in its page, in bytes. ``sve``
    adds gathers and scatters, and loads that authenticate their pointer.
    """

    mmu: bool = False
    el0: bool = False
    spe: bool = False
    at: int = 0
    sve: bool = False


Snippet = Callable[["_Loop"], list[int]]


class _Loop:
    """What the snippets need to know while the loop grows."""

    def __init__(self, random: Random, settings: Settings) -> None:
        self.random = random
        self.settings = settings
        self.words: list[int] = []

    def reg(self) -> int:
        return self.random.randrange(16)

    def pointer(self) -> int:
        return self.random.choice(POINTERS)

    def base(self) -> int:
        """A base register: mostly valid, at times SP, at times whatever a register holds."""
        return self.random.choice((*POINTERS, *POINTERS, 31, self.reg()))

    def condition(self) -> int:
        return self.random.randrange(15)

    def here(self) -> int:
        return self.settings.at + 4 * len(self.words)


def _alu(loop: _Loop) -> list[int]:
    r = loop.random
    d, n, m = loop.reg(), loop.reg(), loop.reg()
    return [
        r.choice(
            (
                a.add(d, n, m),
                a.adds(d, n, m),
                a.subs(d, n, m),
                a.subs(31, n, m),
                a.eor(d, n, m),
                a.orr(d, n, m),
                a.mul(d, n, m),
                a.udiv(d, n, m),
                a.add_imm(d, n, r.randrange(4096)),
                a.subs_imm(d, n, r.randrange(4096)),
                a.movz(d, r.randrange(1 << 16), r.choice((0, 16, 32))),
                a.movk(d, r.randrange(1 << 16), r.choice((0, 16, 32, 48))),
                a.lsr_imm(d, n, r.randrange(64)),
                a.adr(TARGET, r.randrange(-64, 64)),
                a.NOP,
            )
        )
    ]


def _conditional(loop: _Loop) -> list[int]:
    r = loop.random
    d, n, m, c = loop.reg(), loop.reg(), loop.reg(), loop.condition()
    compare = r.choice(([], [a.subs(31, n, m)], [a.subs_imm(31, n, 1)]))
    test = r.choice((a.csel(d, n, m, c), a.csinc(d, n, m, c), a.ccmp(n, m, r.randrange(16), c)))
    after = r.choice(([], [a.adds(d, n, m)], [a.csel(d, m, n, loop.condition())]))
    return [*compare, test, *after]


def _fp(loop: _Loop) -> list[int]:
    r = loop.random
    d, n, m = (r.randrange(8) for _ in range(3))
    x = loop.reg()
    return [
        r.choice(
            (
                a.fadd(d, n, m),
                a.fcmp(n, m),
                a.fcsel(d, n, m, loop.condition()),
                a.scvtf(d, x),
                a.fmov_to_x(x, n),
                a.add_4s(d, n, m),
            )
        )
    ]


def _renew(loop: _Loop) -> list[int]:
    """A pointer into the data, anywhere, also misaligned and across pages."""
    p, x = loop.pointer(), loop.reg()
    return [a.and_low_bits(p, x, 0, 14), a.add(p, p, BASE)]


def _load_store(loop: _Loop) -> list[int]:
    r = loop.random
    t, n, size = loop.reg(), loop.base(), r.randrange(4)
    if r.random() < 0.15 and n != 31:
        t = n  # a load over its own base
    form = r.choice((a.PLAIN, a.POST, a.PRE))
    if form != a.PLAIN and t == n:
        form = a.PLAIN  # writeback to the transferred register is CONSTRAINED UNPREDICTABLE
    load9, store9 = a.ldr9, a.str9
    offset = r.choice((0, 8, -8, r.randrange(-256, 256)))
    scaled = r.randrange(16) << size
    return [
        r.choice(
            (
                a.ldr(t, n, scaled, size),
                a.str_(t, n, scaled, size),
                a.ldrs(t, n, r.randrange(8) << min(size, 2), min(size, 2)),
                load9(t, n, offset, form, size),
                store9(t, n, offset, form, size),
                load9(t, n, offset, form, size),
                store9(t, n, offset, form, size),
            )
        )
    ]


def _indexed(loop: _Loop) -> list[int]:
    r = loop.random
    t, n, m, size = loop.reg(), loop.base(), loop.reg(), r.randrange(4)
    extend, scaled = r.choice((a.UXTW, a.LSL, a.SXTW, a.SXTX)), r.randrange(2)
    bounded = [a.and_low_bits(m, m, 0, r.randrange(3, 12))] if r.random() < 0.8 else []
    if r.random() < 0.2:
        t = m  # a load over its own index
    between = r.choice(([], [], _alu(loop)))
    access = r.choice((a.ldr_reg, a.str_reg))(t, n, m, extend, scaled, size)
    return [*bounded, *between, access]


def _pair(loop: _Loop) -> list[int]:
    r = loop.random
    t, t2, n = loop.reg(), loop.reg(), loop.base()
    form = r.choice((0b10, 0b01, 0b11))
    load = r.random() < 0.5
    if load and t == t2:
        t2 = (t + 1) % 16
    if form != 0b10 and n in (t, t2):
        form = 0b10
    return [a.pair(load, t, t2, n, r.randrange(-8, 8) * 8, form)]


def _vector_memory(loop: _Loop) -> list[int]:
    r = loop.random
    v, n, m = r.randrange(8), r.choice((*POINTERS, 31)), loop.reg()
    return r.choice(
        (
            [a.ldr_d(v, n, 8 * r.randrange(8))],
            [a.str_d(v, n, 8 * r.randrange(8))],
            [a.ldr_q(v, n, 16 * r.randrange(8))],
            [a.str_q(v, n, 16 * r.randrange(8))],
            [a.ld1_two(v, n)],
            [a.and_low_bits(m, m, 3, 4), a.st2_post(v, n, m)],
            [a.st2_post(v, n, 31)],
            [a.ld4_lane_post(v, n, m)],
            [a.ld4_lane_post(v, n, 31)],
        )
    )


def _atomic(loop: _Loop) -> list[int]:
    r = loop.random
    s, t, n = loop.reg(), loop.reg(), loop.pointer()
    u = next(x for x in range(16) if x not in (s, t))
    aligned = [a.and_low_bits(n, n, 3, 61)]
    return [
        *aligned,
        *r.choice(
            (
                [a.ldadd(s, t, n)],
                [a.ldadd(s, 31, n)],
                [a.swp(s, t, n)],
                [a.cas(s, t, n)],
                [a.ldar(t, n)],
                [a.stlr(t, n)],
                [a.ldxr(t, n), a.add_imm(t, t, 1), a.stxr(u, t, n)],
                [a.ldxr(t, n), a.CLREX, a.stxr(u, t, n)],
                [a.ldxr(t, n), a.svc(1), a.stxr(u, t, n), a.cbnz(u, 8), a.NOP],
            )
        ),
    ]


def _scattered(loop: _Loop) -> list[int]:
    """Offsets of a few elements to either side, a predicate, and a gather or a scatter.

    A scatter never goes where nothing is: the engine reports that for a later operation.
    """
    r = loop.random
    narrow, step, start = r.randrange(2), r.randrange(32), r.randrange(32)
    index = (0x04A0_4002 if narrow else 0x04E0_4002) | step << 16 | start << 5  # INDEX Z2
    predicates = (
        (0x25A0_1FE1 if narrow else 0x25E0_1FE1) | loop.reg() << 16,  # WHILELO P1, XZR, Xm
        0x2598_E3E1 if narrow else 0x25D8_E3E1,  # PTRUE P1
        0x2518_E401,  # PFALSE P1
    )
    # LD1W, ST1W {Z0.S}, P1, [Xn, Z2.S, SXTW #2]; LD1D, ST1D {Z0.D}, P1, [Xn, Z2.D, LSL #3]
    words = (0x8562_4400, 0xE562_C400) if narrow else (0xC5E2_C400, 0xE5A2_A400)
    word = r.choice(words)
    n = loop.base() if word == words[0] else BASE
    return [index, r.choice(predicates), word | n << 5]


def _authenticated(loop: _Loop) -> list[int]:
    """LDRAA or LDRAB of a pointer that was signed, or of one that was not."""
    x, key_b = loop.reg(), loop.random.randrange(2)
    sign = (0xDAC1_3FE0 if key_b else 0xDAC1_3BE0) | x  # PACDZB, PACDZA
    load = 0xF820_0400 | key_b << 23 | loop.random.randrange(16) << 12 | x << 5 | loop.reg()
    return [a.add_imm(x, loop.pointer(), 8), *([sign] if loop.random.randrange(4) else []), load]


def _zero_block(loop: _Loop) -> list[int]:
    p = loop.pointer()
    return [a.add_imm(p, BASE, 64 * loop.random.randrange(64)), a.dc_zva(p)]


def _literal(loop: _Loop) -> list[int]:
    here = 4 * len(loop.words)
    return [a.ldr_literal(loop.reg(), loop.random.randrange(-min(here, 64), 64, 4))]


def _fault(loop: _Loop) -> list[int]:
    r, x = loop.random, loop.reg()
    return [
        r.choice(
            (
                a.brk(r.randrange(100)),
                a.udf(r.randrange(100)),
                a.ldr(x, FAULTING),
                a.str_(x, FAULTING, 8 * r.randrange(8)),
                a.ldr9(x, FAULTING, 8, a.PLAIN),
                a.pair(True, x, (x + 1) % 16, FAULTING),
                a.ldr_q(0, FAULTING),
                a.mrs(x, (3, 4, 1, 1, 0)),  # HCR_EL2
                a.mrs(x, PMSIDR_EL1),
                a.mrs(x, (3, 0, 9, 9, 1)),  # PMSNEVFR_EL1, that not every core has
                a.msr(PMSIDR_EL1, x),  # read-only
            )
        )
    ]


def _call(loop: _Loop) -> list[int]:
    return [a.svc(loop.random.randrange(1 << 16))]


def _system(loop: _Loop) -> list[int]:
    r, x = loop.random, loop.reg()
    y = (x + 1) % 16
    return r.choice(
        (
            [a.mrs(x, CNTVCT_EL0)],
            [a.mrs(x, CNTPCT_EL0), a.mrs(y, CNTVCT_EL0)],
            [a.mrs(x, MIDR_EL1)],
            [a.mrs(x, ID_AA64DFR0_EL1)],
            [a.mrs(x, CURRENTEL)],
            [a.mrs(x, NZCV), a.adds(y, x, y), a.msr(NZCV, x)],
            [a.msr(NZCV, y)],
            [a.mrs(x, FPCR)],
            [a.msr(TPIDR_EL0, x)],
            [a.mrs(x, TPIDR_EL0), a.mrs(y, TPIDR_EL0)],
            [a.mrs(x, DAIF)],
            [a.daifset(r.randrange(16)), a.daifclr(r.randrange(16))],
            [a.msr(CONTEXTIDR_EL1, x)],
            [a.msr(CONTEXTIDR_EL1, x), a.mrs(y, CONTEXTIDR_EL1)],
            [a.mrs(x, TTBR0_EL1), a.msr(TTBR0_EL1, x), a.ISB],
            [a.mrs(x, SCTLR_EL1), a.msr(SCTLR_EL1, x)],
            [a.sys(0, 8, 7, 0), a.DSB_SY, a.ISB],  # TLBI VMALLE1
            [a.sys(0, 7, 5, 0)],  # IC IALLU
            [a.sys(3, 7, 10, 1, BASE)],  # DC CVAC
            [a.ISB],
            [a.DSB_SY],
            [a.DMB_ISH],
            [a.YIELD],
            [a.WFE],
            [a.SEV],
            [a.PSB_CSYNC],
            [a.prfm(loop.base())],
        )
    )


def _device(loop: _Loop) -> list[int]:
    r, x = loop.random, loop.reg()
    return [
        r.choice(
            (
                a.str_(x, UART, 0, 0),
                a.str_(x, UART, 0, 2),
                a.ldr(x, UART, 0x18, 2),
                a.ldr9(x, UART, 0x18, a.PLAIN, 2),
                a.ldr(31, UART, 0x18, 2),
            )
        )
    ]


def _device_writeback(loop: _Loop) -> list[int]:
    p, x = loop.pointer(), loop.reg()
    form = loop.random.choice((a.POST, a.PRE))
    return [a.orr(p, 31, UART), a.str9(x, p, 4, form, 2), a.orr(p, 31, BASE)]


def _forward(loop: _Loop) -> list[int]:
    """A conditional or direct branch over some operations, or over none at all."""
    r, x = loop.random, loop.reg()
    inside = [w for _ in range(r.randrange(4)) for w in r.choice((_alu, _load_store))(loop)]
    over = 4 * len(inside) + 4
    branch = r.choice(
        (
            a.b(over),
            a.b_cond(loop.condition(), over),
            a.b_cond(loop.condition(), over),
            a.cbz(x, over),
            a.cbnz(x, over),
            a.tbz(x, r.randrange(64), over),
            a.tbnz(x, r.randrange(64), over),
        )
    )
    return [branch, *inside]


def _indirect(loop: _Loop) -> list[int]:
    inside = _alu(loop)
    behind = 8 + 4 * len(inside)
    return loop.random.choice(
        (
            [a.adr(TARGET, behind), a.br(TARGET), *inside],
            [a.adr(30, behind), a.RET, *inside],
            [a.adr(TARGET, behind), a.ret(TARGET), *inside],
            [a.adr(TARGET, 8), a.blr(TARGET)],  # to what is next anyway
            [a.b(12), *_alu(loop), a.RET, a.bl(-8)],  # over a leaf, then call it
            [a.b(8), a.RET, a.bl(-4)],
        )
    )


def _lost(loop: _Loop) -> list[int]:
    """A branch to where nothing can be fetched; the vectors resume after it."""
    jump = loop.random.choice((a.br, a.blr))
    return [a.adr(RESUME, 8), jump(loop.random.choice((FAULTING, UART)))]


def _countdown(loop: _Loop) -> list[int]:
    """A loop in the loop, down to two operations."""
    r, x = loop.random, loop.reg()
    body = [w for _ in range(r.randrange(3)) for w in r.choice((_fp, _vector_memory))(loop)]
    branch = -4 * (len(body) + 1)
    return [a.movz(x, r.randrange(1, 9)), *body, a.subs_imm(x, x, 1), a.b_cond(a.NE, branch)]


def _copy(loop: _Loop) -> list[int]:
    p, q, x, y = 16, 17, loop.reg(), loop.reg()
    if x == y:
        y = (x + 1) % 16
    return [
        a.movz(x, loop.random.randrange(1, 6)),
        a.ldr9(y, p, 8, a.POST),
        a.str9(y, q, 8, a.POST),
        a.subs_imm(x, x, 1),
        a.b_cond(a.NE, -12),
    ]


def _modify(loop: _Loop) -> list[int]:
    """Rewrite an operation between two, with the maintenance that the architecture asks for."""
    x, y = 14, 15
    return [
        a.adr(x, 48),
        a.ldr(y, x, 0, 2),
        a.movz(13, 1 << 10),  # the low bit of ADD's immediate: at 10
        a.eor(y, y, 13),
        a.str_(y, x, 0, 2),
        a.sys(3, 7, 11, 1, x),  # DC CVAU
        a.DSB_SY,
        a.sys(3, 7, 5, 1, x),  # IC IVAU
        a.DSB_SY,
        a.ISB,
        *_alu(loop),
        *_alu(loop),
        a.add_imm(12, 12, 8),
        a.movz(x, 0),
        a.ldr(11, 18, 8),
    ]


def _spe(loop: _Loop) -> list[int]:
    r, x = loop.random, loop.reg()
    count = r.choice((1, 2, 3, r.randrange(1, 40), 257))
    return r.choice(
        (
            [a.movz(x, count), a.msr(PMSICR_EL1, x)],
            [a.movz(x, count), a.msr(PMSICR_EL1, x)],
            [a.movz(x, count), a.msr(PMSICR_EL1, x), a.ISB],
            [a.mrs(x, PMSICR_EL1)],
            [a.mrs(x, PMBPTR_EL1)],
            [a.mrs(x, PMBSR_EL1)],
            [a.movz(x, 256 | r.randrange(2)), a.msr(PMSIRR_EL1, x)],
            [a.movz(x, r.choice((0x33, 0x32, 0x31, 0x33, 0))), a.msr(PMSCR_EL1, x)],
            [a.msr(PMSCR_EL1, 31), a.ISB, a.movz(x, 0x33), a.msr(PMSCR_EL1, x)],
            [
                a.movz(x, r.choice((0, 0, 0b100))),
                a.movk(x, r.randrange(8), 16),
                a.msr(PMSFCR_EL1, x),
            ],
            [a.PSB_CSYNC, a.DSB_SY, a.mrs(x, PMBPTR_EL1)],
            # service the buffer
            [*a.mov64(x, BUFFER), a.msr(PMBPTR_EL1, x), a.msr(PMBSR_EL1, 31), a.ISB],
            # a buffer that is nearly full
            [*a.mov64(x, BUFFER + 0xF00), a.msr(PMBPTR_EL1, x), a.msr(PMBSR_EL1, 31)],
            # a buffer in a hole
            [*a.mov64(x, HOLE), a.msr(PMBPTR_EL1, x)],
        )
    )


_COMMON: tuple[tuple[Snippet, int], ...] = (
    (_alu, 12),
    (_conditional, 6),
    (_fp, 4),
    (_renew, 6),
    (_load_store, 14),
    (_indexed, 6),
    (_pair, 5),
    (_vector_memory, 5),
    (_atomic, 4),
    (_zero_block, 1),
    (_literal, 2),
    (_fault, 4),
    (_call, 3),
    (_system, 9),
    (_device, 2),
    (_device_writeback, 1),
    (_forward, 9),
    (_indirect, 4),
    (_lost, 1),
    (_countdown, 3),
    (_copy, 2),
    (_modify, 1),
)


def random_program(seed: int, settings: Settings) -> Image:
    """The program of a seed."""
    random = Random(seed)
    loop = _Loop(random, settings)
    table = [*_COMMON, (_spe, 10)] if settings.spe else list(_COMMON)
    if settings.sve:
        table += [(_scattered, 8), (_authenticated, 4)]
    # each program has its own taste, so that not all are alike
    kinds = random.sample(table, random.randrange(4, len(table)))
    weights = [weight for _, weight in kinds]
    loop.words += _loop_head(settings)
    for _ in range(random.randrange(3, 60)):
        (snippet, _weight), *_rest = random.choices(kinds, weights)
        if snippet is _modify and settings.el0:
            continue  # EL0 may not write its code
        loop.words += snippet(loop)
    loop.words.append(a.b(-4 * len(loop.words)))
    entry = CODE + settings.at
    segments = {
        VECTORS: _vectors(),
        BOOT: a.code(_boot(entry, settings)),
        entry: a.code(loop.words),
        DATA: _data(random),
    }
    if settings.mmu:
        segments[TABLES] = _tables(settings)
    return image_of(segments, BOOT)


def _loop_head(settings: Settings) -> list[int]:
    """Make the pointers valid again, wherever the last turn left them."""
    return [
        *(a.add_imm(p, BASE, 0x400 * (n + 1)) for n, p in enumerate(POINTERS)),
        a.add_imm(31, STACK_TOP, 0),
    ]


def _vectors() -> bytes:
    """Every vector holds the same handler: resume, or step over, or just return from a call."""
    handler = [
        a.mrs(SCRATCH, ESR_EL1),
        a.lsr_imm(SCRATCH, SCRATCH, 26),
        a.sub_imm(SCRATCH2, SCRATCH, 0x15),
        a.cbz(SCRATCH2, 9 * 4),  # SVC
        a.and_low_bits(SCRATCH2, SCRATCH, 1, 63),
        a.sub_imm(SCRATCH2, SCRATCH2, 0x20),
        a.cbz(SCRATCH2, 5 * 4),  # instruction abort
        a.mrs(SCRATCH2, ELR_EL1),
        a.add_imm(SCRATCH2, SCRATCH2, 4),
        a.msr(ELR_EL1, SCRATCH2),
        a.b(2 * 4),
        a.msr(ELR_EL1, RESUME),
        a.ERET,
    ]
    return a.code(handler).ljust(0x80, b"\0") * 16


def _boot(entry: int, settings: Settings) -> list[int]:
    words = [
        *a.mov64(0, VECTORS),
        a.msr(VBAR_EL1, 0),
        a.movz(0, 0x33 if settings.sve else 0x30, 16),
        a.msr(CPACR_EL1, 0),
        *a.mov64(BASE, DATA),
        *a.mov64(UART, UART_BASE),
        *a.mov64(FAULTING, HOLE),
        *a.mov64(STACK_TOP, STACK),
        *a.mov64(RESUME, entry),
        a.msr(SP_EL0, STACK_TOP),
    ]
    if settings.sve:
        words += _switched_on(1 << 27 | 1 << 13)  # EnDA, EnDB
    if settings.mmu:
        words += [
            *a.mov64(0, TABLES),
            a.msr(TTBR0_EL1, 0),
            *a.mov64(0, 0x19 | 1 << 8 | 1 << 10 | 3 << 12 | 1 << 23),  # 39 bits, 4K, no TTBR1
            a.msr(TCR_EL1, 0),
            a.movz(0, 0xFF),
            a.msr(MAIR_EL1, 0),
            a.sys(0, 8, 7, 0),
            a.ISB,
            *_switched_on(0x0404_D205),  # M, C, I; for EL0 UCT, UCI, DZE, UMA, nTWE
        ]
    if settings.spe:
        words += [
            *a.mov64(0, BUFFER),
            a.msr(PMBPTR_EL1, 0),
            *a.mov64(0, BUFFER + 0x1000 + 1),
            a.msr(PMBLIMITR_EL1, 0),
            a.msr(PMBSR_EL1, 31),
            a.msr(PMSFCR_EL1, 31),
            a.movz(0, 256),
            a.msr(PMSIRR_EL1, 0),
            a.movz(0, 3),
            a.msr(PMSICR_EL1, 0),
            a.movz(0, 0x33),
            a.msr(PMSCR_EL1, 0),
            a.ISB,
        ]
    for register in range(16):
        words += [a.movz(register, register * 0x1111), a.movk(register, register * 77, 16)]
    spsr = 0x3C0 if settings.el0 else 0x3C5
    words += [
        *a.mov64(SCRATCH, entry),
        a.msr(ELR_EL1, SCRATCH),
        a.movz(SCRATCH, spsr),
        a.msr(SPSR_EL1, SCRATCH),
        a.ERET,
    ]
    return words


def _switched_on(bits: int) -> list[int]:
    """Set bits of SCTLR_EL1."""
    return [a.mrs(0, SCTLR_EL1), *a.mov64(1, bits), a.orr(0, 0, 1), a.msr(SCTLR_EL1, 0), a.ISB]


def _data(random: Random) -> bytes:
    """Numbers, small ones, and pointers into the data itself."""
    words = (
        random.choice(
            (
                random.getrandbits(64),
                random.randrange(1 << 8),
                DATA + random.randrange(0x1000, 0x8000, 8),
                DATA + random.randrange(0x1000, 0x8000),
            )
        )
        for _ in range(DATA_SIZE // 8)
    )
    return b"".join(word.to_bytes(8, "little") for word in words)


def _tables(settings: Settings) -> bytes:
    """One to one: 1 GB of nothing but the UART's 2 MB and a hole, then RAM.

    The first 2 MB of RAM are in pages. If the loop runs at EL0, EL0 executes the code.
    """
    level2_low, level2_ram, level3 = (TABLES + n * 0x1000 for n in (1, 2, 3))
    block, page, af, user, ro, pxn, uxn = 1, 3, 1 << 10, 1 << 6, 1 << 7, 1 << 53, 1 << 54
    level1 = [0] * 512
    level1[0], level1[1] = level2_low | 3, level2_ram | 3
    low = [0] * 512
    low[UART_BASE >> 21] = UART_BASE | block | af | user | pxn | uxn
    low[HOLE >> 21] = HOLE | block | af | user
    ram = [0] * 512
    ram[0] = level3 | 3
    ram[1] = (RAM_BASE + (2 << 20)) | block | af | pxn | uxn
    pages = []
    for n in range(512):
        address = RAM_BASE + n * 0x1000
        if CODE <= address < DATA:
            pages.append(address | page | af | (user | ro | pxn if settings.el0 else uxn))
        elif address >= DATA:
            pages.append(address | page | af | user | pxn | uxn)
        else:
            pages.append(address | page | af | uxn)
    entries = (*level1, *low, *ram, *pages)
    return b"".join(entry.to_bytes(8, "little") for entry in entries)
