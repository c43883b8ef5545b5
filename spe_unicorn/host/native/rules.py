"""Functions of the pure rooms that compiled code calls, too: the one text of each rule."""

from __future__ import annotations

from spe_unicorn.arch.counter import ticks
from spe_unicorn.arch.exceptions.entry import vector_address
from spe_unicorn.compiled import routine
from spe_unicorn.decode.effects import address_of as access_address
from spe_unicorn.decode.effects import extended

__all__ = ["access_address", "ticks", "vector_address"]

for _rule in (access_address, extended, ticks, vector_address):
    routine(_rule)
