"""Writes a manual page for the command and for each of its sub-commands into a folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

import spe_unicorn
from spe_unicorn.cli import PROGRAM, main


def first_sentence(text: str) -> str:
    """The first sentence of a help text; what click makes of it is cut in the middle."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)])[.;:] ", paragraph)[0].rstrip(".")


def write(folder: Path) -> list[Path]:
    """Write the pages; their files."""
    folder.mkdir(parents=True, exist_ok=True)
    commands: list[click.Command] = [main, *main.commands.values()]
    for command in commands:
        command.short_help = first_sentence(command.help or "")
    write_man_pages(PROGRAM, main, version=spe_unicorn.__version__, target_dir=str(folder))
    return sorted(folder.glob(f"{PROGRAM}*.1"))


if __name__ == "__main__":
    for page in write(Path(sys.argv[1])):
        print(page)
