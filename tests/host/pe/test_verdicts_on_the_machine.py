"""Our verdicts for accesses, and what the machine then does: they are the same, one by one.

A base state in which nothing traps, and each control that traps turned on by itself; every register
whose access it may trap, at every Exception level, read and written.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from spe_unicorn.arch.access.caches import CACHE_ACCESSORS
from spe_unicorn.arch.access.debug import DEBUG_ACCESSORS
from spe_unicorn.arch.access.identity import IDENTITY_ACCESSORS
from spe_unicorn.arch.access.kernel import KERNEL_ACCESSORS
from spe_unicorn.arch.access.spe import STEERING_ACCESSORS
from spe_unicorn.arch.access.timer import TIMER_ACCESSORS
from spe_unicorn.arch.access.verdicts import (
    Accessor,
    Allowed,
    SystemAccessTrap,
    Undefined,
    access,
)
from spe_unicorn.arch.exceptions.routing import (
    default_target,
    fp_access_trap,
    pointer_authentication_trap,
    sve_access_trap,
)
from spe_unicorn.arch.exceptions.syndromes import UNDEFINED
from spe_unicorn.arch.features import Feature
from spe_unicorn.arch.pe import EL1, EL2, EL3, PEAt
from spe_unicorn.arch.registers import system
from spe_unicorn.arch.registers.aarch32_id import (
    AARCH32_ID_REGISTERS,
    ID_MMFR5_EL1,
    ID_PFR0_EL1,
    MVFR2_EL1,
)
from spe_unicorn.arch.registers.sysreg import SysReg
from spe_unicorn.cores.profile import load_core
from spe_unicorn.host.pe.stops import Ending
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from spe_unicorn.machine.board import Board
from tests.support import a64 as a
from tests.support.small_boards import RAM, board_at

CODE = RAM + 0x8000
VECTORS = {EL1: RAM + 0x10000, EL2: RAM + 0x20000, EL3: RAM + 0x30000}
ESR = {EL1: system.ESR_EL1, EL2: system.ESR_EL2, EL3: system.ESR_EL3}
VBAR = {EL1: system.VBAR_EL1, EL2: system.VBAR_EL2, EL3: system.VBAR_EL3}
E2H, TGE, NS = 1 << 34, 1 << 27, 1
OPEN: dict[type[SysReg], int] = {
    system.SCR_EL3: 0x431 | 3 << 16 | 1 << 28 | 1 << 11,  # RW, NS, API, APK, ECVEn, ST
    system.HCR_EL2: 1 << 31 | 3 << 40,
    system.CNTKCTL_EL1: 0x303,
    system.CNTHCTL_EL2: 0xC03,
    system.MDCR_EL2: 3 << 12,
    system.MDCR_EL3: 3 << 12,
    system.CPACR_EL1: 3 << 20 | 3 << 16,
    system.CPTR_EL2: 0x32FF,
    system.CPTR_EL3: 1 << 8,
    system.SCTLR_EL1: 0x30D0_0800 | 1 << 31 | 1 << 30,
    system.SCTLR_EL2: 0x30C5_0830 | 1 << 31,
    system.SCTLR_EL3: 0x30C5_0830 | 1 << 31,
}
"""Nothing traps; pointer authentication is in use."""
HOST = {
    system.HCR_EL2: OPEN[system.HCR_EL2] | E2H,
    system.CPTR_EL2: 3 << 20 | 3 << 16,
    system.CNTHCTL_EL2: 0xF03,
}
STATES: dict[str, dict[type[SysReg], int]] = {
    "Non-secure": OPEN,
    "with E2H": {**OPEN, **HOST},
    "with E2H and TGE": {**OPEN, **HOST, system.HCR_EL2: HOST[system.HCR_EL2] | TGE},
    "with TGE": {**OPEN, system.HCR_EL2: OPEN[system.HCR_EL2] | TGE},
    "Secure": {**OPEN, system.SCR_EL3: OPEN[system.SCR_EL3] & ~NS},
}
CONTROLS: dict[str, tuple[type[SysReg], int]] = {
    "nothing": (system.SCR_EL3, 0),
    "SCR_EL3.API": (system.SCR_EL3, 1 << 17),
    "SCR_EL3.APK": (system.SCR_EL3, 1 << 16),
    "SCR_EL3.TLOR": (system.SCR_EL3, 1 << 14),
    "SCR_EL3.ST": (system.SCR_EL3, 1 << 11),
    "HCR_EL2.API": (system.HCR_EL2, 1 << 41),
    "HCR_EL2.APK": (system.HCR_EL2, 1 << 40),
    "HCR_EL2.TID1": (system.HCR_EL2, 1 << 16),
    "HCR_EL2.TID2": (system.HCR_EL2, 1 << 17),
    "SCTLR_EL1.UCT": (system.SCTLR_EL1, 1 << 15),
    "SCTLR_EL2.UCT": (system.SCTLR_EL2, 1 << 15),
    "HCR_EL2.TLOR": (system.HCR_EL2, 1 << 35),
    "CNTKCTL_EL1.EL0PCTEN": (system.CNTKCTL_EL1, 1 << 0),
    "CNTKCTL_EL1.EL0VCTEN": (system.CNTKCTL_EL1, 1 << 1),
    "CNTKCTL_EL1.EL0VTEN": (system.CNTKCTL_EL1, 1 << 8),
    "CNTKCTL_EL1.EL0PTEN": (system.CNTKCTL_EL1, 1 << 9),
    "CNTHCTL_EL2[0]": (system.CNTHCTL_EL2, 1 << 0),
    "CNTHCTL_EL2[1]": (system.CNTHCTL_EL2, 1 << 1),
    "CNTHCTL_EL2.EL0VTEN": (system.CNTHCTL_EL2, 1 << 8),
    "CNTHCTL_EL2.EL1PCTEN": (system.CNTHCTL_EL2, 1 << 10),
    "CNTHCTL_EL2.EL1PTEN": (system.CNTHCTL_EL2, 1 << 11),
    "CNTHCTL_EL2.EL1TVT": (system.CNTHCTL_EL2, 1 << 13),
    "CNTHCTL_EL2.EL1TVCT": (system.CNTHCTL_EL2, 1 << 14),
    "MDCR_EL2.TDA": (system.MDCR_EL2, 1 << 9),
    "MDCR_EL2.TDE": (system.MDCR_EL2, 1 << 8),
    "MDCR_EL2.TDCC": (system.MDCR_EL2, 1 << 27),
    "MDCR_EL2.TDOSA": (system.MDCR_EL2, 1 << 10),
    "MDCR_EL2.TDRA": (system.MDCR_EL2, 1 << 11),
    "MDCR_EL3.TDOSA": (system.MDCR_EL3, 1 << 10),
    "MDCR_EL3.TDA": (system.MDCR_EL3, 1 << 9),
    "MDCR_EL3.TDCC": (system.MDCR_EL3, 1 << 27),
    "CPACR_EL1.FPEN": (system.CPACR_EL1, 3 << 20),
    "CPACR_EL1.FPEN[1]": (system.CPACR_EL1, 1 << 21),
    "CPACR_EL1.ZEN": (system.CPACR_EL1, 3 << 16),
    "CPACR_EL1.ZEN[1]": (system.CPACR_EL1, 1 << 17),
    "CPTR_EL2.TCPAC": (system.CPTR_EL2, 1 << 31),
    "CPTR_EL2.TFP": (system.CPTR_EL2, 1 << 10),
    "CPTR_EL2.TZ": (system.CPTR_EL2, 1 << 8),
    "CPTR_EL2.FPEN": (system.CPTR_EL2, 3 << 20),
    "CPTR_EL2.FPEN[1]": (system.CPTR_EL2, 1 << 21),
    "CPTR_EL2.ZEN": (system.CPTR_EL2, 3 << 16),
    "CPTR_EL2.ZEN[1]": (system.CPTR_EL2, 1 << 17),
    "CPTR_EL3.TCPAC": (system.CPTR_EL3, 1 << 31),
    "CPTR_EL3.TFP": (system.CPTR_EL3, 1 << 10),
    "CPTR_EL3.EZ": (system.CPTR_EL3, 1 << 8),
}
"""Bits that are the other way round than in the base state."""
ONE_OF_MANY = {"APIAKeyLo_EL1", "APGAKeyHi_EL1", "LORC_EL1", "LORSA_EL1"}
OF_AARCH32 = (ID_PFR0_EL1, ID_MMFR5_EL1, MVFR2_EL1)
OF_DEBUG = {
    *("DBGBCR0_EL1", "DBGWVR3_EL1", "MDSCR_EL1", "MDCCINT_EL1", "MDRAR_EL1", "OSLAR_EL1"),
    *("OSLSR_EL1", "OSDLR_EL1", "DBGPRCR_EL1", "DBGCLAIMSET_EL1", "MDCCSR_EL0", "DBGDTRTX_EL0"),
}
ACCESSORS = (
    *(a for a in KERNEL_ACCESSORS if a.name[:2] not in ("AP", "LO") or a.name in ONE_OF_MANY),
    *(a for a in TIMER_ACCESSORS if a.encoding.op1 != 4),
    *(a for a in STEERING_ACCESSORS if a.register is system.MDCR_EL2),
    *(a for a in DEBUG_ACCESSORS if a.name in OF_DEBUG),
    *CACHE_ACCESSORS,
    *(
        a
        for a in IDENTITY_ACCESSORS
        if a.register not in AARCH32_ID_REGISTERS or a.register in OF_AARCH32
    ),
)
OPERATIONS = {
    "FADD D0, D1, D2": (0x1E62_2820, fp_access_trap),
    "ADD Z0.S, Z0.S, Z1.S": (0x04A1_0000, sve_access_trap),
    "RDVL X0, #1": (0x04BF_5020, sve_access_trap),
    "PACIA X1, X2": (0xDAC1_0041, pointer_authentication_trap),
    "PACGA X1, X2, X3": (0x9AC3_3041, pointer_authentication_trap),
}


class Machine:
    """A board whose PE is put to an operation at an Exception level, one at a time."""

    def __init__(self, core: str, runner: type[Runner]) -> None:
        # rules of access are compared here: what a core lacks is another matter
        profile = replace(load_core(core), strict=False)
        self.board: Board = board_at([a.b(0)], runner=runner, core=profile)
        for address in VECTORS.values():
            self.board.memory.fill(address, a.code([a.b(0)] * 512))

    def prepare(self, state: dict[type[SysReg], int]) -> None:
        registers = self.board.cpu.registers
        for register in registers:
            if register.__name__.startswith(("HFG", "HDFG")):
                registers.set_raw(register, 0)
        for register, value in state.items():
            registers.set_raw(register, value)
        for el, register in VBAR.items():
            registers.set_raw(register, VECTORS[el])

    def outcome(self, el: int, word: int) -> tuple[int, int] | None:
        """The target and class of the exception that an operation takes, None for none."""
        board, cpu = self.board, self.board.cpu
        board.memory.fill(CODE, a.code([word, a.b(0)]))
        board.pes[0].resync()
        cpu.set_pstate(0x3C0 | el << 2 | bool(el))
        cpu.pc = CODE
        board.pes[0].resync()
        assert board.run(1) is Ending.LIMIT
        if cpu.pc == CODE + 4:
            return None
        (target,) = (t for t, vector in VECTORS.items() if vector <= cpu.pc < vector + 0x800)
        return target, cpu.registers.raw(ESR[target]) >> 26

    def expected(self, el: int, accessor: Accessor, read: bool) -> tuple[int, int] | None:
        pe = PEAt(self.board.cpu, el)
        verdict = access(pe, accessor, read=read)
        if isinstance(verdict, Undefined):
            return default_target(pe), UNDEFINED.ec
        if isinstance(verdict, SystemAccessTrap):
            return verdict.target_el, verdict.ec
        assert isinstance(verdict, Allowed)
        return None


def levels_of(state: dict[type[SysReg], int]) -> list[int]:
    """The Exception levels that software can be at."""
    hcr, secure = state[system.HCR_EL2], not state[system.SCR_EL3] & NS
    return [
        el
        for el in range(4)
        if (el, secure) != (2, True) and not (el == 1 and hcr & TGE and not secure)
    ]


def states() -> list[tuple[str, dict[type[SysReg], int]]]:
    found = []
    for name, base in STATES.items():
        for control, (register, bits) in CONTROLS.items():
            found.append((f"{name}, {control}", {**base, register: base[register] ^ bits}))
    return found


def mismatches(core: str, runner: type[Runner], every: int = 1) -> list[str]:
    machine = Machine(core, runner)
    has_sve = Feature.FEAT_SVE in load_core(core).features
    found = []
    for name, state in states()[::every]:
        machine.prepare(state)
        for el in levels_of(state):
            pe = PEAt(machine.board.cpu, el)
            for what, (word, rule) in OPERATIONS.items():
                routed = rule(pe)
                expected = None if routed is None else (routed.target_el, routed.syndrome.ec)
                if rule is sve_access_trap and not has_sve:
                    expected = default_target(pe), UNDEFINED.ec
                machine.prepare(state)
                got = machine.outcome(el, word)
                if got != expected:
                    found.append(f"{name}: {what} at EL{el}: {got}, not {expected}")
            for accessor in ACCESSORS:
                if accessor.name.startswith("ZCR") and not has_sve:
                    continue
                for read in (True, False):
                    if (accessor.read if read else accessor.write) is None:
                        continue
                    op = astuple(accessor.encoding)
                    machine.prepare(state)
                    expected = machine.expected(el, accessor, read)
                    got = machine.outcome(el, a.mrs(1, op) if read else a.msr(op, 2))
                    if got != expected:
                        what = f"{'MRS' if read else 'MSR'} {accessor.name}"
                        found.append(f"{name}: {what} at EL{el}: {got}, not {expected}")
    return found


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("core", "runner", "every"),
    [
        ("max", Runner, 23),
        ("neoverse-n1", Runner, 37),
        ("generic", ReferenceRunner, 31),
        pytest.param("max", Runner, 1, marks=pytest.mark.slow),
        pytest.param("max", ReferenceRunner, 2, marks=pytest.mark.slow),
        pytest.param("neoverse-n1", Runner, 1, marks=pytest.mark.slow),
    ],
)
def test_every_trap_is_taken_where_our_rules_say(
    core: str, runner: type[Runner], every: int
) -> None:
    assert mismatches(core, runner, every) == []
