"""Groups that no column names: found where they are planted, not where rows are independent draws of a density."""

import numpy as np
import pandas as pd
import pytest

from hardpan import auditing
from hardpan.auditing.groups import find_groups, group_dimensions, group_errors, group_id_columns
from hardpan.bayes.floors.inputs import Columns
from hardpan.data.dataset import Dataset

SMOOTH = ("line", "plane", "many columns", "heavy tails", "skew", "rounded", "one-hot", "flags", "scales", "modes")


def smooth(name, rng, n=500):
    """Independent rows of a density."""
    x = rng.normal(size=(n, 4))
    return {
        "line": lambda: x[:, :1],
        "plane": lambda: x[:, :2],
        "many columns": lambda: rng.normal(size=(n, 40)),
        "heavy tails": lambda: rng.standard_cauchy((n, 4)),
        "skew": lambda: rng.lognormal(sigma=2, size=(n, 3)),
        "rounded": lambda: np.round(x, 1),
        "one-hot": lambda: np.column_stack([np.eye(4)[rng.integers(0, 4, n)], x[:, :2]]),
        "flags": lambda: np.column_stack([rng.random((n, 3)) < 0.3, x[:, :2]]),
        "scales": lambda: x * np.where(rng.random(n) < 0.5, 1, 0.1)[:, None],
        "modes": lambda: x + rng.normal(0, 3, (5, 4))[rng.integers(0, 5, n)],
    }[name]()


@pytest.mark.parametrize("name", SMOOTH)
def test_rows_of_a_density_have_no_clusters_on_which_models_fail(name):
    alarms = 0
    for draw in range(25):
        rng = np.random.default_rng([draw, 1])
        x = smooth(name, rng)
        x = np.unique((x - x.mean(axis=0)) / x.std(axis=0), axis=0)
        x = x[rng.permutation(len(x))]
        clusters = find_groups(x)
        if clusters is not None:
            errors = group_errors(x, (x[:, 0] + x[:, -1] > 0).astype(int), clusters)
            alarms += errors is not None and errors.p_value <= 0.02 and errors.difference.low >= 0.02
    assert alarms <= 1


@pytest.mark.parametrize(("groups", "size", "d", "noise"), [(60, 12, 8, 0.25), (150, 4, 6, 0.1), (40, 20, 20, 0.4)])
def test_planted_groups_are_found_with_the_error_on_new_ones(groups, size, d, noise):
    found = 0
    for draw in range(6):
        rng = np.random.default_rng([draw, 2])
        group = np.repeat(np.arange(groups), size)
        x = rng.normal(size=(groups, d))[group] + noise * rng.normal(size=(len(group), d))
        clusters = find_groups(x)
        if clusters is None:
            continue
        errors = group_errors(x, rng.integers(0, 2, groups)[group], clusters)
        found += errors.difference.low > 0.1 and abs(errors.clusters - groups) <= 0.25 * groups
    assert found >= 5


@pytest.mark.soak
def test_blocks_of_independent_rows_are_as_good_as_random_folds():
    p_values = []
    for draw in range(20):
        rng = np.random.default_rng([draw, 7])
        x = smooth(SMOOTH[draw % len(SMOOTH)], rng, 200)
        y = (x[:, 0] + rng.normal(size=200) > 0).astype(int)
        p_values.append(group_errors(x, y, np.arange(200) // 8).p_value)
    assert np.count_nonzero(np.array(p_values) <= 0.05) <= 4  # more than 4 of 20 has probability 0.003


def test_windows_of_a_series_are_alike():
    rng = np.random.default_rng(8)
    series, state = np.cumsum(rng.normal(size=1600)), np.repeat(rng.integers(0, 2, 40), 40)
    x = np.lib.stride_tricks.sliding_window_view(series, 20)[:1580]
    data = Dataset.from_arrays(x[:, ::4], state[:1580])
    (item,) = [
        item for item in auditing.audit(data, ensemble="none", flow="none").problems if item.kind == "groups"
    ]
    assert item.details["by"] == "blocks"
    assert item.details["new"] > 2 * item.details["random"]


def test_classes_that_are_clusters_are_no_groups():
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(80), 10)
    x = rng.normal(size=(80, 6))[y] + 0.05 * rng.normal(size=(800, 6))
    assert group_errors(x, y, y) is None


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_dimension_of_a_uniform_density(d):
    dimension, error = group_dimensions(np.random.default_rng(4).random((3000, d)))[1:]
    assert abs(dimension[1] - d) < 5 * error[1] + 0.1 * d


def test_columns_that_name_groups():
    rng = np.random.default_rng(5)
    patient = np.repeat(np.arange(60), 8)
    flag, age = rng.integers(0, 2, 60)[patient], rng.integers(20, 90, 480)
    values = np.column_stack([patient, age, np.arange(480), patient + 0.5]).astype(float)
    columns = Columns(values, ("patient", "age", "row", "half"), np.zeros(4, dtype=bool))
    assert group_id_columns(columns, flag) == ["patient"]
    assert group_id_columns(columns, rng.integers(0, 2, 480)) == []


def test_the_headline_has_the_error_on_new_groups():
    rng = np.random.default_rng(6)
    patient = rng.permutation(np.repeat(np.arange(100), 8))
    signal = rng.normal(size=(100, 6))[patient] + 0.2 * rng.normal(size=(800, 6))
    frame = pd.DataFrame(signal, columns=list("abcdef")).assign(y=rng.integers(0, 2, 100)[patient])
    named = frame.assign(patient=[f"p{number}" for number in patient])
    for data in (frame, named):
        report = auditing.audit(Dataset.from_frame(data, label="y"), ensemble="none", flow="none")
        (item,) = [problem for problem in report.problems if problem.kind == "groups"]
        assert item.severity == "note"
        assert item.details["new"] > 0.3
        assert item.details["random"] < 0.05
        assert item.effect.low > 0.2
        assert item.title in report.headline
    assert item.details["columns"] == ("patient",)
    assert "--group patient" in item.advice
    grouped = auditing.audit(Dataset.from_frame(named, label="y", group="patient"), ensemble="none", flow="none")
    assert "groups" not in {problem.kind for problem in grouped.problems}
