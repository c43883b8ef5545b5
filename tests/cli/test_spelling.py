from __future__ import annotations

import pytest

from spe_unicorn.cli.spelling import spelled


@pytest.mark.parametrize(
    ("said", "printed"),
    [
        ("`el` 3: the core has no EL3", "--el 3: the core has no EL3"),
        ("name `firmware` or `kernel`", "name FIRMWARE or --kernel"),
        ("in `semihosting_dir`", "in --semihosting-dir"),
        ("`reboot`", "--no-reboot"),
        ("a file called `other`", "a file called `other`"),
    ],
)
def test_options_are_named_as_on_the_command_line(said: str, printed: str) -> None:
    assert spelled(said) == printed
