from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.core import Option

from spe_unicorn.cli import main
from tests.cli.json_keys import KEYS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "cli.md").read_text()
RUNNING = [
    (name, option)
    for name in ("run", "record")
    for option in main.commands[name].params
    if isinstance(option, click.Option)
]


def test_the_page_has_every_command() -> None:
    assert [name for name in main.commands if f"| `spe-unicorn {name}" not in PAGE] == []


@pytest.mark.parametrize(
    ("name", "option"), RUNNING, ids=lambda value: getattr(value, "name", value)
)
def test_the_page_has_every_option_of_a_run(name: str, option: Option) -> None:
    assert all(f"`{spelling}" in PAGE for spelling in option.opts)


def test_the_page_has_every_key_of_the_json_object() -> None:
    assert [key for key in sorted(KEYS) if f"`{key}`" not in PAGE] == []
