"""The state of an attachment, saved beside the engine's context and put back."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from unicorn import Uc
from unicorn import arm64_const as regs

import spe_unicorn
from spe_unicorn.arch.registers import pmu as r
from spe_unicorn.host.engine.context import restore_context, save_context
from spe_unicorn.plugin.attach import AttachError, Attachment, DetachedError
from spe_unicorn.pmu.events import PMUEvent as E
from spe_unicorn.spe.filter import Flag
from tests.support import a64 as a
from tests.support.counters import counters, get
from tests.support.user_engine import CODE, MAX, SIZE, collect, end, engine, guest

ROUNDS = 400
WORDS = guest(ROUNDS)
UNTIL = end(WORDS) - 4


class Moment:
    """What a user keeps of one moment: context, memory, and SPE's state as text."""

    def __init__(self, uc: Uc, spe: Attachment) -> None:
        self.context = save_context(uc)
        self.memory = bytes(uc.mem_read(CODE, SIZE))
        self.state = json.dumps(spe.save())

    def restore(self, uc: Uc, spe: Attachment) -> None:
        restore_context(uc, self.context)
        uc.mem_write(CODE, self.memory)
        spe.restore(json.loads(self.state))


def pc(uc: Uc) -> int:
    return int(uc.reg_read(regs.UC_ARM64_REG_PC))


def rest(uc: Uc, spe: Attachment) -> tuple[Any, ...]:
    """Run to the end; all that can be seen of it."""
    records = collect(spe)
    spe.emu_start(pc(uc), UNTIL)
    registers = [uc.reg_read(regs.UC_ARM64_REG_X0 + n) for n in range(29)]
    memory = bytes(uc.mem_read(CODE, SIZE))
    return list(records), registers, memory, deepcopy(spe.statistics), dict(spe.events.counts)


def nothing(spe: Attachment) -> None:
    """The guest programs SPE itself."""


def from_outside(spe: Attachment) -> None:
    spe.program(97, types=[Flag.LD, Flag.B], min_latency=1)


@pytest.mark.parametrize("sampled", [nothing, from_outside])
@pytest.mark.parametrize(
    "options", [{}, {"model": "cache", "core": "neoverse-v2"}, {"core": "max"}]
)
def test_a_run_goes_on_from_there_here_and_on_another_engine(
    sampled: Callable[[Attachment], None], options: dict[str, Any]
) -> None:
    uc = engine(WORDS, MAX)
    spe = spe_unicorn.attach(uc, **options)
    sampled(spe)
    spe.emu_start(CODE, UNTIL, count=1234)
    moment = Moment(uc, spe)
    first = rest(uc, spe)
    assert len(first[0]) > 5
    moment.restore(uc, spe)
    assert rest(uc, spe) == first
    other = engine(WORDS, MAX)
    elsewhere = spe_unicorn.attach(other, seed=5, **options)  # whose streams go on as the other's
    elsewhere.emu_start(CODE, UNTIL, count=77)
    moment.restore(other, elsewhere)
    assert rest(other, elsewhere) == first


def test_saving_changes_nothing() -> None:
    plain, uc = engine(WORDS), engine(WORDS)
    there, spe = spe_unicorn.attach(plain), spe_unicorn.attach(uc)
    for one in (plain, uc):
        one.reg_write(regs.UC_ARM64_REG_PC, CODE)
    expected = rest(plain, there)
    records = collect(spe)
    for count in (1, 50, 333, 1000):
        spe.emu_start(pc(uc), UNTIL, count=count)
        spe.save()
    spe.emu_start(pc(uc), UNTIL)
    assert records == expected[0]
    assert spe.statistics == expected[3]


def test_sampling_from_outside_ends_where_it_had_not_begun_and_begins_where_it_had() -> None:
    uc = engine(WORDS)
    spe = spe_unicorn.attach(uc)
    spe.emu_start(CODE, UNTIL, count=1000)
    before = Moment(uc, spe)
    spe.program(50)
    spe.emu_start(pc(uc), UNTIL, count=500)
    programmed = Moment(uc, spe)
    sampled = rest(uc, spe)
    before.restore(uc, spe)
    own = rest(uc, spe)
    assert own[3].population != sampled[3].population
    programmed.restore(uc, spe)
    assert rest(uc, spe) == sampled
    before.restore(uc, spe)
    assert rest(uc, spe) == own


def test_counters_go_on_from_where_they_were() -> None:
    tail = [a.NOP] * 6 + [get(r.PMEVCNTRS[0], 1), get(r.PMCCNTR_EL0, 2)]
    words = [*counters(E.INST_RETIRED), *tail]
    uc = engine(words, MAX)
    with spe_unicorn.attach(uc, "max") as spe:
        spe.emu_start(CODE, end(words) - 4 * len(tail))
        moment = Moment(uc, spe)
        seen = []
        for count in (3, 6, 1):  # operations that are undone, as counts of them are
            spe.emu_start(pc(uc), end(words), count=count)
            moment.restore(uc, spe)
            spe.emu_start(pc(uc), end(words))
            seen.append([uc.reg_read(regs.UC_ARM64_REG_X0 + n) for n in (1, 2)])
            moment.restore(uc, spe)
        assert seen[0] == seen[1] == seen[2]
        uc.emu_start(pc(uc), end(words) - 8)  # a run of the user's: six NOPs that are not counted
        spe.emu_start(pc(uc), end(words))
        assert uc.reg_read(regs.UC_ARM64_REG_X1) == seen[0][0] - 6


def test_a_run_of_the_users_between_save_and_restore_leaves_no_trace() -> None:
    uc = engine(WORDS)
    spe = spe_unicorn.attach(uc)
    spe.emu_start(CODE, UNTIL, count=1000)
    moment = Moment(uc, spe)
    expected = rest(uc, spe)
    moment.restore(uc, spe)
    uc.emu_start(pc(uc), UNTIL)
    moment.restore(uc, spe)
    assert rest(uc, spe) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda state: state.update(version=2), "is what save"),
        (lambda state: state["identity"].__setitem__(0, ["core", "max"]), "another attachment"),
        (lambda state: state.pop("hooks"), "is damaged"),
        (lambda state: state["hooks"].update(executed="x"), "is damaged"),
        (lambda state: state.update(parts={}), "is damaged, or of another release"),
        (lambda state: state.update(program=[1]), "is damaged"),
        (lambda state: state.update(program={"interval": 50, "types": [], "min_latency": 0}), "is"),
    ],
)
def test_what_is_no_state_of_ours_is_refused_and_nothing_changes(
    change: Callable[[dict[str, Any]], object], said: str
) -> None:
    uc = engine(WORDS)
    spe = spe_unicorn.attach(uc)
    spe.emu_start(CODE, UNTIL, count=1234)
    before = spe.save()
    state = json.loads(json.dumps(before))
    change(state)
    with pytest.raises(AttachError, match=said):
        spe.restore(state)
    assert spe.save() == before


def test_what_is_no_dictionary_is_refused() -> None:
    with pytest.raises(AttachError, match="is what save"):
        spe_unicorn.attach(engine(WORDS)).restore([])  # type: ignore[arg-type]


def test_within_a_run_and_after_detaching_nothing_is_saved() -> None:
    uc = engine(WORDS)
    spe = spe_unicorn.attach(uc)
    raised: list[str] = []

    def save(*_: object) -> None:
        for act in (spe.save, lambda: spe.restore({})):
            with pytest.raises(RuntimeError, match="emu_start is running") as error:
                act()
            raised.append(str(error.value))

    spe.on_record(save)
    spe.emu_start(CODE, UNTIL)
    assert raised
    spe.detach()
    with pytest.raises(DetachedError):
        spe.save()
