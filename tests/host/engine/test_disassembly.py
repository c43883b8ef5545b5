from __future__ import annotations

import pytest

from spe_unicorn.host.engine.disassembly import disassemble


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0xB9000420, "str w0, [x1, #4]"),
        (0x14000002, "b #0x1008"),
        (0xD503201F, "nop"),
        (0xFFFFFFFF, ".inst 0xffffffff"),
    ],
)
def test_words_are_disassembled_at_their_address(word, text):
    assert disassemble(word, 0x1000) == text
