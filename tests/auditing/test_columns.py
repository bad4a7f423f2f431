"""Facts about single columns: planted leaks and row numbers are listed, noise is not."""

import numpy as np
import pandas as pd
import pytest

from hardpan import auditing
from hardpan.auditing.columns import column_probs, telling_columns
from hardpan.bayes.floors.inputs import Columns, numbering_columns
from hardpan.data.dataset import Dataset

BARE = {"ensemble": "none", "flow": "none"}


def facts(data, **options):
    problems = auditing.audit(data, **BARE, **options).problems
    return {item.kind: item for item in problems if item.kind in ("leak-feature", "index-feature")}


def noise(shape, rng, n):
    """Columns that say nothing about any label."""
    if shape == "correlated integers":
        return np.round(3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 4)))
    if shape == "one-hot":
        return np.eye(6)[rng.integers(0, 6, n)]
    if shape == "heavy tails":
        return rng.standard_cauchy((n, 4))
    if shape == "codes":
        return rng.integers(0, n // 3, (n, 3)).astype(float)
    if shape == "missing":
        return np.where(rng.random((n, 4)) < 0.3, np.nan, rng.normal(size=(n, 4)))
    return rng.normal(size=(n, 40))


@pytest.mark.parametrize("shape", ["correlated integers", "one-hot", "heavy tails", "codes", "missing", "many"])
def test_columns_of_noise_are_not_better_than_guessing(shape):
    found = 0
    for draw in range(30):
        rng = np.random.default_rng([draw, 1])
        n, classes = 240, 2 + draw % 2
        y, x = rng.integers(0, classes, n), noise(shape, rng, n)
        train, test = np.arange(160), np.arange(160, n)
        probs = {str(j): column_probs(x[:, j], y, train, test, classes=classes) for j in range(x.shape[1])}
        most = int(np.bincount(y[train]).argmax())
        found += bool(telling_columns(probs, y[test], np.full(len(test), most), most)[0])
    assert found <= 3  # at 2 %, more than 3 of 30 has probability 0.003


@pytest.mark.parametrize("gaps", [0.0, 0.02, 0.3])
def test_a_column_that_is_the_label_is_listed_with_missing_values(gaps):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 900)
    frame = pd.DataFrame(rng.normal(size=(900, 3)), columns=list("abc"))
    frame["outcome"] = np.where(rng.random(900) < gaps, np.nan, y + 0.01 * rng.normal(size=900))
    frame["y"] = y
    note = facts(Dataset.from_frame(frame, label="y"))["leak-feature"]
    assert note.severity == "note"
    assert note.details["columns"][0] == "outcome"
    assert note.details["alone"][0]["error"].value == pytest.approx(gaps * 2 / 3, abs=0.06)


def test_missingness_codes_and_one_class_of_several():
    rng = np.random.default_rng(1)
    n = 1500
    y, frame = rng.integers(0, 4, n), pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    binary = (y > 1).astype(int)
    gap = frame.assign(gap=np.where(binary == 1, np.nan, rng.normal(size=n)), y=binary)
    assert facts(Dataset.from_frame(gap, label="y"))["leak-feature"].details["columns"][0].startswith("gap")
    hospital = rng.permutation(200)
    code = hospital[2 * rng.integers(0, 100, n) + binary].astype(float)
    note = facts(Dataset.from_frame(frame.assign(code=code, y=binary), label="y"))["leak-feature"]
    assert note.details["columns"][0] == "code"
    third = (y == 2) + 0.1 * rng.normal(size=n)
    hint = frame.assign(third=third, other=y % 2 + 0.7 * rng.normal(size=n), y=y)
    (item,) = facts(Dataset.from_frame(hint, label="y"))["leak-feature"].details["alone"]
    assert (item["column"], item["class"]) == ("third", "2")


def test_a_watermark_in_images_is_listed():
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 200, (600, 16, 16)).astype(np.uint8), rng.integers(0, 2, 600)
    assert "leak-feature" not in facts(Dataset.from_arrays(x, y))
    x[:, 3, 9] = 40 + 150 * y
    note = facts(Dataset.from_arrays(x, y))["leak-feature"]
    assert note.details["columns"] == ("pixels in rows 3–4, columns 9–10",)
    assert "predicts the label with 0.0 % error" in note.title


def test_columns_that_number_the_rows():
    rng = np.random.default_rng(3)
    x = np.column_stack([np.arange(400) * 2.5, -np.arange(400), rng.permutation(400), rng.normal(size=(400, 2))])
    note = facts(Dataset.from_arrays(x, np.repeat([0, 1], 200)))["index-feature"]
    assert (note.severity, note.breaks) == ("note", False)
    assert note.details["columns"] == ("0", "1")
    assert note.details["order"] == ("rises", "falls")
    assert max(note.details["errors"]) < 0.02
    columns = Columns(np.tile(np.arange(50.0), 2)[:, None], ("n",), np.zeros(1, dtype=bool))
    assert numbering_columns(columns, np.arange(100)) == {}
    assert numbering_columns(columns, np.arange(100), [np.arange(50), np.arange(50, 100)]) == {"n": "rises"}


@pytest.mark.parametrize(("error", "listed"), [(0.02, True), (0.15, False)])
def test_a_column_that_gains_nearly_all_is_listed_in_large_test_sets_too(error, listed):
    n = 20_000
    y = np.arange(n) % 2
    best = np.where(np.arange(n) < 0.005 * n, 1 - y, y)
    alone = np.where(np.arange(n) >= (1 - error) * n, 1 - y, y)
    assert bool(telling_columns({"code": np.eye(2)[alone]}, y, best, 0)[0]) == listed
