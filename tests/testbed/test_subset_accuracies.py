"""Follow-up hypotheses: answers known by hand, by planting, or by another route."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from tests.refusals import read_or_refused

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.testbed.sets import open_outcomes
from hardpan.testbed.subset_accuracies import (
    accuracies_without_duplicates,
    accuracy_breakdown,
    class_balanced_accuracies,
)

RIGHT = np.random.default_rng(0).random((4, 300)) < np.array([[0.9], [0.8], [0.7], [0.6]])
NAMES = ("a", "b", "c", "d")


def scores(right: np.ndarray, models: tuple[str, ...] | None = None) -> Outcomes:
    return Outcomes.from_arrays(right, models=models or NAMES[: len(right)])


# Near-duplicates


def test_duplicates_are_taken_out_and_the_drop_is_split() -> None:
    marked = np.arange(300) < 24
    right = RIGHT | marked
    for row, found in zip(right, accuracies_without_duplicates(scores(right), marked, [0.5] * 4).rows, strict=True):
        assert found.on_duplicates.value == 1.0
        assert found.without.value == row[24:].mean()
        # acc = (1 − d) acc_true + d acc_nd, solved for acc_true
        assert found.without.value == pytest.approx((row.mean() - 0.08) / 0.92)
        assert found.explained + found.left == pytest.approx(found.drop)
        exact = binomtest(int(row[24:].sum()), 276).proportion_ci(method="exact")
        assert (found.without.low, found.without.high) == pytest.approx((exact.low, exact.high))
    assert np.isnan(accuracies_without_duplicates(scores(right), marked).rows[0].drop)
    with pytest.raises(InputError) as caught:
        accuracies_without_duplicates(scores(right), np.ones(300))
    assert caught.value.argument == "duplicate"


# Classes, parts, bins


def test_balanced_accuracy_covers_the_truth() -> None:
    rng = np.random.default_rng(1)
    labels, chance = np.repeat([0, 1, 2], [500, 100, 20]), np.array([0.9, 0.6, 0.5])
    inside = 0
    for _ in range(300):
        right = rng.random((1, 620)) < chance[labels]
        found = class_balanced_accuracies(scores(right), labels).rows[0].balanced
        inside += found.low <= chance.mean() <= found.high
    assert inside >= 273  # 95 % of 300, less four standard errors


def test_balanced_equals_plain_where_classes_are_balanced() -> None:
    for found in class_balanced_accuracies(scores(RIGHT), np.arange(300) % 10).rows:
        assert found.balanced.value == pytest.approx(found.accuracy.value)


def test_parts_add_up() -> None:
    parts = np.array(["x", "y", "z"])[np.arange(300) % 3]
    found = accuracy_breakdown(scores(RIGHT), parts).rows
    for model, row in zip(NAMES, RIGHT, strict=True):
        own = [item.accuracy for item in found if item.model == model]
        assert sum(item.n for item in own) == 300
        assert sum(item.value * item.n for item in own) == pytest.approx(row.sum())


def test_frequency_bins_find_a_planted_slope() -> None:
    rng = np.random.default_rng(2)
    frequency = rng.integers(0, 11, 6000) / 10
    right = rng.random((1, 6000)) < 0.3 + 0.6 * frequency
    found = accuracy_breakdown(scores(right), frequency, "frequency").rows
    assert [item.group for item in found] == ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1]"]
    assert [item.accuracy.n for item in found] == [
        int(((frequency * 10).round() // 2 == i).sum()) + (int((frequency == 1).sum()) if i == 4 else 0)
        for i in range(5)
    ]
    for item, middle in zip(found, (0.05, 0.25, 0.45, 0.65, 0.9), strict=True):
        assert item.accuracy.value == pytest.approx(0.3 + 0.6 * middle, abs=0.05)
    with pytest.raises(InputError) as caught:
        accuracy_breakdown(scores(right), frequency * 10, "frequency")
    assert caught.value.argument == "frequency"


def test_quantile_bins_hold_equal_shares_and_few_numbers_are_groups() -> None:
    values = np.random.default_rng(0).permutation(300).astype(float)
    found = accuracy_breakdown(scores(RIGHT), values, "brightness", bins=5).rows
    assert {item.accuracy.n for item in found} == {60}
    assert {item.group for item in accuracy_breakdown(scores(RIGHT), values // 100).rows} == {
        "0.0",
        "1.0",
        "2.0",
    }


@pytest.mark.parametrize("right", [np.full((4, 2), 0.5), np.array([[0.0, np.nan]])])
def test_fractions_and_missing_cells_are_refused(right: np.ndarray) -> None:
    with pytest.raises(InputError) as caught:
        accuracy_breakdown(Outcomes.from_arrays(right), ["x"] * right.shape[-1])
    assert caught.value.argument == "outcomes"


# Files


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".npz", ".csv", ".json", ".parquet", ".x"]))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_matrix_file_is_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"matrix{suffix}"
    path.write_bytes(content)
    with read_or_refused():
        found = open_outcomes(path)
        assert found.scores.shape[:2] == (len(found.models), len(found.items))


@given(text=st.text(alphabet="model,id correct\n01a.-", max_size=80))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_read_or_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with read_or_refused():
        found = open_outcomes(path)
        assert found.scores.shape[:2] == (len(found.models), len(found.items))
