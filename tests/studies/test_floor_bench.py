"""The bench of floor estimators: its sets have the floors they say, its scores are those of planted estimators."""

import json
import sys

import numpy as np
import pytest

from hardpan import bayes, cli, files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.pages.studies import bench_markdown
from hardpan.studies import FloorBenchConfig, run_bench
from hardpan.studies.floor_bench import without_numbers
from hardpan.studies.floor_estimators import ESTIMATORS, find_estimator
from hardpan.studies.floor_sets import SOURCES, find_source

TINY = FloorBenchConfig(("two-gaussians",), (0.05, 0.2), (200,), ("votes",), runs=3)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("floor", [0.001, 0.2])
def test_a_source_has_the_floor_and_the_posteriors_that_it_says(name, floor):
    found = SOURCES[name](20_000, floor, 3)
    wrong = found.posterior.argmax(axis=1) != found.y
    spread = np.sqrt(floor * (1 - floor) / 20_000)
    assert wrong.mean() == pytest.approx(floor, abs=4.5 * spread)
    risk = 1 - found.posterior.max(axis=1)
    assert risk.mean() == pytest.approx(floor, abs=4.5 * risk.std() / np.sqrt(20_000) + 1e-3 * floor)
    # Calibrated: among examples called uncertain, as many are wrong as the posterior says.
    unsure = risk > np.quantile(risk, 0.9)
    expected = risk[unsure].sum()
    assert wrong[unsure].sum() == pytest.approx(expected, abs=4.5 * np.sqrt(expected) + 1)


@pytest.mark.parametrize("name", SOURCES)
def test_draws_repeat_with_their_seed_and_differ_without(name):
    first, again, other = (SOURCES[name](300, 0.2, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)


def test_the_warp_leaves_nothing_gaussian():
    plain, bent = (SOURCES[name](6000, 0.2, 0) for name in ("ten-gaussians", "warped"))
    np.testing.assert_array_equal(plain.posterior, bent.posterior)
    for found, fits in ((plain, True), (bent, False)):
        data = Dataset.from_arrays(found.x, found.y)
        model = bayes.floor(data, estimators=("gaussian",), classifiers=())["Gaussian model"].estimate
        assert (abs(model.value - 0.2) < 0.02) == fits


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_gives_the_numbers_that_it_names(name):
    config = FloorBenchConfig(("ten-gaussians",), (0.2,), (300,), (name,), runs=1)
    rows = run_bench(config).rows
    assert [row.estimator.removeprefix(name).strip() for row in rows] == list(ESTIMATORS[name].roles)
    for row in rows:
        assert row.runs == 1, row.failed
        assert 0 <= row.mean <= 1
        assert row.seconds > 0


def constant(x_train, y_train, x_test, y_test):
    return Estimate(0.1, 0.0, 0.06, 0.3, method="a constant")


def ends(*, n_classes, seed):
    return {"low": Estimate(0.06, 0, 0.055, 0.07), "high": Estimate(0.06, 0, 0.01, 0.19)}


ends.roles = {"low": "lower", "high": "upper"}


def broken(x_train):
    raise InputError("it cannot be done")


def crashes(x_train):
    return 1 / 0


def gives_a_number(x_train):
    return 0.1


@pytest.fixture
def mine(monkeypatch):
    """This module under a name on the import path, as someone's own module would be."""
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])


def test_scores_of_planted_estimators_are_what_they_must_be(mine):
    config = FloorBenchConfig(("two-gaussians",), (0.05, 0.2), (200,), ("mine:constant", "mine:ends"), runs=3)
    rows = {(row.estimator, row.floor): row for row in run_bench(config).rows}
    low, high = rows["mine:constant", 0.05], rows["mine:constant", 0.2]
    assert (low.role, low.bias, low.holds) == ("estimate", pytest.approx(0.05), 0.0)
    assert (high.bias, high.relative, high.holds) == (pytest.approx(-0.1), pytest.approx(0.5), 1.0)
    assert [rows["mine:ends low", floor].holds for floor in (0.05, 0.2)] == [0.0, 1.0]
    assert [rows["mine:ends high", floor].holds for floor in (0.05, 0.2)] == [1.0, 0.0]


def test_an_estimator_that_fails_is_told_and_stops_nothing(mine):
    config = FloorBenchConfig(("two-gaussians",), (0.1,), (100,), ("mine:broken", "votes"), runs=2)
    found = run_bench(config)
    assert (found.rows[0].runs, found.rows[0].failed) == (0, "it cannot be done")
    assert found.rows[1].runs == 2
    assert "| mine:broken | estimate | – |" in bench_markdown(found)


def test_own_functions_that_crash_are_results_too(mine):
    config = FloorBenchConfig(("two-gaussians",), (0.1,), (100,), ("mine:crashes", "mine:gives_a_number"), runs=1)
    first, second = run_bench(config).rows
    assert first.failed == "ZeroDivisionError: division by zero"
    assert second.failed == "TypeError: mine:gives_a_number gave a float, not an Estimate"


def sometimes(x_train, y_train, seed):
    if seed == 0:
        raise InputError("not the first draw")
    return Estimate(0.1, 0.0, 0.06, 0.3, method="a constant")


def other_names(x_train):
    return {"middle": Estimate(0.1, 0.0, 0.06, 0.3)}


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    ("name", "reason"),
    [("broken", "it cannot be done"), ("crashes", "division by zero"), ("other_names", "no finite number under")],
)
def test_a_function_that_fails_on_every_set_ends_the_command_after_its_table(
    mine, tmp_path, capsys, name, reason, form
):
    small = ["--sources", "two-gaussians", "--floors", "0.1", "--sizes", "100", "--runs", "2"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["floor", "bench", *small, "--estimators", f"mine:{name},votes", "--out", str(tmp_path), *form])
    shown = capsys.readouterr()
    assert ended.value.code == 2
    assert len(shown.err.splitlines()) == 1
    assert f"estimator mine:{name}: failed on every set" in shown.err
    assert reason in shown.err
    table = (tmp_path / "table.md").read_text()
    assert f"| mine:{name} | estimate | – |" in table
    assert "| votes uncorrected | " in table
    assert files.load(tmp_path / "report.json").rows[1].runs == 2
    told = files.from_json(json.loads(shown.out)).rows[0].estimator if form else shown.out
    assert f"mine:{name}" in told


def test_a_function_that_fails_sometimes_does_not_end_the_command(mine, capsys):
    small = ["--sources", "two-gaussians", "--floors", "0.1", "--sizes", "100", "--runs", "2"]
    with pytest.raises(SystemExit) as ended:
        cli.main(["floor", "bench", *small, "--estimators", "mine:sometimes"])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")


def test_a_function_that_was_mended_is_measured_again_and_nothing_else(mine, tmp_path, monkeypatch):
    config = FloorBenchConfig(("two-gaussians",), (0.1,), (100,), ("mine:broken", "votes"), runs=2)
    assert without_numbers(run_bench(config, tmp_path)) == {"mine:broken": "it cannot be done"}
    monkeypatch.setattr(sys.modules["mine"], "broken", constant)
    found = run_bench(config, tmp_path)
    assert (found.rows[0].runs, found.rows[0].failed, without_numbers(found)) == (2, "", {})
    keys = [json.loads(line)["key"] for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert [sum(name in key for key in keys) for name in ("mine:broken", "votes")] == [4, 2]


def test_cells_of_another_flow_under_the_same_name_are_not_taken(tmp_path):
    flows = pytest.importorskip("hardpan.flows")
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 2
    config = FloorBenchConfig((f"flow:{tmp_path / 'flow'}",), (0.1,), (60,), ("soft-labels",), runs=1)
    for seed in (0, 1):
        x = rng.normal(size=(120, 2)) + 3 * labels[:, None]
        data = Dataset("two", x, np.array([f"{i}" for i in range(120)]), labels, ("a", "b"))
        flows.fit(data, flows.FlowConfig(preset="tiny", epochs=1, seed=seed)).save(tmp_path / "flow")
        run_bench(config, tmp_path)
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 2


def test_a_second_run_measures_only_what_is_missing(tmp_path):
    first = run_bench(TINY, tmp_path)
    lines = (tmp_path / "cells.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 6
    # As a kill leaves it: the last line half written.
    (tmp_path / "cells.jsonl").write_text("".join(lines[:4]) + lines[4][:20])
    again = run_bench(TINY, tmp_path)
    assert [(row.mean, row.holds) for row in again.rows] == [(row.mean, row.holds) for row in first.rows]
    text = (tmp_path / "cells.jsonl").read_text().splitlines()
    assert text[:4] == [line.rstrip("\n") for line in lines[:4]]
    whole = [line for line in text if line.endswith("}}") or line.endswith('""}')]
    assert len({json.loads(line)["key"] for line in whole}) == 6


def test_votes_of_a_perfect_crowd_are_covered():
    config = FloorBenchConfig(("ten-gaussians",), (0.001, 0.2), (1000,), ("votes", "soft-labels"), runs=20)
    for row in run_bench(config).rows:
        assert row.holds >= 0.8


def test_the_table_names_the_command_and_every_estimator():
    text = bench_markdown(run_bench(TINY))
    assert (
        "hardpan floor bench --sources two-gaussians --floors 0.05,0.2 --sizes 200 --estimators votes --runs 3"
        in text
    )
    assert "| votes uncorrected |" in text


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match="flow:NAME"):
        find_source("sea")
    with pytest.raises(InputError, match="module:function"):
        find_estimator("tea-leaves")
    with pytest.raises(InputError, match="votes"):
        run_bench(FloorBenchConfig(votes=1))
    with pytest.raises(InputError, match=r"\bconfidence\b.*95"):
        run_bench(FloorBenchConfig(confidence=95))
    with pytest.raises(InputError, match="floors"):
        run_bench(FloorBenchConfig(floors=(0.1, 0.1)))
    with pytest.raises(InputError, match="str"):
        find_estimator("os:sep")
