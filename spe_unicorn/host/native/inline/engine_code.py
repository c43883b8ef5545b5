"""What the engine's code around its call of the block hook is expected to be, byte for byte.

::

    rdi = engine; rsi = address; edx = size; rcx = state
    call  hook
    rdi = engine; xor esi, esi
    call  check                     ; whether the engine was asked to leave

The engine chooses the shortest instruction that loads a number: of 5 bytes below 4 GiB, of 7 where
it has 32 bits with a sign or lies within reach, else of 10. So the length of the code depends on
the addresses of the host's heap, of the engine's code, and of the guest's block.

The same check stands after each load and store. It first looks at a number of 32 bits that lies
below the PE's state in the engine, to which RBP points. The number is negative if the engine was
asked to leave.

The engine's code of a block begins at a multiple of 64. Below it lies the engine's description of
the block, which says where the code begins and how long it is. Above the code there may be
anything: the description of another block, or older code where nothing new was written.

The numbers are those of a build of the engine on a host (``host.engine.builds``).
"""

from __future__ import annotations

from typing import Final

from spe_unicorn.compiled import routine
from spe_unicorn.host.engine.builds import code_numbers, release_numbers
from spe_unicorn.host.native.inline.shared import near, number_at

RCX = 1
RDX = 2
RSI = 6
RDI = 7
_FORM: Final = code_numbers()
ASKED, DESCRIBED = _FORM.asked, _FORM.described
_PC = _FORM.pc
_X0 = release_numbers().saved.x0
_ALIGNMENT = _FORM.alignment
_LONGEST = _FORM.longest
_CHECK, _CHECK_MASKS = _FORM.check.bytes, _FORM.check.masks
_CHECK_CPU, _CHECK_ASKED = _FORM.check_cpu, _FORM.check_asked
_NO_ARGUMENT: Final = 0xF633
"""``xor esi, esi``."""


@routine
def matches(at: int, expected: tuple[int, ...], masks: tuple[int, ...]) -> bool:
    """Whether the bytes at an address are those of a pattern (``builds.forms.Pattern``)."""
    same = True
    for n in range(len(expected)):
        same &= number_at(at + n, 1) & masks[n] == expected[n]
    return same


@routine
def load_length(at: int, register: int, value: int) -> int:
    """Bytes of the instruction at an address, if it loads the register with the value; else 0."""
    if value == 0:
        return 2 if number_at(at, 2) == 0xC033 | register << 8 | register << 11 else 0
    if value >> 32 == 0:
        same = number_at(at, 1) == 0xB8 | register and number_at(at + 1, 4) == value
        return 5 if same else 0
    if value == near(value):
        same = number_at(at, 3) == 0xC0C748 | register << 16 and near(number_at(at + 3, 4)) == value
        return 7 if same else 0
    if number_at(at, 3) == 0x058D48 | register << 19:
        return 7 if at + 7 + near(number_at(at + 3, 4)) == value else 0
    same = number_at(at, 2) == 0xB848 | register << 8 and number_at(at + 2, 8) == value
    return 10 if same else 0


@routine
def load_before(end: int, register: int, value: int) -> int:
    """Address of the instruction that loads the register so and ends at ``end``; 0 if none."""
    for length in (2, 5, 7, 10):
        if load_length(end - length, register, value) == length:
            return end - length
    return 0


@routine
def call_length(at: int) -> int:
    """Bytes of the call at an address; 0 if no call stands there."""
    if number_at(at, 1) == 0xE8:
        return 5
    return 6 if number_at(at, 2) == 0x15FF else 0


@routine
def called(at: int) -> int:
    """The function that the call at an address calls."""
    if number_at(at, 1) == 0xE8:
        return at + 5 + near(number_at(at + 1, 4))
    return number_at(at + 6 + near(number_at(at + 2, 4)), 8)


@routine
def code_end(begin: int) -> int:
    """End of the code of the block whose call of the hook begins at ``begin``; 0 if unknown."""
    for n in range(2):
        code = (begin // _ALIGNMENT - n) * _ALIGNMENT
        if number_at(code - DESCRIBED, 8) == code:
            length = number_at(code - DESCRIBED + 8, 8)
            return code + length if begin - code < length <= _LONGEST else 0
    return 0


@routine
def calls_through_code(at: int, end: int) -> bool:
    """Whether the call, and the address of its function if it reads one, lie before ``end``."""
    if number_at(at, 1) == 0xE8:
        return at + 5 <= end
    distance = near(number_at(at + 2, 4))
    return distance >= 0 and at + 6 + distance + 8 <= end


@routine
def check_call(at: int, engine: int) -> int:
    """Address of the call in the check for requests to leave that begins at ``at``; 0 if none."""
    length = load_length(at, RDI, engine)
    if length == 0 or number_at(at + length, 2) != _NO_ARGUMENT:
        return 0
    call = at + length + 2
    return call if call_length(call) != 0 else 0


@routine
def call_begin(back: int, engine: int, state: int, address: int, size: int) -> int:
    """Begin of the arguments of the call that returns to ``back``; 0 if it is not the hook's."""
    if call_length(back - 5) == 5:
        at = back - 5
    elif call_length(back - 6) == 6:
        at = back - 6
    else:
        return 0
    at = load_before(at, RCX, state)
    if at == 0:
        return 0
    at = load_before(at, RDX, size)
    if at == 0:
        return 0
    at = load_before(at, RSI, address)
    return 0 if at == 0 else load_before(at, RDI, engine)


@routine
def cpu_by(check: int, engine: int) -> int:
    """Address of the engine's CPU, by a check that looks as :func:`is_known_check` says."""
    return number_at(engine + near(number_at(check + _CHECK_CPU, 4)), 8)


@routine
def _state_of(check: int, engine: int) -> int:
    """Where the PE's state is in the engine, by a check that looks as is expected."""
    return cpu_by(check, engine) + near(number_at(check + _CHECK_ASKED, 4)) - ASKED


@routine
def registers_by(check: int, engine: int) -> int:
    """Where the engine has X0 to X30 and SP, by a check that looks as is expected."""
    return _state_of(check, engine) + _X0


@routine
def is_known_check(check: int, engine: int, address: int) -> bool:
    """Whether the check looks at ``RBP + ASKED``, where a block at ``address`` has just begun."""
    if not matches(check, _CHECK, _CHECK_MASKS):
        return False
    return number_at(_state_of(check, engine) + _PC, 8) == address
