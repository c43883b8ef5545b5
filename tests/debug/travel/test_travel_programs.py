"""Back in time with every shipped program: places are as they were, what follows is the same."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from spe_unicorn import Machine
from spe_unicorn.debug import travel as travelling
from spe_unicorn.debug.travel import Travel
from spe_unicorn.machine.shipped import shipped_firmware, shipped_names
from spe_unicorn.parts import encode_parts
from tests.firmware.programs import MADE_FOR, TYPED

MOST = 60_000
"""Operations of a program that are looked at."""
QUICK = frozenset({"spe_irq_el1", "pmu_exceptions", "priv_el3"})
"""Programs that are looked at each time; the others have their turns."""


def made(name: str) -> Machine:
    machine = Machine(shipped_firmware(name), **MADE_FOR.get(name, {}))
    machine.console.type(TYPED.get(name, b""))
    return machine


def state(machine: Machine) -> dict[str, object]:
    """All that is saved, but of the engines what a guest sees of them."""
    board = machine.save().board
    found: dict[str, object] = dict(encode_parts(board.parts))
    found["memory"] = board.memory.pages
    for engine, pe in zip(board.engines, machine.board.pes, strict=True):
        cpu, clock = pe.cpu, dict(engine.clock)
        if not clock["flow_was"]:
            del clock["flow_next"]  # nobody asks for it
        found[f"PE {pe.number}"] = (engine.executed, clock, cpu.pc, cpu.pstate)
        found[f"PE {pe.number}: X"] = [cpu.engine.x(n) for n in range(31)]
        for register, value in cpu.registers.save().items():
            found[f"PE {pe.number}: {register.__name__}"] = value
    return found


def told(machine: Machine) -> list[object]:
    return [machine.console.output, [pe.records.raw for pe in machine.pes]]


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in shipped_names()],
)
def test_a_place_that_was_left_is_as_it_was_and_goes_on_as_it_did(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travelling, "_FIRST_SPACING", 5_000)
    monkeypatch.setattr(travelling, "_FOR_A_PAGE", 1)
    machine = made(name)
    travel = Travel(machine.board)
    travel.run(MOST)
    end, said = travel.end, told(machine)
    chance = random.Random(crc32(name.encode()))
    places = [chance.randrange(end) for _ in range(3)]
    for at in places:
        travel.back_to(at)
        plain = made(name)
        plain.run(operations=at)
        found, expected = state(machine), state(plain)
        assert {what for what in expected if found[what] != expected[what]} == set()
    travel.run(end - travel.position)
    assert told(machine) == said
    whole = made(name)
    whole.run(operations=end)
    assert told(whole) == said
