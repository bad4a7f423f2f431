"""Slices with a higher error are found, and data without any confirm none."""

import numpy as np
import pandas as pd
import pytest

from hardpan import Dataset, auditing, stats
from hardpan.auditing.problems import ALPHA
from hardpan.auditing.slices import find_slices

BARE = {"ensemble": "none", "flow": "none"}


@pytest.mark.parametrize("size", [1, 5])
def test_slices_without_an_excess_are_rarely_confirmed(size):
    rng = np.random.default_rng(0)
    group = np.arange(600) // size
    confirmed = 0
    for _ in range(150):
        wrong = np.repeat(rng.random(600 // size) < 0.2, size)
        second = (rng.permutation(600 // size) % 2)[group] == 1
        slices = [np.repeat(rng.random(600 // size) < share, size) for share in rng.uniform(0.1, 0.4, 60)]
        confirmed += bool(find_slices(wrong, group, second, slices))
    assert stats.clopper_pearson(confirmed, 150, 0.998)[0] <= ALPHA


def test_a_planted_slice_is_found_with_its_error():
    rng = np.random.default_rng(1)
    n = 2500
    y, site = rng.integers(0, 2, n), rng.choice(["north", "south", "west"], n)
    x = 3.0 * y + rng.normal(size=n)
    flipped = (site == "west") & (rng.random(n) < 0.4)
    frame = pd.DataFrame({"x": np.where(flipped, 3 - x, x), "noise": rng.normal(size=n), "site": site, "y": y})
    report = auditing.audit(Dataset.from_frame(frame, label="y"), **BARE)
    first = report.slices.found[0]
    assert (first.column, first.values) == ("site", "= west")
    assert first.error.low > first.elsewhere.high
    test = report.evidence.inputs.test
    assert set(first.rows) <= set(test[site[test] == "west"].tolist())
    assert any(section.key == "slices" and "west" in section.title for section in report.sections())
    clean = frame.assign(x=3.0 * y + rng.normal(size=n))
    found = auditing.audit(Dataset.from_frame(clean, label="y"), **BARE).slices.found
    assert "site" not in {item.column for item in found}
