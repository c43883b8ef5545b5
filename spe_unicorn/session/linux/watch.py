"""What a guest's console says of its end: the command's status, a panic, the kernel's reports."""

from __future__ import annotations

import re

STATUS = "=== exit status"
"""What the first program prints before the status of the command, as a line of its own."""
COPIED = b"=== copied "
"""What it prints after a file that it was told to copy."""
_STATUS = re.compile(rb"^=== exit status (\d{1,3})$")
_MOST = 4096
"""Bytes of a line that are looked at."""
_KEPT = 20
"""Complaints that are kept."""
_KERNEL = rb"^\[ *\d+\.\d+\](?:\[[^\]]*\])? "
_PANIC = re.compile(_KERNEL + rb"Kernel panic - not syncing: (.*)")
_COMPLAINT = re.compile(
    _KERNEL + rb"("
    rb"WARNING: .*"
    rb"|BUG: .*"
    rb"|Internal error: .*"
    rb"|UBSAN: .*"
    rb"|rcu: INFO: .* (?:self-)?detected .*stall.*"
    rb"|INFO: task .* blocked for more than .*"
    rb"|INFO: trying to register non-static key.*"
    rb"|watchdog: BUG: .*"
    rb"|Unable to handle kernel .*"
    rb"|Kernel panic - not syncing: .*"
    rb")"
)
"""How reports begin: WARN and lockdep, BUG and KASAN, an oops, RCU, hung tasks."""


class Watch:
    """Reads the console as it comes. It keeps little, whatever the guest prints."""

    def __init__(self) -> None:
        self.status: int | None = None
        """The command's exit status; None until it has ended."""
        self.copied = False
        """Whether the first program has copied a file that it was told to."""
        self.panic: str | None = None
        self.complaints: list[str] = []
        """The first lines of what the kernel reported, the first twenty."""
        self._line = bytearray()

    def read(self, data: bytes) -> None:
        """Take a piece of output."""
        first, *rest = data.split(b"\n")
        self._extend(first)
        for piece in rest:
            self._end_line()
            self._extend(piece)

    def _extend(self, piece: bytes) -> None:
        self._line += piece[: max(0, _MOST - len(self._line))]

    def _end_line(self) -> None:
        line = bytes(self._line).rstrip(b"\r")
        self._line.clear()
        if found := _STATUS.match(line):
            self.status = int(found.group(1)) & 0xFF
        if line.startswith(COPIED):
            self.copied = True
        if found := _PANIC.match(line):
            self.panic = found.group(1).decode(errors="replace")
        if (found := _COMPLAINT.match(line)) and len(self.complaints) < _KEPT:
            self.complaints.append(found.group(1).decode(errors="replace"))
