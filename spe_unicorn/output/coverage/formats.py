"""Files of coverage: which format a suffix names, how each is written, and what is read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from spe_unicorn.output.coverage.cobertura import cobertura
from spe_unicorn.output.coverage.drcov import drcov
from spe_unicorn.output.coverage.json_file import from_json, to_json
from spe_unicorn.output.coverage.lcov import from_lcov, to_lcov
from spe_unicorn.output.coverage.model import Coverage


class CoverageError(ValueError):
    """A file that holds no coverage, or a name of no format: one line that names the file."""


WRITERS: Final[dict[str, Callable[[Coverage], bytes]]] = {
    ".info": lambda coverage: to_lcov(coverage).encode(),
    ".xml": lambda coverage: cobertura(coverage).encode(),
    ".drcov": drcov,
    ".json": lambda coverage: to_json(coverage).encode(),
}
"""What makes a file, by its suffix: lcov, Cobertura, drcov, and a format of our own."""


def check_suffix(path: str) -> None:
    """Raise CoverageError if no format has the suffix of a file."""
    if Path(path).suffix not in WRITERS:
        *most, last = WRITERS
        raise CoverageError(f"{path}: name a file that ends in {', '.join(most)} or {last}")


def write(path: str, coverage: Coverage) -> None:
    """Write a file in the format that its suffix names. Raises CoverageError and OSError."""
    check_suffix(path)
    Path(path).write_bytes(WRITERS[Path(path).suffix](coverage))


def read(path: str) -> Coverage:
    """Read a file of JSON or lcov. Raises CoverageError and OSError."""
    data = Path(path).read_bytes()
    try:
        text = data.decode()
        if text.lstrip().startswith("{"):
            return from_json(text)
        return from_lcov(text)
    except UnicodeDecodeError:
        raise CoverageError(f"{path}: is neither JSON nor lcov; those can be read") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CoverageError(f"{path}: is no coverage of JSON or lcov ({error})") from None
