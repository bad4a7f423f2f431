"""The gate: closed forms, planted drops, error rates, and nothing passes that was not measured."""

from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from hardpan import Outcomes, files
from hardpan.errors import InputError
from hardpan.leaderboard import assert_not_worse, compare, gate

ITEMS = [f"i{k}" for k in range(600)]
TASKS = np.repeat(["a", "b", "c"], 200)


def run(scores, items=ITEMS, tasks=TASKS, **more):
    groups = None if tasks is None else {"task": tasks}
    return Outcomes.from_arrays(np.asarray(scores, dtype=float)[None], ["m"], items, groups, **more)


def draws(seed, count=1, p=0.8, n=600):
    return (np.random.default_rng(seed).random((count, n)) < p).astype(float)


def test_with_a_history_the_limits_are_those_of_the_prediction_of_a_run():
    runs = draws(0, 6)
    result = gate(run(runs[0]), run(runs[5]), history=[run(row) for row in runs[1:5]])
    means = runs.reshape(6, 3, 200).mean(axis=2).mean(axis=1)
    old = means[:5]
    reach = stats.t.ppf(0.95, 4) * old.std(ddof=1) * np.sqrt(1 + 1 / 5)
    assert result.runs == 5
    assert result.difference.value == pytest.approx(means[5] - old.mean())
    assert result.difference.low == pytest.approx(means[5] - old.mean() - reach)
    assert result.difference.high == pytest.approx(means[5] - old.mean() + reach)
    assert result.tasks[1].score_baseline == pytest.approx(runs[:5, 200:400].mean())


def test_several_runs_of_the_candidate_are_averaged():
    runs = draws(1, 8)
    result = gate(run(runs[0]), [run(row) for row in runs[5:]], history=[run(row) for row in runs[1:5]])
    error = runs[:5].mean(axis=1).std(ddof=1) * np.sqrt(1 / 3 + 1 / 5)
    assert result.candidate_runs == 3
    assert result.difference.stderr == pytest.approx(error)


def test_without_a_history_one_task_has_the_interval_of_compare():
    old, new = draws(2, 2)
    result = gate(run(old, tasks=None), run(new, tasks=None))
    both = Outcomes.from_arrays(np.array([new, old]), ["new", "old"], ITEMS)
    pair = compare(both, "new", "old", confidence=0.9)
    assert (result.runs, result.difference) == (0, pair.difference)
    assert {*result.flipped.tolist()} == {*pair.differing.tolist()}


def test_half_widths_of_tasks_join_by_squares():
    old, new = draws(3, 2)
    result = gate(run(old), run(new))
    parts = [gate(run(old[at], ITEMS[at], None), run(new[at], ITEMS[at], None)).difference for at in SLICES]
    assert result.difference.value == pytest.approx(np.mean([part.value for part in parts]))
    below = np.sqrt(sum((part.value - part.low) ** 2 for part in parts)) / 3
    assert result.difference.low == pytest.approx(result.difference.value - below)


SLICES = [slice(0, 200), slice(200, 400), slice(400, 600)]


def test_clusters_widen_the_interval():
    group = np.repeat(np.arange(60), 10)
    rng = np.random.default_rng(4)
    shift = np.repeat(rng.random(60) < 0.2, 10)
    old, new = draws(4)[0], np.where(shift, 1.0, draws(4)[0])
    groups = {"passage": group}
    clustered, plain = (
        gate(*(Outcomes.from_arrays(x[None], ["m"], ITEMS, groups) for x in (old, new)), group=name)
        for name in (None, "")
    )
    assert clustered.cluster == "passage"
    assert plain.cluster == ""
    assert clustered.difference.high - clustered.difference.low > 1.5 * (
        plain.difference.high - plain.difference.low
    )


def test_a_large_drop_fails_and_an_equal_run_passes():
    history = [run(row) for row in draws(5, 4)]
    baseline = run(draws(6)[0])
    assert gate(baseline, run(draws(7, p=0.6)[0]), history=history).verdict == "fail"
    same = gate(baseline, baseline, margin=0.02)
    assert (same.verdict, same.equivalent, same.exit_code) == ("pass", True, 0)
    better = gate(baseline, run(np.ones(600)))
    assert (better.verdict, better.equivalent) == ("pass", False)


@pytest.mark.parametrize("past", [0, 2, 5])
def test_unchanged_candidates_fail_in_at_most_five_percent(past):
    rng, fails, trials = np.random.default_rng(8), 0, 200
    ease = rng.normal(0.8, 1.0, 600)
    for _ in range(trials):
        effect = 0.2 * rng.normal(size=(past + 2, 1)) if past else np.zeros((2, 1))
        runs = [run(row) for row in rng.random((past + 2, 600)) < 1 / (1 + np.exp(-ease - effect))]
        result = gate(runs[0], runs[1], margin=0.02, history=runs[2:] or None)
        fails += result.verdict == "fail"
    assert fails <= stats.binom.ppf(0.999, trials, 0.05)


def test_the_smallest_margin_passes_in_80_percent():
    rng, items = np.random.default_rng(9), 600
    ease = rng.normal(0.8, 1.0, items)
    for past in (0, 9):
        results = []
        for _ in range(150):
            runs = [run(row) for row in rng.random((past + 2, items)) < 1 / (1 + np.exp(-ease))]
            results.append(gate(runs[0], runs[1], history=runs[2:] or None))
        margin = np.median([result.smallest_margin for result in results])
        passed = np.mean([result.difference.low > -margin for result in results])
        assert 0.7 < passed < 0.9


def test_items_and_runs_that_are_needed_decide_about_as_often_as_stated():
    old, new = draws(10, 2)
    result = gate(run(old), run(new), margin=0.01)
    assert result.reason == "uncertain"
    assert result.items_needed > 600
    runs = draws(11, 6)
    result = gate(run(runs[0]), run(runs[0]), margin=0.001, history=[run(row) for row in runs[1:]])
    assert result.reason == "uncertain"
    assert np.isnan(result.items_needed)
    assert result.runs_needed > 1 or np.isnan(result.runs_needed)


@pytest.mark.parametrize("kept", [5, 150, 530])
def test_a_candidate_with_few_items_is_cannot_tell(kept):
    old = draws(12)[0]
    result = gate(run(old), run(np.ones(kept), ITEMS[:kept], TASKS[:kept]), margin=0.5)
    assert (result.verdict, result.exit_code) == ("cannot tell", 3)
    assert result.reason == ("missing tasks" if kept <= 400 else "few shared items")
    assert result.difference_unshared_wrong == pytest.approx(
        np.mean([(np.arange(600)[at] < kept).mean() - old[at].mean() for at in SLICES])
    )


def test_missing_scores_are_not_measured_and_few_of_them_are_stated():
    old = draws(13)[0]
    new = old.copy()
    new[TASKS == "b"] = np.nan
    assert gate(run(old), run(new), margin=0.5).reason == "missing tasks"
    new = old.copy()
    new[::20] = np.nan
    result = gate(run(old), run(new), margin=0.05)
    assert (result.verdict, result.unshared) == ("pass", 30)
    baseline_lacks = gate(run(np.ones(5), ITEMS[:5], None), run(np.ones(600), tasks=None), margin=0.5)
    assert baseline_lacks.reason == "few shared items"


@pytest.mark.parametrize("unparsed", ["wrong", "missing"])
def test_answers_without_a_score_that_count_as_wrong_are_stated(unparsed):
    rows = [{"model": "m", "item": f"i{k}", "score": k % 2} for k in range(100)]
    blank = [row | {"score": None} if k < 40 else row for k, row in enumerate(rows)]
    old, new = (Outcomes.open(side, unparsed=unparsed) for side in (rows, blank))
    result = gate(old, new, margin=0.05)
    assert (result.unscored, result.unshared) == (((0, 40), 0) if unparsed == "wrong" else ((0, 0), 40))
    assert result.verdict == ("fail" if unparsed == "wrong" else "cannot tell")
    assert ("40 answers" in " ".join(result.view().sections[0].warnings)) == (unparsed == "wrong")


def test_other_keys_or_tasks_are_other_items():
    old = draws(14)[0]
    key = ["ABCD"[k % 4] for k in range(600)]
    shifted = run(old, key=[*key[1:], "A"])
    with pytest.raises(InputError):
        gate(run(old, key=key), shifted)
    assert gate(run(old, key=key), run(old), margin=0.05).verdict == "pass"
    assert gate(run(old), run(old, tasks=np.roll(TASKS, 100)), margin=0.5).verdict == "cannot tell"


def test_tasks_that_only_the_candidate_has_are_left_out():
    old = draws(15)[0]
    extra = run(np.r_[old, np.zeros(50)], [*ITEMS, *(f"n{k}" for k in range(50))], np.r_[TASKS, ["new"] * 50])
    result = gate(run(old), extra, margin=0.05)
    assert (result.verdict, result.new_items, len(result.tasks)) == ("pass", 50, 3)


def test_past_runs_without_the_items_do_not_count():
    runs = draws(16, 5)
    short = [run(row[:300], ITEMS[:300], TASKS[:300]) for row in runs[2:]]
    with pytest.raises(InputError) as refused:
        gate(run(runs[0]), run(runs[1]), history=short)
    assert refused.value.argument == "history"


def test_copies_in_a_history_are_counted():
    old = draws(17)[0]
    result = gate(run(old), run(old), history=[run(old)] * 3)
    assert (result.equal_runs, result.difference.stderr, result.verdict) == (3, 0.0, "pass")


def test_task_losses_are_corrected_for_their_number():
    rng = np.random.default_rng(18)
    tasks = np.repeat([f"t{k:02}" for k in range(20)], 30)
    old = rng.random(600) < 0.8
    new = np.where(tasks == "t03", False, old)
    result = gate(run(old, tasks=tasks), run(new, tasks=tasks), margin=0.1)
    assert [task.task for task in result.tasks if task.worse] == ["t03"]
    single = gate(run(old[90:120], ITEMS[90:120], None), run(new[90:120], ITEMS[90:120], None))
    assert result.tasks[3].p_worse == pytest.approx(20 * single.tasks[0].p_worse)


def test_flips_are_listed_with_the_largest_loss_first():
    old, new = np.array([1, 0, 1, 0.5]), np.array([0, 1, 1, 0.2])
    result = gate(run(old, ITEMS[:4], None), run(new, ITEMS[:4], None))
    assert result.flipped.tolist() == ["i0", "i3", "i1"]
    assert result.flipped_scores.tolist() == [[1, 0], [0.5, 0.2], [0, 1]]


def test_the_card_and_junit_say_the_verdict(tmp_path):
    old, new = draws(19)[0], draws(20, p=0.6)[0]
    names = [f"<b>|`{item}" for item in ITEMS]
    result = gate(run(old, names), run(new, names))
    card = result.save(tmp_path)
    text = card.read_text(encoding="utf-8")
    assert card.name == "card.md"
    assert text.startswith("## Fail: ")
    assert "<b>" not in text
    assert all(line.count("|") - line.count("\\|") == 5 for line in text.splitlines() if "\\<b\\>" in line)
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), len(suite.findall("testcase"))) == ("4", "1", 4)
    again = files.load(tmp_path / "report.json")
    assert (again.verdict, again.tasks, again.view().headline) == ("fail", result.tasks, result.headline)
    assert not (tmp_path / "index.html").exists()


def test_junit_agrees_with_the_exit_code():
    old = draws(21)[0]
    for cannot_tell, kind, code in (("", "failure", 3), ("fail", "failure", 1), ("pass", "skipped", 0)):
        result = gate(run(old), run(old), margin=0.0, cannot_tell=cannot_tell)
        assert (result.verdict, result.exit_code) == ("cannot tell", code)
        case = ElementTree.fromstring(result.view().downloads["junit.xml"].encode())[0][0]
        assert case.find(kind) is not None


def test_the_assertion_passes_and_fails():
    old, new = draws(22)[0], draws(23, p=0.6)[0]
    assert assert_not_worse(run(old), run(old), margin=0.02).verdict == "pass"
    with pytest.raises(AssertionError):
        assert_not_worse(run(old), run(new))
    with pytest.raises(AssertionError):
        assert_not_worse(run(old), run(draws(24)[0]), margin=0.0)
    assert assert_not_worse(run(old), run(draws(24)[0]), margin=0.0, cannot_tell="pass").verdict == "cannot tell"


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"margin": 1}, "margin"),
        ({"margin": -0.01}, "margin"),
        ({"confidence": 0.4}, "confidence"),
        ({"cannot_tell": "skip"}, "cannot_tell"),
        ({"history": [run(np.ones(600))]}, "history"),
        ({"history": 3}, "history"),
        ({"candidate": Outcomes.from_arrays(np.ones((2, 600)), items=ITEMS)}, "candidate"),
        ({"candidate": Outcomes.from_arrays(np.ones((1, 600)))}, "candidate"),
        ({"group": "passage"}, "group"),
    ],
)
def test_bad_input_names_the_argument(options, argument):
    arguments = {"baseline": run(np.ones(600)), "candidate": run(np.ones(600))} | options
    with pytest.raises(InputError) as refused:
        gate(arguments.pop("baseline"), arguments.pop("candidate"), **arguments)
    assert refused.value.argument == argument
