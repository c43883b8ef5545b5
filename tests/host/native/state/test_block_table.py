"""Where blocks stand in the table that the compiled hooks look them up in."""

from __future__ import annotations

from spe_unicorn.host.native.state.block_table import slot_of


def test_blocks_side_by_side_never_displace_each_other() -> None:
    blocks = [(0x4008_0000 + 4 * n, length) for n in range(512) for length in range(1, 9)]
    assert len({slot_of(address, length) for address, length in blocks}) == len(blocks)
