"""Linux on AArch64, with the GNU C library."""

from __future__ import annotations

from typing import Final

from spe_unicorn.host.engine.builds.forms import Host

KNOWN: Final = Host(jump_buffer=1024, code_of_info=8, own_signal=-6, mask_words=16)
