"""Tests of train against test: level on data drawn alike, power on planted shifts, and what the page says."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hardpan import auditing
from hardpan.auditing import groups, running, shift
from hardpan.auditing.evidence import AuditConfig
from hardpan.bayes.floors.inputs import Columns
from hardpan.data.dataset import Dataset

SHAPES = ("correlated integers", "one-hot", "heavy tails", "ties", "missing", "copies", "few classes", "categories")


def shape(name, rng, n):
    """Rows that are drawn alike, whatever their split, and labels."""
    if name == "correlated integers":
        x = np.clip(np.round(2 * rng.normal(size=(n, 1)) + rng.normal(size=(n, 4))), -3, 3)
    elif name == "one-hot":
        x = np.eye(5)[rng.integers(0, 5, n)]
    elif name == "heavy tails":
        x = rng.standard_cauchy((n, 3))
    elif name == "ties":
        x = np.round(rng.normal(size=(n, 3)), 1)
    elif name == "missing":
        x = np.where(rng.random((n, 3)) < 0.3, np.nan, rng.normal(size=(n, 3)))
    elif name == "copies":
        x = rng.normal(size=(n, 3))
        x[: n // 3] = x[rng.integers(n // 3, n, n // 3)]
        x = x[rng.permutation(n)]
    elif name == "categories":
        x = np.minimum(rng.geometric(0.05, (n, 2)), 60).astype(float)
    else:
        x = rng.lognormal(sigma=3, size=(n, 3))
    rare = rng.random(n) < (0.08 if name == "few classes" else 0.0)
    y = np.where(rare, 2, (np.nan_to_num(x[:, 0]) > np.nan_to_num(x[:, 1])).astype(int))
    return Columns(x, tuple(map(str, range(x.shape[1]))), np.full(x.shape[1], name == "categories")), y


def units_of(columns):
    return groups.row_units(np.unique(np.nan_to_num(columns.values), axis=0, return_inverse=True)[1].ravel())


def most(draws, level):
    """So many rejections at this level have a probability of at most 0.002."""
    return stats.binom.isf(0.002, draws, level)


@pytest.mark.parametrize("name", SHAPES)
def test_columns_and_labels_keep_their_level(name):
    draws, n = 300, 160
    p_values = np.zeros((draws, 2))
    for draw in range(draws):
        rng = np.random.default_rng([draw, 2])
        columns, y = shape(name, rng, n)
        in_test = rng.permutation(n) < 60
        one = groups.one_row_per_group(units_of(columns), rng)
        some = Columns(columns.values[one], columns.names, columns.categorical)
        p_values[draw] = (
            shift.column_tests(some, in_test[one]).p_value,
            shift.label_test(y[one], in_test[one], 3, draw).p_value,
        )
    for level in (0.05, 0.01):
        assert (np.count_nonzero(p_values <= level, axis=0) <= most(draws, level)).all()


@pytest.mark.parametrize("name", ["correlated integers", "missing", "copies", "heavy tails"])
def test_models_keep_their_level(name):
    draws, n = 20, 120
    p_values = []
    for draw in range(draws):
        rng = np.random.default_rng([draw, 3])
        columns, y = shape(name, rng, n)
        parts = shift.shift_parts(columns, y, rng.permutation(n) < 45, units_of(columns), 3, draw)
        p_values += [part.p_value for part in parts if part.name in ("rows", "error")]
    assert np.count_nonzero(np.array(p_values) <= 0.05) <= most(len(p_values), 0.05)


KEPT = {"named": "groups", "inputs": "inputs", "text": "values", "number": "values", "clusters": "clusters"}


def cut_by_unit(rng, kind, moved=0.0):
    """A split of 120 users with 4 to 12 rows each, by user; the first column of test users is moved."""
    centre = rng.normal(size=(120, 3))
    trait = centre[:, 1] + rng.normal(size=120) > 0
    test = rng.permutation(120) < 40
    centre[test, 0] += moved
    user = rng.permutation(np.repeat(np.arange(120), rng.integers(4, 13, 120)))
    spread = {"inputs": 0.0, "clusters": 0.05}.get(kind, 1.0)
    frame = pd.DataFrame(centre[user] + spread * rng.normal(size=(len(user), 3)), columns=list("abc"))
    frame["y"] = (trait[user] ^ (rng.random(len(user)) < 0.15)).astype(int)
    frame["split"] = np.where(test[user], "test", "train")
    numbers = rng.permutation(1000)[:120][user]
    if kind not in ("inputs", "clusters"):
        frame["user"] = numbers if kind == "number" else [f"u{k:03d}" for k in numbers]
    return frame


def shift_of(frame, seed, **options):
    data = Dataset.from_frame(frame, label="y", **options)
    evidence = running._gather_evidence(data, AuditConfig(seed=seed, ensemble="none", flow="none"))
    return list(shift.shift_facts(evidence))


@pytest.mark.parametrize("kind", KEPT)
def test_a_split_by_users_is_compared_by_users(kind):
    """Users are drawn alike, so claims keep their level; differences of single rows are notes with the unit."""
    draws, claims, by = 12, 0, set()
    options = {"group": "user"} if kind == "named" else {}
    for draw in range(draws):
        facts = shift_of(cut_by_unit(np.random.default_rng([draw, 4]), kind), draw, **options)
        claims += sum(severity != "note" for severity, *_ in facts)
        by |= {details["unit"]["by"] for *_, details in facts}
    assert claims <= most(draws, shift.LEVEL)
    assert by <= {KEPT[kind]}


@pytest.mark.parametrize("kind", KEPT)
def test_users_that_differ_are_a_claim(kind):
    frame = cut_by_unit(np.random.default_rng([1, 5]), kind, moved=3.0)
    severity, p_value, _, details = shift_of(frame, 0, **({"group": "user"} if kind == "named" else {}))[0]
    assert severity in ("high", "medium")
    assert p_value < 1e-4
    assert details["unit"]["by"] == KEPT[kind]
    assert details["unit"]["train"] == pytest.approx(80, abs=5 if kind == "clusters" else 0)
    assert details["columns"]["columns"][0]["column"] == "a"


def test_few_values_cannot_show_a_shift():
    """Five sites, each in one split: whatever differs may be the sites."""
    rng = np.random.default_rng(6)
    site = rng.integers(0, 5, 600)
    frame = pd.DataFrame(rng.normal(size=(600, 2)) + 3 * rng.normal(size=(5, 2))[site], columns=list("ab"))
    frame = frame.assign(site=[f"s{k}" for k in site], y=rng.integers(0, 2, 600))
    frame["split"] = np.where(site < 2, "test", "train")
    ((severity, p_value, effect, details),) = shift_of(frame, 0)
    assert (severity, p_value, effect) == ("note", None, None)
    assert {"by": "values", "column": "site", "enough": False, "train": 3, "test": 2}.items() <= details[
        "unit"
    ].items()


def test_equal_neighbours_have_the_stated_mean_and_tail():
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1, 2, 3], [50, 30, 15, 5])
    shares, expected, p_values = np.array([shift.label_order_shift(rng.permutation(labels)) for _ in range(4000)]).T
    assert shares.mean() == pytest.approx(expected[0], abs=4 * shares.std() / 4000**0.5)
    assert np.count_nonzero(p_values <= 0.02) <= most(4000, 0.025)
    assert p_values.min() < 0.01
    pair = shift.label_order_shift(np.tile([0, 1], 40))
    assert (pair[0], pair[2]) == (0.0, pytest.approx(1.0))


def audited(frame, **options):
    data = Dataset.from_frame(frame, label="y", **options)
    return {item.kind: item for item in auditing.audit(data, ensemble="none", flow="none").problems}


def frame_of(rng, n=1200, test=300):
    frame = pd.DataFrame(rng.normal(10, 2, size=(n, 3)), columns=list("abc"))
    frame["split"] = np.repeat(["train", "test"], [n - test, test])
    return frame.assign(y=((frame.a > 10) ^ (rng.random(n) < 0.05)).astype(int))


def test_a_column_with_values_on_one_side_only_of_the_halves_is_searched():
    rng = np.random.default_rng(9)
    values = np.c_[rng.normal(size=400), np.full(400, np.nan)]
    in_test = np.arange(400) >= 200
    assert shift.membership_test(values[:, 1:], in_test) is None
    without = shift.membership_test(values, in_test).p_value
    assert without == shift.membership_test(values[:, :1], in_test).p_value
    values[7, 1] = 1.0
    assert shift.membership_test(values, in_test).p_value == pytest.approx(without, abs=0.3)


def test_a_column_in_other_units_is_a_claim_with_its_medians():
    frame = frame_of(np.random.default_rng(6))
    assert "shift" not in audited(frame)
    frame.loc[frame.split == "test", "a"] *= 1000
    item = audited(frame)["shift"]
    assert item.severity == "high"
    assert item.p_value < 1e-20
    assert [part["column"] for part in item.details["columns"]["columns"]] == ["a"]
    assert item.details["rows"]["auc"] > 0.99
    assert item.effect.value < -0.3  # the error would be lower with units as in train
    assert "Column a: median 1" in item.advice


def test_other_class_frequencies_and_another_rule_are_claims():
    rng = np.random.default_rng(7)
    frame = frame_of(rng)
    kept = (frame.split == "train") | (frame.y == 1) | (rng.random(len(frame)) < 0.1)
    item = audited(frame[kept])["shift"]
    assert item.details["labels"]["largest"] > 0.3
    assert "labels" in item.details["large"]
    frame.loc[frame.split == "test", "y"] = (frame.b > 10).astype(int)
    item = audited(frame)["shift"]
    assert item.details["large"] == ("error",)
    assert "holds in train holds less in test" in item.title


@pytest.mark.parametrize("own", [0.0, 1.0])
def test_a_column_whose_values_shifted_is_a_unit_only_where_its_rows_are_alike(own):
    """Sugar in another unit shares no value with train and is no group; users numbered in order are."""
    rng = np.random.default_rng(12)
    name, value = ("user", np.repeat(np.arange(150), 8)) if own else ("sugar", rng.integers(60, 200, 1200))
    frame = pd.DataFrame(rng.normal(size=(1200, 3)) + own * rng.normal(size=(200, 3))[value], columns=list("abc"))
    test = np.arange(1200) >= 900
    frame[name] = value if own else np.where(test, np.round(value / 18, 1), value)
    frame = frame.assign(y=rng.integers(0, 2, 1200), split=np.where(test, "test", "train"))
    severity, _, _, details = shift_of(frame, 0)[0]
    assert details["unit"]["by"] == ("values" if own else "rows")
    if not own:
        assert severity == "medium"
        assert [item["column"] for item in details["columns"]["columns"]] == ["sugar"]


def test_a_small_difference_of_many_rows_is_a_note():
    rng = np.random.default_rng(8)
    columns = Columns(rng.normal(size=(12_000, 2)), ("a", "b"), np.zeros(2, dtype=bool))
    in_test = np.arange(12_000) >= 8000
    columns.values[in_test, 0] += 0.15
    part = shift.column_tests(columns, in_test)
    assert part.p_value < 1e-6
    assert not part.large


def test_labels_along_the_file_and_a_rule_that_changes():
    rng = np.random.default_rng(9)
    frame = frame_of(rng).drop(columns="split")
    assert "order" not in audited(frame)
    item = audited(frame.sort_values("y"))["order"]
    assert item.severity == "note"
    assert item.details["equal"] > 0.99
    assert item.details["shown"] == ("labels",)  # late rows of classes that no early row has are no errors
    turn = np.arange(len(frame)) > 900
    frame["y"] = np.where(turn, frame.b > 10, frame.a > 10).astype(int)
    item = audited(frame)["order"]
    assert item.details["late"] - item.details["early"] > 0.2
    assert "--column time=" in item.advice
    timed = frame.assign(day=np.arange(len(frame))).sample(frac=1, random_state=0)
    item = audited(timed, columns={"time": "day"})["order"]
    assert item.details["time"]
    assert "over time" in item.title
