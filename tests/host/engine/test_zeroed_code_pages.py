"""DC ZVA into pages that hold code which the engine has translated: no operation is lost.

The engine then stores byte by byte and drops translations, maybe that of the block in which the
DC ZVA is. What must have been executed is written down here by hand.
"""

from __future__ import annotations

from dataclasses import astuple
from itertools import chain, cycle, islice

import pytest

from spe_unicorn.arch.registers import system
from spe_unicorn.host.run.reference import ReferenceRunner
from spe_unicorn.host.run.runner import Runner
from tests.support import a64 as a
from tests.support.machine_runs import Machine, image_of
from tests.support.random_runs import Trace

CODE, FUNCTION, VECTORS = 0x4000_0000, 0x4000_1000, 0x4001_0000
HANDLER = VECTORS + 0x200
OPERATIONS = 150
RUNNERS = pytest.mark.parametrize("runner", [Runner, ReferenceRunner])


@pytest.mark.sweep(first=True)
@RUNNERS
@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("period", [1, 3, 1000])
@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("cleared", [CODE + 0x800, FUNCTION + 0x800, FUNCTION + 0xFC0])
@pytest.mark.parametrize("called", ["function", "undefined"])
def test_each_operation_of_a_loop_that_clears_counts_once(
    runner: type[Runner], traced: bool, period: int, before: int, cleared: int, called: str
) -> None:
    start = [
        *(*a.mov64(2, cleared), *a.mov64(5, FUNCTION), *a.mov64(9, VECTORS)),
        a.msr(astuple(system.VBAR_EL1.encoding), 9),
    ]
    loop = [*[a.add_imm(1, 1, 1)] * before, a.blr(5), a.add_imm(4, 4, 1), a.dc_zva(2)]
    loop += [a.add_imm(3, 3, 1), a.b(-4 * (len(loop) + 1))]
    program = [*start, *loop]
    function = [a.add_imm(6, 6, 1), a.RET] if called == "function" else [a.udf(0)]
    handler = [a.msr(astuple(system.ELR_EL1.encoding), 30), a.ERET]
    image = image_of(
        {CODE: a.code(program), FUNCTION: a.code(function), HANDLER: a.code(handler)}, CODE
    )
    places = [CODE + 4 * n for n in range(len(program))]
    call = len(start) + before
    inside = [FUNCTION + 4 * n for n in range(len(function))]
    if called == "undefined":
        inside += [HANDLER, HANDLER + 4]
    round_ = [*places[len(start) : call + 1], *inside, *places[call + 1 :]]
    expected = list(islice(chain(places[: len(start)], cycle(round_)), OPERATIONS))

    machine = Machine(image, runner=runner, period=period, ram=16 << 20)
    trace = Trace(machine) if traced else None  # its hooks change how the engine stores
    machine.run(OPERATIONS)
    if trace is not None:
        assert trace.pcs == expected
    engine = machine.board.cpu.engine
    assert engine.x(3) == expected.count(places[-2])
    assert engine.x(4) == expected.count(places[call + 1])
    assert engine.x(6) == (expected.count(FUNCTION) if called == "function" else 0)
    assert [operation.pc for operation in machine.operations] == expected[period - 1 :: period]


@RUNNERS
@pytest.mark.parametrize("function", [CODE + 0x100, FUNCTION])
def test_cleared_function_is_undefined_when_it_is_called_again(
    runner: type[Runner], function: int
) -> None:
    start = [
        *a.mov64(5, function),
        *a.mov64(9, VECTORS),
        a.msr(astuple(system.VBAR_EL1.encoding), 9),
    ]
    clear = [a.dc_zva(5), a.sys(3, 7, 5, 1, 5), a.DSB_SY, a.ISB]  # IC IVAU, X5
    program = [*start, a.blr(5), *clear, a.blr(5), a.b(0)]
    image = image_of(
        {
            CODE: a.code(program),
            function: a.code([a.add_imm(6, 6, 1), a.RET]),
            HANDLER: a.code([a.b(0)]),
        },
        CODE,
    )
    machine = Machine(image, runner=runner, period=1, ram=16 << 20)
    machine.run(len(program) + 3)
    places = [CODE + 4 * n for n in range(len(program) - 1)]
    expected = [
        *(*places[: len(start) + 1], function, function + 4),
        *(*places[len(start) + 1 :], function, HANDLER),
    ]
    assert [operation.pc for operation in machine.operations] == expected
    assert machine.operations[-2].exception
    assert machine.board.cpu.engine.x(6) == 1
