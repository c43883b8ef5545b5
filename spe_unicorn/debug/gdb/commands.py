"""GDB's packets, each with its answer, while the machine stands.

The answers are those of the GDB manual, "Packets" and "General Query Packets". An unknown packet is
answered by an empty one, as the protocol has it; a packet that is known and wrong by ``E.`` and a
sentence. No packet raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spe_unicorn.debug.gdb.breakpoints import BreakpointError, Breakpoints
from spe_unicorn.debug.gdb.description import target_xml
from spe_unicorn.debug.gdb.memory import DebuggerMemory
from spe_unicorn.debug.gdb.monitor import Monitor
from spe_unicorn.debug.gdb.packets import PACKET_SIZE
from spe_unicorn.debug.gdb.registers import PERegisters, RegisterError, shown_vector_bits
from spe_unicorn.debug.gdb.resume import (
    ALL,
    ANY,
    DETACH,
    RUN_ON,
    Resume,
    parse_vcont,
    thread_id,
)
from spe_unicorn.debug.whereabouts import state_of
from spe_unicorn.machine.board import Board
from spe_unicorn.machine.pe import ProcessingElement

_FEATURES: Final = (
    f"PacketSize={PACKET_SIZE:x};QStartNoAckMode+;qXfer:features:read+;vContSupported+;"
    "swbreak+;hwbreak+;error-message+;ReverseStep+;ReverseContinue+"
)
_EXPEDITED: Final = (29, 31, 32, 33)
"""X29, SP, PC and CPSR, which GDB wants after every stop."""
_MOST_READ: Final = PACKET_SIZE // 2 - 1
_STATES: Final = {"wfi": "asleep in a WFI", "wfe": "waiting in a WFE", "off": "off"}


class Killed(Exception):  # noqa: N818
    """The debugger wants the run to end; if the message has a text, it waits for an answer."""


class _Refused(Exception):  # noqa: N818
    """A packet is understood and cannot be done; the message is a sentence."""


class Commands:
    """Answers the packets of one debugger. ``changed`` is called after each write from outside."""

    def __init__(
        self,
        board: Board,
        breakpoints: Breakpoints,
        monitor: Monitor,
        no_acknowledgements: Callable[[], None],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._board = board
        self._breakpoints = breakpoints
        self._monitor = monitor
        self._no_acknowledgements = no_acknowledgements
        self._changed = changed
        bits = max(128, shown_vector_bits(board.pes[0])) if shown_vector_bits(board.pes[0]) else 0
        self._registers = [PERegisters(pe, bits) for pe in board.pes]
        self._xml = target_xml(self._registers[0].described).encode()
        self._memory = DebuggerMemory(board)
        self._selected = board.running.number
        """The number of the PE that packets about registers and memory mean."""
        self.stop = f"T05thread:{self._selected + 1:x};"
        """The last stop reply, for ``?``."""

    def select(self, pe: int) -> None:
        """Have packets about registers and memory mean the PE with this number."""
        self._selected = pe

    def expedited(self, pe: int) -> str:
        """The registers in a stop reply, which GDB would ask for at once."""
        registers = self._registers[pe]
        return "".join(f"{n:x}:{registers.read(n).hex()};" for n in _EXPEDITED)

    def answer(self, packet: bytes) -> bytes | Resume:
        """The answer to a packet, or how the machine goes on. Raises Killed."""
        try:
            if packet[:1] == b"X":
                return self._write_binary(packet)
            text = packet.decode("ascii")
            return self._text(text)
        except (_Refused, RegisterError, BreakpointError) as error:
            return f"E.{error}".encode()
        except (ValueError, OverflowError):
            return b"E22"  # EINVAL: the packet cannot be read

    def _text(self, text: str) -> bytes | Resume:
        for name, command in self._NAMED.items():
            if text.startswith(name):
                return command(self, text.removeprefix(name))
        command = self._LETTERS.get(text[:1], Commands._unknown)
        return command(self, text[1:])

    @property
    def _pe(self) -> ProcessingElement:
        return self._board.pes[self._selected]

    def _thread(self, text: str) -> int:
        """The number of the PE that a thread is; the selected one for any. Raises ValueError."""
        number = thread_id(text)
        if number in (ALL, ANY):
            return self._selected
        if number > len(self._board.pes):
            raise ValueError(f"thread {number}")
        return number - 1

    def _unknown(self, _: str) -> bytes:
        return b""

    def _ok(self, _: str) -> bytes:
        return b"OK"

    # Features

    def _supported(self, _: str) -> bytes:
        return _FEATURES.encode()

    def _start_no_acknowledgements(self, _: str) -> bytes:
        self._no_acknowledgements()
        return b"OK"

    def _features(self, text: str) -> bytes:
        annex, _, span = text.partition(":")
        if annex != "target.xml":
            return b"E00"
        at, length = (int(number, 16) for number in span.split(","))
        piece = self._xml[at : at + min(length, _MOST_READ)]
        return (b"m" if at + len(piece) < len(self._xml) else b"l") + piece

    def _stop_reason(self, _: str) -> bytes:
        return self.stop.encode()

    def _attached(self, _: str) -> bytes:
        return b"1"

    # Threads

    def _threads(self, _: str) -> bytes:
        return b"m" + ",".join(f"{pe.number + 1:x}" for pe in self._board.pes).encode()

    def _no_more_threads(self, _: str) -> bytes:
        return b"l"

    def _thread_extra(self, text: str) -> bytes:
        pe = self._board.pes[self._thread(text)]
        state = _STATES.get(state_of(pe), f"running at EL{pe.cpu.el}")
        return f"cpu {pe.number}: {state}".encode().hex().encode()

    def _current_thread(self, _: str) -> bytes:
        return f"QC{self._selected + 1:x}".encode()

    def _choose(self, text: str) -> bytes:
        if text[:1] == "g":
            self._selected = self._thread(text[1:])
        elif text[:1] == "c":
            self._thread(text[1:])
        else:
            raise ValueError(text)
        return b"OK"

    def _alive(self, text: str) -> bytes:
        self._thread(text)
        return b"OK"

    # Registers

    def _read_registers(self, _: str) -> bytes:
        registers = self._registers[self._selected]
        return b"".join(registers.read(r.number) for r in registers.general).hex().encode()

    def _write_registers(self, text: str) -> bytes:
        registers = self._registers[self._selected]
        data = bytes.fromhex(text)
        changed = False
        for register in registers.general:
            size = register.bits // 8
            if len(data) < size:
                break
            if data[:size] != registers.read(register.number):
                registers.write(register.number, data[:size])
                changed = True
            data = data[size:]
        if changed:
            self._changed()
        return b"OK"

    def _read_register(self, text: str) -> bytes:
        return self._registers[self._selected].read(int(text, 16)).hex().encode()

    def _write_register(self, text: str) -> bytes:
        number, _, value = text.partition("=")
        registers, data = self._registers[self._selected], bytes.fromhex(value)
        if registers.is_general(int(number, 16)) and registers.read(int(number, 16)) == data:
            return b"OK"
        registers.write(int(number, 16), data)
        self._changed()
        return b"OK"

    # Memory

    def _span(self, text: str) -> tuple[int, int]:
        """An address and a length. Raises ValueError."""
        address, _, length = text.partition(",")
        at, size = int(address, 16), int(length, 16)
        if not 0 <= at < 1 << 64 or size < 0:
            raise ValueError(text)
        return at, size

    def _read_memory(self, text: str) -> bytes:
        address, size = self._span(text)
        data = self._memory.read(self._pe, address, min(size, _MOST_READ))
        if size and not data:
            return b"E14"  # EFAULT: GDB takes no sentence as the answer to this packet
        return data.hex().encode()

    def _write_memory(self, text: str) -> bytes:
        where, _, digits = text.partition(":")
        address, size = self._span(where)
        return self._store(address, size, bytes.fromhex(digits))

    def _write_binary(self, packet: bytes) -> bytes:
        where, _, data = packet[1:].partition(b":")
        address, size = self._span(where.decode("ascii"))
        return self._store(address, size, data)

    def _store(self, address: int, size: int, data: bytes) -> bytes:
        if size != len(data):
            raise _Refused(f"{len(data)} bytes came, and {size} were promised")
        if not self._memory.write(self._pe, address, data):
            raise _Refused(self._missing(address))
        if data:
            self._changed()
        return b"OK"

    def _missing(self, address: int) -> str:
        if self._memory.physical:
            return f"no memory at physical address {address:#x}"
        pe = self._pe
        return f"no memory at virtual address {address:#x} for cpu {pe.number} at EL{pe.cpu.el}"

    def _physical_mode(self, _: str) -> bytes:
        return b"1" if self._memory.physical else b"0"

    def _set_physical_mode(self, text: str) -> bytes:
        self._memory.physical = bool(int(text, 16))
        return b"OK"

    # Stops

    def _insert(self, text: str) -> bytes:
        kind, address, size = _point(text)
        return b"OK" if self._breakpoints.insert(kind, address, size) else b""

    def _remove(self, text: str) -> bytes:
        kind, address, size = _point(text)
        return b"OK" if self._breakpoints.remove(kind, address, size) else b""

    # Going on, and coming to an end

    def _can_continue(self, _: str) -> bytes:
        return b"vCont;c;C;s;S;r"

    def _continue_all(self, text: str) -> Resume:
        return parse_vcont(text, range(len(self._board.pes)))

    def _continue(self, _: str) -> Resume:
        return RUN_ON

    def _step(self, _: str) -> Resume:
        return Resume(frozenset({self._selected}))

    def _go_back(self, text: str) -> bytes | Resume:
        if text not in ("s", "c"):
            return b""
        return Resume(frozenset({self._selected}), backwards=f"b{text}")

    def _detach(self, _: str) -> Resume:
        return DETACH

    def _kill(self, text: str) -> bytes:
        raise Killed(text)

    # GDB's ``monitor``

    def _command(self, text: str) -> bytes:
        return self._monitor.command(self._pe, bytes.fromhex(text).decode(errors="replace"))

    _NAMED: Final[dict[str, Callable[[Commands, str], bytes | Resume]]] = {
        "qSupported": _supported,
        "QStartNoAckMode": _start_no_acknowledgements,
        "qXfer:features:read:": _features,
        "qAttached": _attached,
        "qfThreadInfo": _threads,
        "qsThreadInfo": _no_more_threads,
        "qThreadExtraInfo,": _thread_extra,
        "qC": _current_thread,
        "qqemu.PhyMemMode": _physical_mode,
        "Qqemu.PhyMemMode:": _set_physical_mode,
        "qSymbol": _ok,
        "qRcmd,": _command,
        "vCont?": _can_continue,
        "vCont": _continue_all,
        "vKill": _kill,
    }
    _LETTERS: Final[dict[str, Callable[[Commands, str], bytes | Resume]]] = {
        "?": _stop_reason,
        "b": _go_back,
        "H": _choose,
        "T": _alive,
        "g": _read_registers,
        "G": _write_registers,
        "p": _read_register,
        "P": _write_register,
        "m": _read_memory,
        "M": _write_memory,
        "Z": _insert,
        "z": _remove,
        "c": _continue,
        "C": _continue,
        "s": _step,
        "S": _step,
        "D": _detach,
        "k": _kill,
    }


def _point(text: str) -> tuple[int, int, int]:
    """Kind, address and size of a breakpoint or watchpoint. Raises ValueError."""
    kind, address, size = text.split(";")[0].split(",")
    return int(kind), int(address, 16), int(size, 16)
