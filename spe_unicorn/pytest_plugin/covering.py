"""``--spe-cov FILE``: what the machines of all tests have executed, as one file.

Each process of pytest-xdist leaves its part in the folder that the processes share, and so does
each run of an ELF file. The first process merges them at the end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from spe_unicorn.output.coverage.formats import CoverageError, check_suffix, read, write
from spe_unicorn.output.coverage.json_file import to_json
from spe_unicorn.output.coverage.model import INCOMPLETE, Coverage
from spe_unicorn.pytest_plugin.elf import COVERED

_COVERED: Final[pytest.StashKey[Coverage]] = pytest.StashKey()


def prepare(config: pytest.Config) -> None:
    """Begin with nothing covered. Raises UsageError for a file of no format."""
    try:
        check_suffix(config.getoption("--spe-cov"))
    except CoverageError as error:
        raise pytest.UsageError(f"--spe-cov: {error}") from None
    config.stash[_COVERED] = Coverage()


def add(config: pytest.Config, coverage: Coverage) -> None:
    """Add what a machine of a test has executed."""
    config.stash[_COVERED].merge(coverage)


def finish(config: pytest.Config) -> None:
    """Leave the part of this process, or write the file if this is the first process."""
    covered = config.stash[_COVERED]
    base = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    if hasattr(config, "workerinput"):
        folder = base.parent / "spe-unicorn"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{os.getpid()}{COVERED}").write_text(to_json(covered))
        return
    for part in sorted(Path(base / "spe-unicorn").glob(f"*{COVERED}")):
        covered.merge(read(str(part)))
    write(_path(config), covered)


def said(config: pytest.Config) -> str:
    """A line for the end of the session."""
    covered = config.stash[_COVERED]
    share = covered.line_share
    part = "no lines" if share.part is None else f"{share.part:.1%} of {share.all} lines"
    rest = f"; in a test {INCOMPLETE}" if covered.incomplete else ""
    return f"spe-unicorn: covered {part}; wrote {config.getoption('--spe-cov')}{rest}"


def _path(config: pytest.Config) -> str:
    return str(config.invocation_params.dir / config.getoption("--spe-cov"))
