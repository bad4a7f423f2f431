"""Suspect keys: planted wrong keys, ties, repeats, corrected scores."""

from dataclasses import replace

import numpy as np
import pytest
from tests.outcomes.logs import choice_row, write_lm_eval

from hardpan import Outcomes
from hardpan.errors import InputError
from hardpan.leaderboard import correct_keys, rank, summarize, suspect_keys
from hardpan.leaderboard.keys import read_errata


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 200)
    right = rng.random((12, 200)) < 0.75
    said = np.where(right, truth, rng.integers(0, 4, (12, 200)))
    key = truth.copy()
    key[:10] = (truth[:10] + 1) % 4
    letters = np.array(list("ABCD"))
    return Outcomes.from_arrays((said == key).astype(float), answers=letters[said], key=letters[key]), letters[
        truth
    ]


def test_planted_wrong_keys_come_first(planted):
    outcomes, truth = planted
    found = suspect_keys(outcomes)
    frame = found.to_frame("pandas")
    assert list(frame.columns) == ["item", "key", "suggested", "margin", "models"]
    assert set(frame.item[:10]) == {f"item-{i}" for i in range(10)}
    for item, suggested in zip(frame.item[:10], frame.suggested[:10], strict=True):
        assert suggested == truth[int(item.split("-")[1])]
    assert frame.margin.is_monotonic_decreasing
    assert (frame.models == 12).all()


def test_margin_is_a_difference_of_shares():
    answers = [["A"], ["B"], ["B"], ["C"], [""]]
    outcomes = Outcomes.from_arrays(np.zeros((5, 1)), answers=answers, key=["A"])
    found = suspect_keys(outcomes)
    assert found.margin[0] == pytest.approx(2 / 4 - 1 / 4)
    assert (found.models[0], found.suggested[0]) == (4, "B")


def test_review_sheet_has_what_models_say_and_the_question():
    answers = [["A", "B"], ["B", "B"], ["B", "A"], ["B", "A"]]
    outcomes = Outcomes.from_arrays(
        np.zeros((4, 2)), answers=answers, key=["A", "A"], groups={"question": ["one?", "two?"]}
    )
    found = suspect_keys(outcomes)
    assert found.votes[0] == {"B": 0.75, "A": 0.25}
    sheet = found.view().downloads["review.csv"].splitlines()
    assert "one?" in sheet[1]
    assert "B: 75 %" in sheet[1]
    assert len(sheet) == 3


def test_right_answers_count_for_the_key_however_they_are_worded():
    answers = [["it is 4"], ["4"], ["five"], ["five"]]
    found = suspect_keys(Outcomes.from_arrays([[1], [1], [0], [0]], answers=answers, key=["4"]))
    assert found.margin[0] == pytest.approx(0.0)


def test_runs_of_one_model_share_its_vote():
    answers = np.array([[["A", "B"]], [["B", "B"]]])
    found = suspect_keys(Outcomes.from_arrays(np.zeros((2, 1, 2)), answers=answers, key=["A"]))
    assert found.margin[0] == pytest.approx(0.75 - 0.25)


def test_equal_margins_share_a_rank():
    answers = [["B", "B", "A"], ["B", "B", "A"]]
    found = suspect_keys(Outcomes.from_arrays(np.zeros((2, 3)), answers=answers, key=["A", "A", "A"]))
    assert found.position.tolist() == [1, 1, 3]
    assert found.suggested[2] == ""


def test_independent_models_count_one_each():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 2, (6, 5000)).astype(float)
    answers = np.where(scores == 1, "A", "B")
    found = suspect_keys(Outcomes.from_arrays(scores, answers=answers, key=["A"] * 5000))
    assert found.effective_models == pytest.approx(6, rel=0.15)
    same = Outcomes.from_arrays(np.tile(scores[:1], (6, 1)), answers=np.tile(answers[:1], (6, 1)), key=["A"] * 5000)
    assert suspect_keys(same).effective_models == pytest.approx(1)


def test_corrected_keys_give_the_true_scores(planted):
    outcomes, truth = planted
    new = {f"item-{i}": truth[i] for i in range(10)}
    result = correct_keys(outcomes, new)
    rows = [outcomes.models.index(name) for name in result.models]
    np.testing.assert_allclose(result.score_after, (outcomes.answers == truth).mean(axis=1)[rows])
    np.testing.assert_allclose(result.score_before, outcomes.scores.mean(axis=1)[rows])
    assert len(result.items) == 10
    assert correct_keys(outcomes, {}).rank_after.tolist() == correct_keys(outcomes, {}).rank_before.tolist()


def test_what_is_missing_is_named():
    with pytest.raises(InputError, match="answers"):
        suspect_keys(Outcomes.from_arrays(np.eye(3)))
    outcomes = Outcomes.from_arrays(np.eye(2), answers=[["A", "B"], ["B", "A"]], key=["A", "A"])
    with pytest.raises(InputError, match="new_keys"):
        correct_keys(outcomes, {"no such item": "A"})


def test_an_item_that_few_models_answered_is_not_counted_and_follows_its_ties():
    answers = [["", "B"]] * 4 + [["B", "B"]]
    scores = np.where(np.array(answers) == "", np.nan, 0.0)
    suspects = suspect_keys(Outcomes.from_arrays(scores, answers=answers, key=["A", "A"]))
    assert (suspects.margin.tolist(), suspects.models.tolist(), suspects.suspicious) == ([1, 1], [5, 1], 1)
    assert suspects.position.tolist() == [1, 1]


@pytest.mark.parametrize("models", [3, 10, 40])
def test_no_key_is_suspected_by_answers_in_free_text(models):
    """Wrong answers are phrases that hardly repeat; of a choice among four they do."""
    rng = np.random.default_rng(models)
    right = rng.random((models, 150)) < rng.uniform(0.2, 0.9, 150)
    phrases = np.char.add("the answer, more or less ", rng.integers(0, 3000, right.shape).astype(str))
    letters = np.array(list("BCD"))[rng.integers(0, 3, right.shape)]
    found = []
    for wrong in (phrases, letters):
        answers = np.where(right, "A", wrong)
        outcomes = Outcomes.from_arrays(right.astype(float), answers=answers, key=["A"] * 150)
        found.append(suspect_keys(outcomes).suspicious)
        assert (summarize(outcomes).keys is None) == (found[-1] == 0)
    assert found[0] == 0
    assert (found[1] > 0) == (models > 3)


def test_dropped_items_count_for_no_model(tmp_path):
    right = np.random.default_rng(0).random((3, 60)) < [[0.9], [0.6], [0.5]]
    outcomes = Outcomes.from_arrays(right.astype(float))
    dropped = outcomes.items[:20].tolist()
    result = correct_keys(outcomes, {}, dropped)
    after = rank(outcomes.select(items=outcomes.items[20:]))
    score = dict(zip(after.models, after.score, strict=True))
    assert result.score_after == pytest.approx([score[name] for name in result.models])
    assert result.dropped == tuple(dropped)
    for names in (["no such item"], outcomes.items.tolist()):
        with pytest.raises(InputError) as caught:
            correct_keys(outcomes, {}, names)
        assert caught.value.argument == "dropped"
    sheet = tmp_path / "errata.csv"
    sheet.write_text("item,correct_key,drop\nitem-1,,yes\nitem-2,B,no\nitem-3,C,x\nitem-4,,\n")
    assert read_errata(sheet) == ({"item-2": "B"}, ("item-1", "item-3"))
    sheet.write_text("item,drop\nitem-1,perhaps\n")
    with pytest.raises(InputError):
        read_errata(sheet)


def test_a_reference_is_not_ranked_and_its_failures_are_a_sheet():
    scores = (np.random.default_rng(1).random((4, 100)) < 0.6).astype(float)
    scores[3] = np.arange(100) >= 7
    scores[:3, :4] = 0
    outcomes = Outcomes.from_arrays(scores, models=["a", "b", "c", "gold"])
    board = summarize(outcomes, reference="gold")
    assert set(board.ranking.models) == {"a", "b", "c"}
    assert set(board.reference.items) == {f"item-{k}" for k in range(7)}
    assert board.reference.nobody == int((scores[:3] == 0).all(axis=0).sum())
    view = board.view()
    assert "reference" in [problem.kind for problem in view.problems]
    assert view.downloads["errata.csv"].count("\n") == 8
    with pytest.raises(InputError) as caught:
        summarize(outcomes, reference="nobody")
    assert caught.value.argument == "reference"


def test_always_giving_one_answer_is_a_baseline():
    rng = np.random.default_rng(2)
    key = np.where(np.arange(200) < 90, "A", rng.choice(list("BCD"), 200))
    right = (rng.random((2, 200)) < [[0.8], [0.3]]).astype(float)
    board = summarize(Outcomes.from_arrays(right, models=["good", "poor"], key=key))
    (blind,) = board.blind
    assert (blind.rule, blind.models_below) == ("the most frequent answer, 'A'", ("poor",))
    assert blind.score.value == pytest.approx((key == "A").mean())
    assert "blind" in [problem.kind for problem in board.view().problems]
    free = Outcomes.from_arrays(right, key=[f"text {k}" for k in range(200)])
    assert summarize(free).blind == ()


def test_the_longest_choice_and_a_position_are_baselines(tmp_path):
    rng = np.random.default_rng(5)
    rows = [choice_row(k, rng.normal(size=4).tolist(), 3 if k < 30 else int(rng.integers(4))) for k in range(50)]
    rows[0]["arguments"]["gen_args_2"] = rows[0]["arguments"]["gen_args_3"]  # two longest choices share the point
    outcomes = Outcomes.open(write_lm_eval(tmp_path / "m", "t", rows))
    last = np.array([row["target"] == 3 for row in rows], dtype=float)
    np.testing.assert_array_equal(outcomes.blind["choice 4"], last)
    np.testing.assert_array_equal(outcomes.blind["the longest choice"], [0.5, *last[1:]])
    found = {blind.rule: blind.score.value for blind in summarize(outcomes).blind}
    assert found["the longest choice"] == pytest.approx(last.mean() - 0.01)
    assert summarize(replace(outcomes, key=None)).blind[1].rule == "choice 4"
