"""Which columns are the models, items and runs: never the wrong ones, and every remedy works at once."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardpan import Outcomes
from hardpan.errors import InputError

MODELS = ("small", "medium", "large")
RNG = np.random.default_rng(0)


def table(score: str = "score", **factors: Any) -> list[dict[str, Any]]:
    """One row for each combination of the values of the columns, with a random score."""
    rows = [dict(zip(factors, values, strict=True)) for values in itertools.product(*factors.values())]
    return [{**row, score: int(RNG.random() < 0.5)} for row in rows]


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def remedies(message: str) -> list[dict[str, str]]:
    """The choices that a message offers: columns by role."""
    decide = message.partition("decide with ")[2].partition(" (in Python")[0]
    return [
        dict(part.strip("'").split("=", 1) for part in re.split(r" ?--column ", choice) if part)
        for choice in decide.split(" or ")
    ]


SAMPLES = [
    {**row, "question_id": f"q{int(row['sample_id'][1:]) // 8}"} for row in table(sample_id=numbered("s", 80))
]
AMBIGUOUS: dict[str, tuple[list[dict[str, Any]], set[str], dict[str, tuple[int, int]]]] = {
    "prompts and tickets": (
        table(model=MODELS, prompt_id=numbered("p", 3), ticket=numbered("t", 20)),
        {"prompt_id", "ticket"},
        {"item=ticket": (3, 20), "item=prompt_id": (3, 3), "item=prompt_id,ticket": (3, 60)},
    ),
    "two ids": (SAMPLES, {"question_id", "sample_id"}, {"item=question_id": (1, 10), "item=sample_id": (1, 80)}),
    "agents and models": (
        table("resolved", agent=("x", "y"), model=MODELS, task_id=numbered("t", 12)),
        {"agent", "model"},
        {"model=agent,model": (6, 12), "model=model": (3, 12), "model=agent": (2, 12)},
    ),
    "an unknown column of models": (
        table(who=MODELS, item=numbered("i", 9)),
        {"who"},
        {"model=who": (3, 9), "run=who": (1, 9)},
    ),
    "prompts as models": (
        table(prompt=numbered("v", 3), ticket=numbered("t", 20)),
        {"prompt", "ticket"},
        {"model=prompt item=ticket": (3, 20)},
    ),
    "models and folds without known names": (
        [
            {**row, "seed": 1000 + 10 * int(row["fold"]) + int(row["task_id"][1:])}
            for row in table(who=MODELS, fold=range(5), task_id=numbered("t", 8))
        ],
        {"who", "fold"},
        {"model=who run=fold": (3, 8), "model=fold run=who": (5, 8)},
    ),
    "templates and runs": (
        table(model=MODELS, item=numbered("i", 9), template=("short", "long"), temperature=("0.0", "0.7")),
        {"template", "temperature"},
        {"item=item": (3, 9), "model=model,template item=item": (6, 9)},
    ),
    "items without a known name": (
        table(model=MODELS, ticket=numbered("t", 12)),
        {"ticket"},
        {"item=ticket": (3, 12)},
    ),
}


@pytest.mark.parametrize("form", AMBIGUOUS)
def test_ambiguous_columns_are_refused_and_every_remedy_works(form: str) -> None:
    rows, named, sizes = AMBIGUOUS[form]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "columns"
    offered = remedies(str(raised.value))
    assert named <= {name for choice in offered for value in choice.values() for name in value.split(",")}
    known = {" ".join(f"{role}={name}" for role, name in sorted(c.items(), reverse=True)): c for c in offered}
    opened = {text: Outcomes.open(rows, columns=choice) for text, choice in known.items()}
    for text, expected in sizes.items():
        text = " ".join(sorted(text.split(), reverse=True))
        assert (opened[text].n_models, opened[text].n_items) == expected
    # Whatever the items are, every row counts: the means of the models are those of the rows.
    score = "resolved" if "resolved" in rows[0] else "score"
    for outcomes in opened.values():
        assert np.isclose(np.nanmean(outcomes.scores), np.mean([row[score] for row in rows]))
        assert np.isfinite(outcomes.scores).sum() == len(rows)


def test_columns_that_do_not_belong_to_the_design_are_no_reason_to_refuse() -> None:
    rows = table(model=MODELS, item=numbered("i", 40), run=range(2))
    for number, row in enumerate(rows):
        row |= {"uuid": f"u{number}", "tokens": int(RNG.integers(10, 900)), "seconds": float(RNG.random())}
    assert Outcomes.open(rows).scores.shape == (3, 40, 2)
    without = [{name: value for name, value in row.items() if name != "run"} for row in rows]
    outcomes = Outcomes.open(without)  # what differs in a cell recurs nowhere: the rows are repeats
    assert outcomes.scores.shape == (3, 40, 2)
    assert np.isfinite(outcomes.scores).all()


def test_equal_rows_count_once() -> None:
    rows = table(model=MODELS, item=numbered("i", 10))
    assert Outcomes.open(rows + rows[:5]).scores.shape == (3, 10)


@pytest.mark.parametrize("name", ["framework", "system", "agent", "generator", "method", "solver"])
def test_other_names_of_models(name: str) -> None:
    outcomes = Outcomes.open(table(**{name: MODELS, "item": numbered("i", 5)}))
    assert outcomes.models == MODELS


def test_long_texts_in_rows_are_items() -> None:
    questions = [
        f"A farmer has {k} sheep and sells a third of them at the market; how many are left?" for k in range(30)
    ]
    for name in ("", "text", "q"):
        rows = [{name: question, "gpt": k % 2, "claude": k % 3 == 0} for k, question in enumerate(questions)]
        outcomes = Outcomes.open(rows)
        assert outcomes.models == ("gpt", "claude")
        assert outcomes.n_items == 30


def test_several_columns_above_the_range_need_one_option() -> None:
    rows = [
        {"item": f"q{k}", "year": 2000 + k % 3, "level": k % 5 + 1, "gpt": k % 2, "claude": 1} for k in range(9)
    ]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "group"
    outcomes = Outcomes.open(rows, group="year")
    assert outcomes.models == ("gpt", "claude")
    assert list(outcomes.groups) == ["year", "level"]


def test_another_score_is_offered_where_the_first_has_no_range() -> None:
    rows = [{**row, "score": -3.5, "acc": row["score"]} for row in table(model=MODELS, item=numbered("i", 6))]
    with pytest.raises(InputError, match=r"\bacc\b"):
        Outcomes.open(rows)
    assert Outcomes.open(rows, metric="acc").scores.shape == (3, 6)


def test_losses_of_minus_one_are_no_failures() -> None:
    rows = [{"model": m, "item": f"i{k}", "score": k % 3 - 1} for m in MODELS for k in range(9)]
    with pytest.raises(InputError, match="-1"):
        Outcomes.open(rows)


def test_an_unknown_score_is_not_the_name_of_a_model() -> None:
    rows = [{"task_id": f"t{k // 4}", "points": k % 2, "trial": k % 4} for k in range(40)]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "columns"
    outcomes = Outcomes.open(rows, columns={"score": "points"})
    assert (outcomes.models, outcomes.scores.shape) == (("table",), (1, 10, 4))


def test_other_columns_beside_labels_are_no_predictions() -> None:
    rows = [
        {"id": k, "question": f"Which one is it, {k}?", "label": k % 3, "context": f"text {k}"} for k in range(12)
    ]
    with pytest.raises(InputError):
        Outcomes.open(rows)
    rows = [{**row, "net": (row["label"] if k % 4 else 0)} for k, row in enumerate(rows)]
    assert Outcomes.open(rows).models == ("net",)


def test_files_with_scores_of_the_same_cells_are_parts_or_repeats(tmp_path: Path) -> None:
    scores = {name: RNG.random((2, 30)) < 0.5 for name in ("math", "law")}
    for name, (small, large) in scores.items():
        rows = "".join(f"{item},{a:d},{b:d}\n" for item, (a, b) in enumerate(zip(small, large, strict=True)))
        (tmp_path / f"{name}.csv").write_text("id,small,large\n" + rows)
    with pytest.raises(InputError) as raised:
        Outcomes.open(tmp_path)
    assert raised.value.argument == "columns"
    choices = remedies(str(raised.value))
    assert [list(choice) for choice in choices] == [["task"], ["run"]]
    parts, repeats = (Outcomes.open(tmp_path, columns=choice) for choice in choices)
    np.testing.assert_array_equal(parts.scores, np.concatenate([scores["law"], scores["math"]], axis=1))
    assert parts.groups["file"].tolist() == ["law"] * 30 + ["math"] * 30
    np.testing.assert_array_equal(repeats.scores, np.stack([scores["law"], scores["math"]], axis=2))


def test_seeds_of_several_files_are_runs(tmp_path: Path) -> None:
    scores = (RNG.random((3, 20)) < 0.5).astype(int)
    for seed, values in enumerate(scores):
        rows = "".join(f"m,q{item},{seed},{score}\n" for item, score in enumerate(values))
        (tmp_path / f"s{seed}.csv").write_text("model,item,seed,score\n" + rows)
    np.testing.assert_array_equal(Outcomes.open(tmp_path).scores[0], scores.T)


def test_metrics_of_one_model_are_no_models() -> None:
    rows = [{"id": k, "bleu": k / 30, "is_fluent": k % 2, "length": 40 + k} for k in range(20)]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "metric"
    assert Outcomes.open(rows, metric="bleu").scores.tolist() == [[k / 30 for k in range(20)]]


def test_a_column_of_metrics_is_chosen_from() -> None:
    rows = [{**row, "metric": name} for name in ("f1", "em") for row in table(model=MODELS, item=numbered("i", 9))]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "metric"
    expected = np.array([row["score"] for row in rows if row["metric"] == "em"]).reshape(3, 9)
    np.testing.assert_array_equal(Outcomes.open(rows, metric="em").scores, expected)


def test_rows_without_a_model_or_item_are_refused() -> None:
    rows = [{"model": "m", "item": f"i{k}", "score": k % 2} for k in range(9)]
    for name in ("model", "item"):
        with pytest.raises(InputError):
            Outcomes.open([{**rows[0], name: None}, *rows[1:]])


def test_boards_of_whole_test_sets_are_no_items() -> None:
    board = [{"rank": k + 1, "team": f"t{k}", "model": f"m{k % 3}", "score": k / 30} for k in range(20)]
    with pytest.raises(InputError):
        Outcomes.open(board)
    percent = [{"model": f"m{k}", "maths": 40.0 + k, "law": 60.0 - k} for k in range(5)]
    with pytest.raises(InputError, match="max_score=100"):
        Outcomes.open(percent)
    assert Outcomes.open(percent, max_score=100).scores[0].tolist() == [0.4, 0.6]


def test_equal_questions_are_items_of_their_own_on_request() -> None:
    rows = [
        {"prompt": f"Which of these {k // 2} sentences is the longest one? " * 3, "a": 1, "b": k % 2}
        for k in range(8)
    ]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert raised.value.argument == "by_order"
    assert Outcomes.open(rows, by_order=True).scores.tolist() == [[1] * 8, [0, 1] * 4]


def board(summaries: str, blank: bool = False) -> tuple[dict[str, list[Any]], np.ndarray]:
    """Three models on 12 items as text, with a column and a row of means or sums."""
    scores = np.random.default_rng(3).integers(0, 2, (12, 3)).astype(float)
    if blank:
        scores[4, 1] = np.nan
    table = np.full((13, 4), np.nan)
    table[:-1, :-1] = scores
    summary = np.nanmean if summaries == "mean" else np.nansum
    table[:-1, -1] = np.round(summary(scores, axis=1), 2)
    table[-1] = np.round(summary(table[:-1], axis=0), 2)
    names = ("small", "medium", "large", "overall")
    cells = [["" if np.isnan(value) else f"{value:g}" for value in column] for column in table.T]
    return {"question": [f"q{k}" for k in range(12)] + ["overall"], **dict(zip(names, cells, strict=True))}, scores


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("summaries", ["mean", "sum"])
def test_means_and_sums_of_the_others_are_no_models_and_no_items(summaries: str, blank: bool) -> None:
    columns, scores = board(summaries, blank)
    read = Outcomes.open(columns)
    assert (read.models, read.n_items, len(read.groups)) == (MODELS, 12, 0)
    np.testing.assert_array_equal(read.scores, scores.T)
    assert any("'overall'" in note for note in read.notes)
    names = list(columns)[1:]
    transposed = {"model": names, **{q: [columns[n][k] for n in names] for k, q in enumerate(columns["question"])}}
    assert Outcomes.open(transposed).scores.shape == (3, 12)


def test_models_alike_are_no_summaries() -> None:
    rng = np.random.default_rng(4)
    for _ in range(200):
        m, n = rng.integers(3, 7), rng.integers(3, 30)
        scores = (rng.random((m, n)) < rng.random(n)).astype(float)
        scores[1], scores[2] = scores[0], 0
        columns = {
            "question": [f"q{k}" for k in range(n)],
            **{f"m{k}": row for k, row in enumerate(scores.tolist())},
        }
        assert Outcomes.open(columns).scores.shape == (m, n)


SIDES: dict[str, Any] = {  # scores by case, without a word that says what a case is
    "records": [{"name": f"env_{k}", "is_stable": k % 2 == 0, "halted": False} for k in range(8)],
    "records with one score": [{"name": f"env_{k}", "done": k % 2} for k in range(8)],
    "objects": {f"env_{k}": {"is_stable": k % 2 == 0} for k in range(8)},
}


@pytest.mark.parametrize("form", SIDES)
def test_cases_that_may_be_items_or_models_are_refused_and_both_readings_work(form: str) -> None:
    with pytest.raises(InputError) as raised:
        Outcomes.open(SIDES[form])
    assert raised.value.argument == "columns"
    message = str(raised.value)
    first, second = message.split("decide with ")[1].split(" (in Python")[0].split(" or ")
    shapes = []
    for remedy in (first, second):
        columns = dict(re.findall(r"--column (\w+)=(\w+)", remedy))
        rows = dict(re.findall(r"--set (rows)=(\w+)", remedy))
        shapes.append(Outcomes.open(SIDES[form], columns=columns, **rows).scores.shape)
    assert shapes == [(1, 8), (8, 2 if form == "records" else 1)]


@pytest.mark.parametrize("beside", ["Failed", "Total"])
@pytest.mark.parametrize("max_score", [None, 100.0])
def test_counts_of_one_set_have_other_names(beside: str, max_score: float | None) -> None:
    other = [9, 7, 8] if beside == "Failed" else [30, 30, 30]
    counts = {"System": ["a", "b", "c"], "Passed": [21, 23, 22], beside: other}
    for table_of_counts in (counts, counts | {"Dataset": ["law"] * 3}):
        read = Outcomes.open(table_of_counts, max_score=max_score)
        assert read.totals is not None
        assert (read.scores[:, 0] * 30).round().tolist() == [21, 23, 22]
    rows = {**counts, "score": [0.7, 0.8, 0.9], "question_id": ["q"] * 3}
    assert Outcomes.open(rows, max_score=max_score).n_models == 3
    again = {name: [*cells, *cells] for name, cells in counts.items()}
    with pytest.raises(InputError):  # several rows of a model: not one test set
        Outcomes.open(again, max_score=max_score)


def test_a_number_that_names_the_segments_is_the_item() -> None:
    rows = [{"system": f"s{m}", "quality": (k + m) % 7 / 7, "segment": k} for m in range(3) for k in range(1, 30)]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    options = dict(re.findall(r"--column (\w+)=(\w+)", str(raised.value)))
    assert (raised.value.argument, options) == ("columns", {"item": "segment", "score": "quality"})
    assert Outcomes.open(rows, columns=options).scores.shape == (3, 29)
    below = [row | {"quality": row["quality"] - 2} for row in rows]
    with pytest.raises(InputError, match="max_score=inf"):
        Outcomes.open(below, columns=options)
    assert Outcomes.open(below, columns=options, max_score=float("inf")).scores.shape == (3, 29)


def test_only_names_that_say_so_make_groups_and_others_are_offered() -> None:
    rows = table(model=MODELS, item=numbered("i", 40))
    for row in rows:
        k = int(row["item"][1:])
        row |= {"subject": f"s{k % 6}", "memory": k // 4, "entry_point": f"f{k % 8}", "input_tokens": k % 9}
    read = Outcomes.open(rows)
    assert list(read.groups) == ["subject"]
    offered = re.findall(r"--group (\w+)", " ".join(read.notes))
    assert {"memory", "entry_point"} <= {*offered}
    for name in offered:
        assert next(iter(Outcomes.open(rows, group=name).groups)) == name
    wide = [{"item": f"q{k}", "memory": f"m{k % 5}", "x": k % 2, "y": 1} for k in range(20)]
    assert not Outcomes.open(wide).groups
    assert list(Outcomes.open(wide, group="memory").groups) == ["memory"]


def named(rows: list[dict[str, Any]], rename: Any) -> list[dict[str, Any]]:
    """The rows without "score"; ``rename`` makes other columns of it."""
    return [{**{k: v for k, v in row.items() if k != "score"}, **rename(row["score"])} for row in rows]


UNNAMED: dict[str, tuple[list[dict[str, Any]], tuple[int, ...]]] = {
    "an object of scores": (
        named(table(model=MODELS, item=range(9)), lambda score: {"judge": {"helpful": score, "note": "x"}}),
        (3, 9),
    ),
    "an unknown score and run": (
        named(table(model=MODELS, problem=numbered("p", 9), sample=range(4)), lambda score: {"ok": score}),
        (3, 9, 4),
    ),
    "an unknown score of ten": (
        named(table(model=MODELS, task_id=numbered("t", 9)), lambda score: {"grade": 10 * score}),
        (3, 9),
    ),
    "predicted classes under another name": (
        [
            {"model": m, "image_index": k, "true_label": k % 4, "pred_cls": k * j % 4, "stamp": f"t{j}"}
            for j, m in enumerate(MODELS)
            for k in range(12)
        ],
        (3, 12),
    ),
    "marks are of the question": (
        named(
            [{**row, "marks": int(row["item"][1:]) % 3} for row in table(model=MODELS, item=numbered("i", 30))],
            lambda score: {"grade_given": score},
        ),
        (3, 30),
    ),
    "nothing has a known name": (table(who=MODELS, what=numbered("w", 12)), (3, 12)),
}


@pytest.mark.parametrize("form", UNNAMED)
def test_the_first_command_of_a_refusal_reads_the_table(form: str) -> None:
    rows, shape = UNNAMED[form]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    message = str(raised.value)
    command = message.partition("decide with ")[2].partition(" or --")[0].partition(" (in Python")[0]
    columns = dict(re.findall(r"--column (\w+)=([\w.]+)", command))
    settings = {name: float(value) for name, value in re.findall(r"--set (max_score)=([\w.]+)", command)}
    assert columns
    assert Outcomes.open(rows, columns=columns, **settings).scores.shape == shape


def test_the_only_id_names_the_items_and_a_column_of_distinct_values_is_no_run() -> None:
    rows = [
        {**row, "run_id": f"u{number}"} for number, row in enumerate(table(model=MODELS, caseId=numbered("c", 9)))
    ]
    assert Outcomes.open(rows).scores.shape == (3, 9)


def test_metrics_of_whole_sets_and_columns_of_several_ranges_are_no_items() -> None:
    metrics = [{"model": m, "avg_score": 0.32, "avg_latency": 0.02, "total_cost": 0.71} for m in MODELS]
    with pytest.raises(InputError) as raised:
        Outcomes.open(metrics)
    assert raised.value.argument == "rows"
    assert Outcomes.open(metrics, rows="models").models == MODELS
    mixed = [{"model": m, "elo_gap": 20.0 + k, "law": 0.2 * k, "art": 0.1} for k, m in enumerate(MODELS)]
    with pytest.raises(InputError):
        Outcomes.open(mixed)


def test_a_time_stamp_names_no_items() -> None:
    rows = [
        {"model": m, "packet": f"p{k // 3}", "judge": f"j{k % 3}", "ts": f"2026-{k}", "score": 5 - k % 2}
        for m in MODELS
        for k in range(60)
    ]
    with pytest.raises(InputError) as raised:
        Outcomes.open(rows)
    assert "=ts" not in str(raised.value)
    assert "--set max_score=5" in str(raised.value)
