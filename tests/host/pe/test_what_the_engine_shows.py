"""Where the engine keeps what it has no names for. An engine that differs is told of by numbers."""

from __future__ import annotations

import pytest

from spe_unicorn.host.pe import entry, vectors


def test_an_engine_without_the_syndrome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "_SVC", entry._SVC ^ 1 << 5)  # SVC #0x1235
    said = r"after an SVC, 0x56001234 is nowhere in its state, of so many bytes .*: \[\d{4,}\]"
    with pytest.raises(RuntimeError, match=said):
        entry._exception_offset.__wrapped__()


def test_an_engine_without_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    found = vectors.offsets()
    monkeypatch.setattr(vectors, "_AFTER_PTRUE", (1 << 250, 2, 3, 4))
    with pytest.raises(RuntimeError) as error:
        vectors.offsets.__wrapped__()
    places = f"P0 is at -1, Z0 at {found.vectors}, Z1 at {found.vectors + vectors._VECTOR}, "
    assert places in str(error.value)
    assert str(error.value).endswith("4 instructions ended at 0x10")
