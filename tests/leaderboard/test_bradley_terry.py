"""Battles: statsmodels' logistic regression, planted orders and styles, error rates, tables that are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit
from scipy.stats import binom

from hardpan import Outcomes, leaderboard
from hardpan.cli import main
from hardpan.errors import InputError

WORDS = np.array(["model_b", "tie", "model_a"])


def simulated(rng: Any, strength: Any, n: int, *, style: float = 0.0, questions: int = 0) -> dict[str, Any]:
    """Battles of random pairs; the longer answer may win more often."""
    m = len(strength)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    length = rng.integers(50, 900, (2, n))
    z = (length[0] - length[1]) / length.sum(axis=0)
    won = (rng.random(n) < expit(strength[a] - strength[b] + style * z)).astype(float)
    won[rng.random(n) < 0.2] = 0.5
    table: dict[str, Any] = {"model_a": [f"m{i}" for i in a], "model_b": [f"m{i}" for i in b]}
    table["winner"] = WORDS[(2 * won).astype(int)].tolist()
    table |= {"length_a": length[0].tolist(), "length_b": length[1].tolist()}
    if questions:
        table["question_id"] = rng.integers(0, questions, n).tolist()
    return table


def regression(table: dict[str, Any], models: tuple[str, ...]) -> tuple[Any, Any]:
    """Design without the first model, and the wins of the first answer."""
    x = np.zeros((len(table["winner"]), len(models)))
    for row, (a, b) in enumerate(zip(table["model_a"], table["model_b"], strict=True)):
        x[row, models.index(a)], x[row, models.index(b)] = 1, -1
    return x[:, 1:], np.array([WORDS.tolist().index(word) / 2 for word in table["winner"]])


@pytest.mark.parametrize("clustered", [False, True])
def test_strengths_and_errors_are_those_of_statsmodels(clustered: bool) -> None:
    table = simulated(np.random.default_rng(0), np.array([1.0, 0.5, 0.0, -0.5]), 900, questions=80)
    result = leaderboard.battles(table, group=None if clustered else "")
    x, y = regression(table, result.models)
    robust: dict[str, Any] = {"cov_type": "HC0"}
    if clustered:
        robust = {"cov_type": "cluster", "cov_kwds": {"groups": np.array(table["question_id"])}}
    fit = sm.GLM(y, x, family=sm.families.Binomial()).fit(**robust)
    centre = np.vstack([np.zeros(3), np.eye(3)]) - 1 / 4
    np.testing.assert_allclose(result.strength, centre @ fit.params, atol=1e-8)
    errors = np.sqrt(np.diag(centre @ fit.cov_params() @ centre.T))
    np.testing.assert_allclose(result.stderr, errors, rtol=0.01)
    assert result.cluster == ("question_id" if clustered else "")


def test_style_is_found_and_the_other_fit_is_that_of_statsmodels() -> None:
    table = simulated(np.random.default_rng(1), np.array([0.6, 0.2, -0.8]), 3000, style=1.0)
    result = leaderboard.battles(table)
    assert [effect.name for effect in result.style] == ["first position", "length"]
    position, length = result.style
    assert length.effect.low > 0
    assert length.alone.low > 0.5
    assert position.effect.low < 0 < position.effect.high
    x, y = regression(table, result.models)
    a, b = (np.array(table[name], dtype=float) for name in ("length_a", "length_b"))
    z = (a - b) / (a + b)
    design = np.column_stack([x, np.ones(len(y)), z / z.std()])
    fit = sm.GLM(y, design, family=sm.families.Binomial()).fit(cov_type="HC0")
    assert length.effect.value == pytest.approx(fit.params[-1])
    assert length.effect.stderr == pytest.approx(fit.bse[-1], rel=0.01)


def test_rank_sets_contain_the_true_ranks() -> None:
    rng, trials, wrong, covered = np.random.default_rng(2), 60, 0, 0
    strength = np.array([0.8, 0.0, 0.0, -0.8])
    for _ in range(trials):
        wrong += leaderboard.battles(simulated(rng, np.zeros(4), 300)).separated > 0
        result = leaderboard.battles(simulated(rng, strength, 300))
        order = [int(name[1:]) for name in result.models]
        rank = np.array([1, 2, 2, 4])[order], np.array([1, 3, 3, 4])[order]
        covered += bool(((result.rank_low <= rank[0]) & (result.rank_high >= rank[1])).all())
    assert wrong <= binom.ppf(0.9999, trials, 0.05)
    assert covered >= binom.ppf(0.0001, trials, 0.95)


def test_models_without_a_finite_strength_are_left_out() -> None:
    table = simulated(np.random.default_rng(3), np.zeros(3), 200)
    for name, other in (("model_a", "model_b"), ("model_b", "model_a")):
        table[name] += ["best"] * 5
        table[other] += ["m0"] * 5
        table["winner"] += [name] * 5
        for column in ("length_a", "length_b"):
            table[column] += [1] * 5
    result = leaderboard.battles(table)
    assert (result.left_out, len(result.models), result.n_battles) == (("best",), 3, 200)


@pytest.mark.parametrize(
    "word", ["tie (bothbad)", "both bad", "neither", "tie(all bad)", "Tie-Both-Bad", "both_bad"]
)
def test_both_bad_is_a_tie(word: str) -> None:
    rows = [{"model_a": "x", "model_b": "y", "winner": winner} for winner in ("x", "b", word, "tie", "A")]
    result = leaderboard.battles(rows)
    assert (result.ties, result.both_bad, result.n_battles) == (2, 1, 5)
    assert result.models[0] == "x"


@pytest.mark.parametrize("blank", [None, "", "nan", "None", float("nan")])
def test_rows_without_a_winner_or_with_one_model_are_skipped(blank: Any) -> None:
    rows = [{"model_a": "x", "model_b": "y", "winner": winner} for winner in ("x", "b", "tie", "A")]
    alone = {"model_a": "x", "model_b": "x", "winner": "tie"}
    result = leaderboard.battles([rows[0], {**rows[0], "winner": blank}, alone, *rows[1:]])
    expected = leaderboard.battles(rows)
    assert (result.skipped, expected.skipped, result.n_battles, result.both_bad) == (2, 0, 4, 0)
    np.testing.assert_array_equal(result.strength, expected.strength)


def test_numbers_are_sides_or_shares_and_the_rest_is_refused() -> None:
    def strengths(winners: list[Any]) -> Any:
        rows = [{"model_a": "x", "model_b": "y", "winner": winner} for winner in winners]
        return leaderboard.battles(rows).strength

    expected = strengths(["a", "b", "tie", "a"])
    np.testing.assert_array_equal(strengths([1, 0, 0.5, 1]), expected)
    np.testing.assert_array_equal(strengths([1, 2, "tie", 1]), expected)
    with pytest.raises(InputError):  # the second model, or a loss of the first?
        strengths([1, 0, 1, 0])


def test_battles_under_other_names_are_refused_with_the_names_that_work() -> None:
    table = simulated(np.random.default_rng(4), np.array([1.0, 0.0, -1.0]), 60)
    other = {"left": table["model_a"], "right_model": table["model_b"], "better": table["winner"]}
    for read in (leaderboard.battles, Outcomes.open):
        with pytest.raises(InputError) as raised:
            read(other)
        columns = dict(re.findall(r"--column (\w+)=(\w+)", str(raised.value)))
        result = leaderboard.battles(other, columns=columns)
        np.testing.assert_array_equal(result.strength, leaderboard.battles({k: table[k] for k in columns}).strength)


@pytest.mark.parametrize("winner", ["nobody", "", 7])
def test_an_unknown_winner_is_refused(winner: Any) -> None:
    with pytest.raises(InputError):
        leaderboard.battles([{"model_a": "x", "model_b": "y", "winner": winner}])


def test_battles_are_no_scores_and_the_command_line_ranks_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = simulated(np.random.default_rng(4), np.array([1.0, 0.0, -1.0]), 400)
    path = tmp_path / "battles.jsonl"
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError):
        Outcomes.open(path)
    for command in ("rank", "report"):
        with pytest.raises(SystemExit) as caught:
            main(["leaderboard", command, str(path), "--json"])
        assert caught.value.code in (0, None)
        assert json.loads(capsys.readouterr().out)["models"] == ["m0", "m1", "m2"]
