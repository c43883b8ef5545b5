"""What is said of skipped tests after a run: why, how many, and which package would help."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

PACKAGES: Final = {
    r"cross compiler": "gcc-aarch64-linux-gnu",
    r"objdump|addr2line|binutils|perf annotate": "binutils-aarch64-linux-gnu",
    r"\bC library\b": "libc6-dev-arm64-cross",
    r"gdb-multiarch": "gdb-multiarch",
    r"(?i)qemu-system|needs qemu": "qemu-system-arm",
    r"^(dtc|fdt\w+) is not": "device-tree-compiler",
    r"chromium": "chromium",
    r"perf is not": "linux-perf",
    r"\bcpio\b": "cpio",
    r"llvm-profdata": "llvm",
    r"needs clang": "clang",
    r"go tool pprof": "golang-go",
    r"\bman is\b": "man-db",
    r"\bfish\b": "fish",
    r"\bgenhtml\b": "lcov",
    r"\bbash\b": "bash",
}
"""The Debian package that has what a reason says is missing, by a pattern found in the reason."""


def package_for(reason: str) -> str | None:
    """The Debian package without which tests are skipped for ``reason``; None if none helps."""
    found = (package for pattern, package in PACKAGES.items() if re.search(pattern, reason))
    return next(found, None)


def said_of(reasons: Iterable[str]) -> Iterator[str]:
    """A line for each reason, the most frequent first, and one that installs all that would help.

    A reason may begin with pytest's own word, ``Skipped: ``.
    """
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    packages = set()
    for reason, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        package = package_for(reason)
        packages |= {package} if package else set()
        yield f"{count:4} {reason}{f' (Debian: {package})' if package else ''}"
    if packages:
        yield f"to run them, on Debian: apt-get install {' '.join(sorted(packages))}"
