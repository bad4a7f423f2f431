"""The verdict: an error without a problem is stated only where it is measured on the best model itself."""

import numpy as np
import pytest

from hardpan import Dataset, auditing
from hardpan.pages.auditing import first_screen

N, TEST = 1200, 400


def audited(x, y):
    split = np.repeat(["train", "test"], [N - TEST, TEST])
    return auditing.audit(Dataset.from_arrays(x, y, split=split), ensemble="none", flow="none", budget=60)


def noisy_labels(rng, x):
    return np.where(rng.random(len(x)) < 0.3, rng.integers(0, 2, len(x)), x[:, 0] > 0).astype(int)


def test_copies_that_move_the_score_are_said_with_the_error_without_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 4))
    y = noisy_labels(rng, x)
    copied = np.arange(N - 160, N)
    x[copied], y[copied] = x[:160], y[:160]
    report = audited(x, y)
    copies = next(item for item in report.problems if item.kind == "test-copies")
    assert first_screen.moves_the_score(report, copies)
    assert report.headline.startswith("Do not trust this score yet: 160 test")
    without = report.measures["best_error"].value + copies.details["without"].value
    said = report.headline.rpartition(" error is ")[2].partition("%")[0]
    assert float(said) == pytest.approx(100 * without, abs=1)


def test_of_a_shift_the_verdict_states_the_fact_alone():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 4))
    y = noisy_labels(rng, x)
    some = rng.random(TEST) < 0.4
    y[-TEST:][some] = rng.integers(0, 2, some.sum())
    x[-TEST:, 1] += 3
    report = audited(x, y)
    assert any(item.kind == "shift" and item.severity != "note" for item in report.problems)
    assert report.headline == next(f"{line.title}." for line in report.view().problems if line.kind == "shift")
