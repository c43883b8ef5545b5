"""Reverse debugging: stops of all kinds, listed by single steps, are found backwards in that order.

The program, the stops and what the debugger writes are random. Which operations are hits is worked
out from the operations themselves, one step at a time; no stop is set meanwhile.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

from attack import AttackError

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import Client, with_client
from tests.support.small_programs import program

CELLS, VECTORS = RAM + 0x2000, RAM + 0x800
VBAR_EL1 = (3, 0, 12, 0, 0)
SYSTEM = {
    "TPIDR_EL1": (3, 0, 13, 0, 4),
    "TPIDR_EL0": (3, 3, 13, 0, 2),
    "CONTEXTIDR_EL1": (3, 0, 13, 0, 1),
}
RETURN = VECTORS + 0x200
ERET = 0xD69F_03E0
MOST_STEPS = 90


def attack(random: Random, folder: Path) -> int:
    """One session; how many stops were found."""
    kept = travelling._FIRST_SPACING, travelling._FOR_A_PAGE
    travelling._FIRST_SPACING, travelling._FOR_A_PAGE = random.randrange(1, 40), 0
    try:
        return _session(random, folder)
    finally:
        travelling._FIRST_SPACING, travelling._FOR_A_PAGE = kept


class _Program:
    """A loop of random operations, and of each what it does, by its address."""

    def __init__(self, random: Random) -> None:
        before = [*a64.mov64(1, CELLS), *a64.mov64(2, VECTORS), a64.msr(VBAR_EL1, 2)]
        self.does: dict[int, tuple[str, int | str]] = {}
        code = list(before)
        for _ in range(random.randrange(3, 16)):
            self._add(random, code)
        code.append(a64.b(-4 * (len(code) - len(before))))
        self.addresses = [RAM + 4 * n for n in range(len(before), len(code))] + [RETURN]
        self.code = a64.code(code).ljust(RETURN - RAM, b"\0") + a64.code([ERET])

    def _add(self, random: Random, code: list[int]) -> None:
        at = RAM + 4 * len(code)
        what = random.choice(("add", "add", "load", "store", "msr", "mrs", "svc"))
        cell = random.randrange(4)
        name = random.choice(list(SYSTEM))
        if what == "add":
            code.append(a64.add_imm(0, 0, random.randrange(1, 9)))
            return
        self.does[at] = what, name if what in ("msr", "mrs") else cell
        code.append(
            {
                "load": a64.ldr(3, 1, 8 * cell),
                "store": a64.str_(0, 1, 8 * cell),
                "msr": a64.msr(SYSTEM[name], 0),
                "mrs": a64.mrs(4, SYSTEM[name]),
                "svc": a64.svc(0),
            }[what]
        )


class _Stops:
    """Random stops: their packets, and where they stop."""

    def __init__(self, random: Random, made: _Program) -> None:
        self.places = set(
            random.sample(made.addresses, random.randrange(min(4, len(made.addresses))))
        )
        cells = random.sample(range(4), random.randrange(3))
        self.watched = {cell: random.choice((2, 3, 4)) for cell in cells}
        names = random.sample(list(SYSTEM), random.randrange(3))
        self.registers = {name: random.choice(("r", "w", "rw")) for name in names}
        self.exceptions = random.random() < 0.4
        self.packets = [f"Z{random.randrange(2)},{at:x},4" for at in sorted(self.places)]
        self.packets += [f"Z{kind},{CELLS + 8 * c:x},8" for c, kind in self.watched.items()]
        self.packets += [monitor(f"break-sysreg {n} {how}") for n, how in self.registers.items()]
        if self.exceptions:
            self.packets.append(monitor("break-event exception"))

    def before(self, made: _Program, pc: int) -> bool:
        """Whether the machine stops before the operation at a place."""
        what, which = made.does.get(pc, ("", 0))
        kind = self.watched.get(which, 0) if isinstance(which, int) else 0
        watched = (what == "load" and kind in (3, 4)) or (what == "store" and kind in (2, 4))
        return pc in self.places or watched

    def after(self, made: _Program, pc: int) -> bool:
        """Whether the machine stops after the operation at a place."""
        what, which = made.does.get(pc, ("", 0))
        how = self.registers.get(which, "") if isinstance(which, str) else ""
        return (
            (what == "mrs" and "r" in how)
            or (what == "msr" and "w" in how)
            or (what == "svc" and self.exceptions)
        )


def monitor(command: str) -> str:
    """The packet of a command of the monitor."""
    return f"qRcmd,{command.encode().hex()}"


def ask(client: Client, packet: str) -> bytes:
    """The answer to a packet, after the text that comes before it."""
    answer = client.ask(packet)
    while answer.startswith(b"O") and answer != b"OK":
        answer = client.answer()
    return answer


def _session(random: Random, folder: Path) -> int:
    made = _Program(random)
    stops = _Stops(random, made)
    machine = Machine(program(folder, made.code), el=1)
    steps = random.randrange(8, MOST_STEPS)
    writes = set(random.sample(range(1, steps), random.randrange(4)))
    pcs: list[int] = []
    found: list[int] = []

    def talk(connect) -> None:
        client = connect()
        for number in range(steps):
            if number in writes:
                _write(random, client)
            pcs.append(machine.pes[0].pc)
            ask(client, "vCont;s:1")
            if machine.operations != number + 1:
                raise AttackError(f"step {number + 1} led to operation {machine.operations}")
        for packet in stops.packets:
            if ask(client, packet) != b"OK":
                raise AttackError(f"{packet} was refused")
        if random.random() < 0.3:
            _write(random, client)
        for _ in range(2 * steps + 2):
            said = ask(client, "bc")
            if b"replaylog:begin" in said:
                if machine.operations != 0:
                    raise AttackError(f"the beginning is operation {machine.operations}")
                return
            if b"watch:" in said:
                ask(client, "bs")  # as GDB does
            found.append(machine.operations)
        raise AttackError(f"the way back has no end: {found[-9:]}")

    with_client(machine, talk)
    hits = {n for n, pc in enumerate(pcs) if stops.before(made, pc)}
    hits |= {n + 1 for n, pc in enumerate(pcs[:-1]) if stops.after(made, pc)}
    expected = sorted(hits, reverse=True)
    if found != expected:
        raise AttackError(f"with {stops.packets} after {steps}: {found}, not {expected}")
    return len(found) + 1


def _write(random: Random, client: Client) -> None:
    """A write of the debugger that changes no place: a register, memory, a System register."""
    value = random.getrandbits(64).to_bytes(8, "little").hex()
    packet = random.choice(
        (
            *(f"P0={value}", f"M{CELLS + 8 * random.randrange(4):x},8:{value}"),
            monitor(f"set CONTEXTIDR_EL1 {random.getrandbits(32):#x}"),
        )
    )
    if ask(client, packet) != b"OK":
        raise AttackError(f"{packet} was refused")
