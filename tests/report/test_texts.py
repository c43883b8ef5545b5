"""Labels of samples, as numbers of those that there are."""

from __future__ import annotations

import numpy as np
import pytest

from spe_unicorn.report.texts import coded


@pytest.mark.parametrize(("names", "kind"), [(65535, np.uint16), (65536, np.int64)])
def test_numbers_of_labels_have_16_bits_where_that_is_enough(names: int, kind: type) -> None:
    labels = np.array([f"{n:05}" for n in range(names)][::-1], dtype=object)
    found, numbers = coded(labels)
    assert found[:2] == ["00000", "00001"]
    assert len(found) == names
    assert numbers.dtype == kind
    assert numbers.tolist() == list(range(names))[::-1]
