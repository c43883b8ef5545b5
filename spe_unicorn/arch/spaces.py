"""The physical address spaces of the architecture (Arm ARM D8.1)."""

from __future__ import annotations

from enum import IntEnum


class PASpace(IntEnum):
    """PASpace. The physical address spaces, numbered as ``{NSE, NS}``."""

    Secure = 0
    NonSecure = 1
    Root = 2
    Realm = 3
