"""The path that nearly every block takes through the block hook, as LLVM code written by hand.

A function compiled from Python saves registers that only its rare parts need, which costs two
nanoseconds a call. This code saves none: it subtracts, compares and stores. For everything else it
jumps to the hook for special blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from llvmlite import ir

from spe_unicorn.compiled import HandWritten
from spe_unicorn.compiled.machine_code import SYMBOL
from spe_unicorn.host.native.state.block_table import (
    ALIGNMENT,
    BLOCKS,
    LANES,
    LENGTH,
    NOT_IN_TABLE,
    ROW,
    SPREAD,
)
from spe_unicorn.host.native.state.whole import offset_of

_WIDE = ir.IntType(64)
_HALF = ir.IntType(32)
_POINTER = ir.IntType(8).as_pointer()
_STATE = _WIDE.as_pointer()
_FIELD_SIZE = 8


_Place = Callable[[str], ir.Value]
"""Where a field of the state is."""


def slot_by(code: ir.IRBuilder, address: ir.Value, operations: ir.Value) -> ir.Value:
    """``block_table.slot_of`` times ``1 << ALIGNMENT``, as LLVM code; a test compares them."""

    def wide(number: int) -> ir.Value:
        return ir.Constant(_WIDE, number)

    length = code.shl(operations, wide(LENGTH + ALIGNMENT))
    return code.and_(code.xor(address, length), wide(BLOCKS - 1 << ALIGNMENT))


def _seldom(branch: ir.instructions.ConditionalBranch) -> None:
    """Have the second way of a conditional branch, the usual one, be a way without a jump."""
    branch.set_weights([1, 1 << 10])


def _block_hook(weighed: bool, replaces: bool, modelled: bool) -> str:
    """The block hook, ``void f(engine, uint64_t address, uint32_t size, State *)``.

    ``weighed``: it can count a population of micro-operations beside operations. The blocks that it
    does not count by itself are for ``State.special_hook``, ``void f(engine, State *, int64_t
    address, int64_t operations)``.

    ``replaces``: blocks may come to count themselves. It tells ``State.inline_hook`` of each block
    that it has counted, and returns to where that says (``inline.replacing.on_counted_block``).
    Blocks that count themselves call it where ``State.attend`` says so, and it says anew whether
    that has to be.

    ``modelled``: a core model hears of each block first, by ``State.model_hook``, ``void f(engine,
    int64_t address, int64_t size, State.model, int64_t back)``: ``back`` is where the code goes on.
    """
    module = ir.Module("block_hook")
    kind = ir.FunctionType(ir.VoidType(), [_POINTER, _WIDE, _HALF, _STATE])
    function = ir.Function(module, kind, SYMBOL)
    engine, address, size, state = function.args
    start, enough, other, watched, weigh, weighs, known_block, tally, count, special = (
        function.append_basic_block(name)
        for name in (
            "start",
            "enough",
            "other",
            "watched",
            "weigh",
            "weighs",
            "known_block",
            "tally",
            "count",
            "special",
        )
    )
    code = ir.IRBuilder(start)
    zero = ir.Constant(_WIDE, 0)

    def place(field: str) -> ir.Value:
        return code.gep(state, [ir.Constant(_HALF, offset_of(field) // _FIELD_SIZE)])

    if modelled:
        _tell_model(module, code, function.args, place)
    _cover(code, function.args, place)
    if replaces:
        twice = code.shl(code.load(place("tally")), ir.Constant(_WIDE, 1))
        counted = code.add(twice, code.load(place("weigh")))  # inline.shared.counts
        others = code.or_(code.load(place("deliver")), code.load(place("cover_row")))
        for field in ("unattended", "steps", "allocating") if modelled else ():
            others = code.or_(others, code.load(place(field)))
        pending = code.icmp_signed("!=", others, zero)
        attend = code.select(pending, ir.Constant(_WIDE, -1), counted)
        code.store(attend, place("attend"))
    operations = code.zext(code.lshr(size, ir.Constant(_HALF, 2)), _WIDE)
    left = code.sub(code.load(place("budget")), operations)
    _seldom(code.cbranch(code.icmp_signed("<", left, zero), special, enough))

    # a run in which no block has to be looked at, and a PC that is a multiple of 4
    code.position_at_end(enough)
    odd = code.and_(address, ir.Constant(_WIDE, (1 << ALIGNMENT) - 1))
    looks = code.or_(odd, code.load(place("special")))
    _seldom(code.cbranch(code.icmp_signed("!=", looks, zero), other, count))

    # a PC that is not a multiple of 4
    code.position_at_end(other)
    _seldom(code.cbranch(code.icmp_signed("!=", odd, zero), special, watched))

    # a block that is known to be harmless, while no interrupt is pending
    code.position_at_end(watched)
    slot = slot_by(code, address, operations)

    def entry(table: str, words: int = 1) -> ir.Value:
        """Where the slot's row begins in a table whose rows have ``words`` words."""
        bytes_apart = ir.Constant(_WIDE, words * _FIELD_SIZE >> ALIGNMENT)
        start = code.inttoptr(code.load(place(table)), _POINTER)
        return code.bitcast(code.gep(start, [code.mul(slot, bytes_apart)]), _STATE)

    known = code.load(entry("quick"))
    epoch = code.mul(code.load(place("epoch")), ir.Constant(_WIDE, SPREAD))
    sought = code.xor(code.xor(address, operations), epoch)
    differs = code.xor(known, sought)
    # a block of which no more is known is harmless where nothing is added up of it
    adds = code.icmp_signed(
        "!=", code.or_(code.load(place("weigh")), code.load(place("tally"))), zero
    )
    asked = code.shl(code.zext(adds, _WIDE), ir.Constant(_WIDE, NOT_IN_TABLE))
    differs = code.and_(differs, code.or_(asked, ir.Constant(_WIDE, ~(1 << NOT_IN_TABLE))))
    differs = code.or_(differs, code.load(place("deliver")))
    harmless = weigh if weighed else known_block
    _seldom(code.cbranch(code.icmp_signed("!=", differs, zero), special, harmless))

    code.position_at_end(weigh)
    members = code.sub(code.load(place("members")), code.load(entry("weights")))
    _seldom(code.cbranch(code.icmp_signed("<", members, zero), special, weighs))

    code.position_at_end(weighs)
    code.store(members, place("members"))
    code.branch(known_block)

    code.position_at_end(known_block)
    _seldom(code.cbranch(code.icmp_signed("!=", code.load(place("tally")), zero), tally, count))

    # add up what the block holds
    code.position_at_end(tally)
    row = entry("tallies", ROW)
    for n in range(LANES // 2):
        lanes = code.load(code.gep(row, [ir.Constant(_WIDE, n)]))
        place_of = place(f"tallied{n}")
        code.store(code.add(code.load(place_of), lanes), place_of)
    falls_to = code.load(place("falls_to"))
    awaited = code.icmp_signed("!=", falls_to, zero)
    elsewhere = code.and_(awaited, code.icmp_signed("!=", falls_to, address))
    code.store(code.add(code.load(place("jumps")), code.zext(elsewhere, _WIDE)), place("jumps"))
    end = code.add(address, code.shl(operations, ir.Constant(_WIDE, 2)))
    matters = code.load(code.gep(row, [ir.Constant(_WIDE, ROW - 1)]))
    code.store(code.and_(end, matters), place("falls_to"))
    code.branch(count)

    code.position_at_end(count)
    code.store(left, place("budget"))
    code.store(address, place("block"))
    code.store(operations, place("block_operations"))
    code.store(code.load(place("cover_row")), place("covering"))
    _follow(code, function.args, place)
    if replaces:
        _replace(module, code, (engine, address, size, state), place)
    code.ret_void()

    code.position_at_end(special)
    _call(code, code.load(place("special_hook")), (engine, state, address, operations))
    _follow(code, function.args, place)
    code.ret_void()
    return str(module)


def _return_address(module: ir.Module, code: ir.IRBuilder) -> ir.Value:
    """Where the hook returns to, a pointer."""
    name = "llvm.returnaddress"
    known = module.globals.get(name)
    function = known or ir.Function(module, ir.FunctionType(_POINTER, [_HALF]), name)
    return code.call(function, [ir.Constant(_HALF, 0)])


def _tell_model(
    module: ir.Module,
    code: ir.IRBuilder,
    arguments: Sequence[ir.Value],
    place: _Place,
) -> None:
    """Call ``State.model_hook``."""
    engine, address, size, _ = arguments
    back = code.ptrtoint(_return_address(module, code), _WIDE)
    model = code.inttoptr(code.load(place("model")), _POINTER)
    told = engine, address, code.zext(size, _WIDE), model, back
    _call(code, code.load(place("model_hook")), told)


def _cover(code: ir.IRBuilder, arguments: Sequence[ir.Value], place: _Place) -> None:
    """Call ``State.cover_hook``, where coverage is wanted, or calls are followed."""
    engine, address, size, state = arguments
    with _if_wanted(code, "cover_hook", place) as hook:
        _call(code, hook, (engine, address, code.zext(size, _WIDE), state))


def _follow(code: ir.IRBuilder, arguments: Sequence[ir.Value], place: _Place) -> None:
    """Call ``State.flow_hook``, where the last branch is kept."""
    with _if_wanted(code, "flow_hook", place) as hook:
        _call(code, hook, arguments)


@contextmanager
def _if_wanted(code: ir.IRBuilder, field: str, place: _Place) -> Iterator[ir.Value]:
    """What is done where a field of the state, which is seldom there, has a function's address."""
    wanted = code.load(place(field))
    with code.if_then(code.icmp_signed("!=", wanted, ir.Constant(_WIDE, 0)), likely=False):
        yield wanted


def _call(code: ir.IRBuilder, hook: ir.Value, arguments: Sequence[ir.Value]) -> None:
    """Call the function at an address, which returns nothing."""
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments]).as_pointer()
    code.call(code.inttoptr(hook, kind), arguments)


def _replace(
    module: ir.Module,
    code: ir.IRBuilder,
    arguments: Sequence[ir.Value],
    place: _Place,
) -> None:
    """Ask ``State.inline_hook`` where to return to, while there is inline counting."""
    engine, address, size, state = arguments
    back = _return_address(module, code)
    asked = ir.FunctionType(_WIDE, [_POINTER, _WIDE, _WIDE, _STATE, _WIDE]).as_pointer()
    zero = ir.Constant(_WIDE, 0)
    with code.if_then(code.icmp_signed("!=", code.load(place("inline")), zero)):
        hook = code.inttoptr(code.load(place("inline_hook")), asked)
        wide = code.zext(size, _WIDE)
        back = code.ptrtoint(back, _WIDE)
        other = code.call(hook, [engine, address, wide, state, back])
        with code.if_then(code.icmp_signed("!=", other, zero)):
            slot = module.declare_intrinsic(
                "llvm.addressofreturnaddress", [_POINTER], ir.FunctionType(_POINTER, [])
            )
            code.store(other, code.bitcast(code.call(slot, []), _STATE))


def _hooks(
    suffix: str, *, replaces: bool = False, modelled: bool = False
) -> tuple[HandWritten, HandWritten]:
    """The block hook, and the one that can count micro-operations."""
    plain, weighing = (
        HandWritten(f"{__name__}.{name}{suffix}", _block_hook, weighed, replaces, modelled)
        for name, weighed in (("block_hook", False), ("weighing_block_hook", True))
    )
    return plain, weighing


BLOCK_HOOKS: Final = _hooks("")
"""The block hook, and the one that can count micro-operations."""
REPLACING_BLOCK_HOOKS: Final = _hooks("_replacing", replaces=True)
"""The same, where blocks may come to count themselves."""
MODELLED_BLOCK_HOOKS: Final = _hooks("_modelled", modelled=True)
"""The same, where a core model hears of each block first."""
REPLACING_MODELLED_BLOCK_HOOKS: Final = _hooks("_replacing_modelled", replaces=True, modelled=True)
"""The same, where both is so."""
