"""Reverse debugging: stops of all kinds are come to forwards and backwards, in any mix.

Of a random program it is worked out which operations are hits, from the operations themselves, one
step at a time with no stop set. The way back and the way forwards stop at those. A shipped program,
with its interrupts and buffers, stops forwards and backwards at the same places.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from random import Random

from attack import AttackError

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from spe_unicorn.host.engine.engine import SP
from spe_unicorn.machine.shipped import shipped_firmware
from tests.support import a64
from tests.support.elf_builder import RAM
from tests.support.gdb import (
    Client,
    ask_past_text,
    back_to_last_stop,
    on_to_next_stop,
    with_client,
)
from tests.support.small_programs import program

CELLS, VECTORS = RAM + 0x2000, RAM + 0x800
CPACR_EL1, VBAR_EL1 = (3, 0, 1, 0, 2), (3, 0, 12, 0, 0)
FPEN = 3 << 20
SYSTEM = {
    "TPIDR_EL1": (3, 0, 13, 0, 4),
    "TPIDR_EL0": (3, 3, 13, 0, 2),
    "CONTEXTIDR_EL1": (3, 0, 13, 0, 1),
    "TTBR0_EL1": (3, 0, 2, 0, 0),
    "NZCV": (3, 3, 4, 2, 0),
    "DAIF": (3, 3, 4, 2, 1),
    "ICC_PMR_EL1": (3, 0, 4, 6, 0),
    "PMSICR_EL1": (3, 0, 9, 9, 2),
    "PMUSERENR_EL0": (3, 3, 9, 14, 0),
}
READ, WRITTEN = {3, 4}, {2, 4}
"""GDB's kinds of watchpoints that loads, and stores, stop at."""
RETURN = VECTORS + 0x200
ERET = 0xD69F_03E0
MOST_STEPS = 90
SHIPPED = ("spe_irq_el1", "spe_full", "spe_exc", "exceptions", "priv_timer", "pmu_overflow")
EVENTS = ("irq", "exception", "buffer-full")
OF_SHIPPED = ("PMBPTR_EL1", "PMBSR_EL1", "PMSCR_EL1", "DAIF", "ELR_EL1", "ICC_IAR1_EL1")
MOST_STOPS = 12
FARTHEST = 50_000
"""Operations of a shipped program between the first place and the last."""


def attack(random: Random, folder: Path) -> int:
    """One session; how many stops were found."""
    kept = travelling._FIRST_SPACING, travelling._FOR_A_PAGE
    shipped = random.random() < 0.25
    nearest, farthest = (200, FARTHEST // 4) if shipped else (1, 40)
    travelling._FIRST_SPACING, travelling._FOR_A_PAGE = random.randrange(nearest, farthest), 0
    try:
        return _shipped(random) if shipped else _session(random, folder)
    finally:
        travelling._FIRST_SPACING, travelling._FOR_A_PAGE = kept


class _Program:
    """A loop of random operations, and of each what it does, by its address."""

    def __init__(self, random: Random) -> None:
        before = [*a64.mov64(1, CELLS), *a64.mov64(2, VECTORS), a64.msr(VBAR_EL1, 2)]
        before += [*a64.mov64(2, FPEN), a64.msr(CPACR_EL1, 2)]
        self.accesses: dict[int, tuple[bool, bool, set[int]]] = {}
        """Whether it loads, whether it stores, and in which cells."""
        self.system: dict[int, tuple[str, str]] = {}
        """The register, and ``r`` or ``w``."""
        self.calls: set[int] = set()
        code = list(before)
        for _ in range(random.randrange(3, 16)):
            code.append(self._operation(random, RAM + 4 * len(code)))
        code.append(a64.b(-4 * (len(code) - len(before))))
        self.addresses = [RAM + 4 * n for n in range(len(before), len(code))] + [RETURN]
        self.code = a64.code(code).ljust(RETURN - RAM, b"\0") + a64.code([ERET])

    def _operation(self, random: Random, at: int) -> int:
        what = random.choice(("add", "add", "memory", "memory", "system", "system", "svc"))
        if what == "add":
            return a64.add_imm(0, 0, random.randrange(1, 9))
        if what == "svc":
            self.calls.add(at)
            return a64.svc(0)
        if what == "system":
            name, how = random.choice(list(SYSTEM)), random.choice("rw")
            self.system[at] = name, how
            return a64.msr(SYSTEM[name], 0) if how == "w" else a64.mrs(4, SYSTEM[name])
        cell = random.randrange(4)
        loads, stores, span, word = random.choice(
            (
                (True, False, 1, a64.ldr(3, 1, 8 * cell)),
                (False, True, 1, a64.str_(0, 1, 8 * cell)),
                (True, False, 2, a64.ldr_q(3, 1, 16 * (cell // 2))),
                (False, True, 2, a64.str_q(3, 1, 16 * (cell // 2))),
                (True, True, 1, a64.ldadd(0, 3, 1)),
            )
        )
        first = 0 if loads and stores else cell // span * span
        self.accesses[at] = loads, stores, set(range(first, first + span))
        return word


class _Stops:
    """Random stops: their packets, and where they stop."""

    def __init__(self, random: Random, made: _Program) -> None:
        self._made = made
        self.places = set(
            random.sample(made.addresses, random.randrange(min(4, len(made.addresses))))
        )
        cells = random.sample(range(4), random.randrange(3))
        self._watched = {cell: random.choice((2, 3, 4)) for cell in cells}
        names = random.sample(list(SYSTEM), random.randrange(5))
        self._registers = {name: random.choice(("r", "w", "rw")) for name in names}
        self._exceptions = random.random() < 0.4
        self.packets = [f"Z{random.randrange(2)},{at:x},4" for at in sorted(self.places)]
        self.packets += [f"Z{kind},{CELLS + 8 * c:x},8" for c, kind in self._watched.items()]
        self.packets += [monitor(f"break-sysreg {n} {how}") for n, how in self._registers.items()]
        if self._exceptions:
            self.packets.append(monitor("break-event exception"))
        random.shuffle(self.packets)

    def before(self, pc: int) -> bool:
        """Whether the machine stops before the operation at a place."""
        loads, stores, cells = self._made.accesses.get(pc, (False, False, set()))
        kinds = {self._watched[cell] for cell in cells & self._watched.keys()}
        watched = (loads and kinds & READ) or (stores and kinds & WRITTEN)
        return pc in self.places or bool(watched)

    def after(self, pc: int) -> bool:
        """Whether the machine stops after the operation at a place."""
        name, how = self._made.system.get(pc, ("", "-"))
        return how in self._registers.get(name, "") or (pc in self._made.calls and self._exceptions)


def monitor(command: str) -> str:
    """The packet of a command of the monitor."""
    return f"qRcmd,{command.encode().hex()}"


def _set(client: Client, packets: list[str]) -> None:
    for packet in packets:
        if ask_past_text(client, packet) != b"OK":
            raise AttackError(f"{packet} was refused")


def _all_back(client: Client, machine: Machine, most: int) -> list[int]:
    """The stops on the way to the beginning."""
    found: list[int] = []
    while (position := back_to_last_stop(client, machine)) is not None:
        found.append(position)
        if len(found) > most:
            raise AttackError(f"the way back has no end: {found[-9:]}")
    return found


def _session(random: Random, folder: Path) -> int:
    made = _Program(random)
    stops = _Stops(random, made)
    machine = Machine(program(folder, made.code), el=1)
    steps = random.randrange(8, MOST_STEPS)
    writes = set(random.sample(range(1, steps), random.randrange(4)))
    pcs: list[int] = []
    back: list[int] = []
    on: list[int] = []

    def talk(connect) -> None:
        client = connect()
        for number in range(steps):
            if number in writes:
                _write(random, client)
            pcs.append(machine.pes[0].pc)
            ask_past_text(client, "vCont;s:1")
            if machine.operations != number + 1:
                raise AttackError(f"step {number + 1} led to operation {machine.operations}")
        _set(client, stops.packets)
        if random.random() < 0.3:
            _write(random, client)
        back.extend(_all_back(client, machine, 2 * steps))
        if machine.operations != 0:
            raise AttackError(f"the beginning is operation {machine.operations}")
        while len(set(on)) < len(back):
            on.extend(on_to_next_stop(client, machine, stops.places))

    with_client(machine, talk)
    hits = {n for n, pc in enumerate(pcs) if stops.before(pc)}
    hits |= {n + 1 for n, pc in enumerate(pcs[:-1]) if stops.after(pc)}
    expected = sorted(hits)
    passed = [at for at, _ in groupby(on) if at < steps]
    for way, found in (("back", back[::-1]), ("on", passed)):
        if found != expected:
            raise AttackError(
                f"{way} with {stops.packets} after {steps}, written at {sorted(writes)}:"
                f" {found}, not {expected}"
            )
    return len(back) + len(on) + 1


def _write(random: Random, client: Client) -> None:
    """A write of the debugger that changes no place: a register, memory, a System register."""
    value = random.getrandbits(64).to_bytes(8, "little").hex()
    packet = random.choice(
        (
            *(f"P0={value}", f"M{CELLS + 8 * random.randrange(4):x},8:{value}"),
            monitor(f"set CONTEXTIDR_EL1 {random.getrandbits(32):#x}"),
        )
    )
    _set(client, [packet])


def _shipped(random: Random) -> int:
    """Forwards from a place of a shipped program, and back over the same stops."""
    name = random.choice(SHIPPED)
    options = {"ram": 16 << 20}
    length = Machine(shipped_firmware(name), **options)
    length.run()
    end = length.operations
    first = random.randrange(end * 3 // 4)
    last = min(first + FARTHEST, end - 1)
    places, stacks = _places(random, Machine(shipped_firmware(name), **options), first, last)
    packets = [f"Z{random.randrange(2)},{at:x},4" for at in sorted(places)]
    packets += [f"Z{random.choice((2, 3, 4))},{at:x},8" for at in sorted(stacks)]
    for event in EVENTS:
        if random.random() < 0.5 and (event != "buffer-full" or name.startswith("spe")):
            packets.append(monitor(f"break-event {event}"))
    for register in random.sample(OF_SHIPPED, random.randrange(4)):
        packets.append(monitor(f"break-sysreg {register} {random.choice(('r', 'w', 'rw'))}"))
    machine = Machine(shipped_firmware(name), **options)
    machine.run(operations=first)
    on: list[int] = []
    back: list[int] = []

    def talk(connect) -> None:
        client = connect()
        _set(client, packets)
        while len(set(on)) < MOST_STOPS and machine.operations < last:
            on.extend(on_to_next_stop(client, machine, places))
        back.extend(_all_back(client, machine, MOST_STOPS + 2))
        if machine.operations != first:
            raise AttackError(f"the beginning is operation {machine.operations}, not {first}")

    with_client(machine, talk, operations=last - first)
    passed = on[-1] if on[-1] < last else last
    expected = sorted({at for at in on if at < passed} - {first}, reverse=True)
    found = [at for at in back if at < passed and at != first]
    if found != expected:
        raise AttackError(f"{name} from {first} with {packets}: back {found}, on {on}")
    return len(on) + len(back)


def _places(random: Random, machine: Machine, first: int, last: int) -> tuple[set[int], set[int]]:
    """Some addresses that are executed on the way, and stack pointers there."""
    places, stacks = set(), set()
    for at in sorted(random.sample(range(first, last), 4)):
        machine.run(operations=at - machine.operations)
        pe = machine.pes[0]
        if random.random() < 0.5:
            places.add(pe.pc)
        elif random.random() < 0.5:
            stacks.add(machine.board.cpu.engine.get(SP) & ~7)
    return places, stacks
