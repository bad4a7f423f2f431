"""Scores as people keep them: each form is read with these numbers, or refused naming this argument."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import Table, parquet

from hardpan import Outcomes
from hardpan.errors import InputError

MATRIX = [[1, 0, 1], [0, 0, 1]]  # two models, three items
MODELS = ("a", "b")
ITEMS = ("q1", "q2", "q3")
LONG = [
    {"model": model, "item": item, "score": MATRIX[m][i]}
    for m, model in enumerate(MODELS)
    for i, item in enumerate(ITEMS)
]


def text(name: str, content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content, encoding="utf-8")
        return folder / name

    return write


def packed(name: str, content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(gzip.compress(content.encode()))
        return folder / name

    return write


def lines(rows: list[dict[str, Any]], header: list[str] | None = None, delimiter: str = ",") -> str:
    names = header or list(rows[0])
    body = [delimiter.join(str(row[key]) for key in rows[0]) for row in rows]
    return "\n".join([delimiter.join(names), *body]) + "\n"


def npz(**arrays: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.savez(folder / "scores.npz", **{name: np.array(array) for name, array in arrays.items()})
        return folder / "scores.npz"

    return write


def npy(array: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.save(folder / "scores.npy", np.array(array))
        return folder / "scores.npy"

    return write


def parquet_file(columns: dict[str, Any]) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        parquet.write_table(Table.from_pydict(columns), folder / "scores.parquet")
        return folder / "scores.parquet"

    return write


def by_model(folder: Path) -> Path:
    (folder / "runs").mkdir()
    for m, model in enumerate(MODELS):
        rows = [{"id": item, "correct": MATRIX[m][i]} for i, item in enumerate(ITEMS)]
        (folder / "runs" / f"{model}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "runs"


WIDE = "model,q1,q2,q3\na,1,0,1\nb,0,0,1\n"
TRANSPOSED = "question_id,a,b\nq1,1,0\nq2,0,0\nq3,1,1\n"
COLUMNS = {key: [row[key] for row in LONG] for key in LONG[0]}

READ: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "long CSV": (text("s.csv", lines(LONG)), {}),
    "long TSV": (text("s.tsv", lines(LONG, delimiter="\t")), {}),
    "long CSV with semicolons": (text("s.csv", lines(LONG, delimiter=";")), {}),
    "long CSV, names in capitals": (text("s.csv", lines(LONG, ["Model", "Question ID", "Is Correct"])), {}),
    "long CSV with a byte order mark": (text("s.csv", "\ufeff" + lines(LONG)), {}),
    "long CSV with an index": (text("s.csv", lines([{"": i, **row} for i, row in enumerate(LONG)])), {}),
    "long CSV with words": (
        text("s.csv", lines([{**row, "score": "correct" if row["score"] else "incorrect"} for row in LONG])),
        {},
    ),
    "long CSV with true and false": (
        text("s.csv", lines([{**row, "score": bool(row["score"])} for row in LONG])),
        {},
    ),
    "long CSV with percent": (
        text("s.csv", lines([{**row, "score": f"{100 * row['score']}%"} for row in LONG])),
        {},
    ),
    "long CSV, another column of scores": (text("s.csv", lines(LONG, ["model", "item", "em"])), {"metric": "em"}),
    "long CSV, scores out of 10": (
        text("s.csv", lines([{**row, "score": 10 * row["score"]} for row in LONG])),
        {"max_score": 10},
    ),
    "long CSV without items": (
        text("s.csv", lines([{"model": r["model"], "score": r["score"]} for r in LONG])),
        {"by_order": True},
    ),
    "gzipped CSV": (packed("s.csv.gz", lines(LONG)), {}),
    "gzipped JSONL": (packed("s.jsonl.gz", "".join(json.dumps(row) + "\n" for row in LONG)), {}),
    "CSV with spaces after commas": (text("s.csv", lines(LONG).replace(",", ", ")), {}),
    "CSV with Excel's first line": (text("s.csv", "sep=;\n" + lines(LONG, delimiter=";")), {}),
    "long JSONL": (text("s.jsonl", "".join(json.dumps(row) + "\n" for row in LONG)), {}),
    "JSON rows": (text("s.json", json.dumps(LONG)), {}),
    "JSON columns": (text("s.json", json.dumps(COLUMNS, indent=1)), {}),
    "JSON by model and item": (
        text("s.json", json.dumps({m: dict(zip(ITEMS, MATRIX[i], strict=True)) for i, m in enumerate(MODELS)})),
        {},
    ),
    "long Parquet": (parquet_file(COLUMNS), {}),
    "Parquet of a pandas frame with an index": (
        parquet_file({"q1": [1, 0], "q2": [0, 0], "q3": [1, 1], "__index_level_0__": list(MODELS)}),
        {},
    ),
    "one file per model": (by_model, {}),
    "wide, one row per model": (text("s.csv", WIDE), {}),
    "wide, one row per item": (text("s.csv", TRANSPOSED), {}),
    "wide, unnamed index of models": (text("s.csv", WIDE.replace("model", "", 1)), {}),
    "wide, unnamed index of items": (text("s.csv", TRANSPOSED.replace("question_id", "")), {}),
    "wide, rows stated": (text("s.csv", TRANSPOSED.replace("question_id", "")), {"rows": "items"}),
    "wide with an index and a subject": (
        text("s.csv", ",item,subject,a,b\n0,q1,x,1,0\n1,q2,x,0,0\n2,q3,y,1,1\n"),
        {},
    ),
    "wide with semicolons and decimal commas": (
        text("s.csv", WIDE.replace(",", ";").replace("1", "1,0").replace("q1,0", "q1")),
        {},
    ),
    "wide in UTF-16": (
        lambda folder: (folder / "s.csv").write_bytes(WIDE.encode("utf-16")) and folder / "s.csv",
        {},
    ),
    "long, the model as llm": (text("s.csv", lines(LONG, ["LLM", "prompt_id", "acc"])), {}),
    "long CSV with marks": (text("s.csv", lines([{**r, "score": "✓" if r["score"] else "✗"} for r in LONG])), {}),
    "columns": (lambda folder: COLUMNS, {}),
    "rows": (lambda folder: LONG, {}),
    "an Arrow table": (lambda folder: Table.from_pydict(COLUMNS), {}),
    "a list of files": (
        lambda folder: [text("1.csv", lines(LONG[:3]))(folder), text("2.csv", lines(LONG[3:]))(folder)],
        {},
    ),
    "npz with names": (npz(scores=MATRIX, models=MODELS, items=ITEMS), {}),
    "npz, right and ids": (npz(right=MATRIX, models=MODELS, ids=ITEMS), {}),
    "npz, one matrix of any name": (npz(anything=np.array(MATRIX, dtype=bool), models=MODELS, ids=ITEMS), {}),
    "predictions in a wide table": (
        text("s.csv", "id,label,a,b\nq1,cat,cat,dog\nq2,dog,cat,cat\nq3,cat,cat,cat\n"),
        {},
    ),
    "predictions in a long table": (
        text(
            "s.csv",
            lines(
                [
                    {"model": m, "id": item, "label": i % 2, "prediction": i % 2 if MATRIX[k][i] else 1 - i % 2}
                    for k, m in enumerate(MODELS)
                    for i, item in enumerate(ITEMS)
                ]
            ),
        ),
        {},
    ),
}


@pytest.mark.parametrize("form", READ)
def test_form_is_read(form: str, tmp_path: Path) -> None:
    make, options = READ[form]
    outcomes = Outcomes.open(make(tmp_path), **options)
    assert outcomes.models == MODELS
    np.testing.assert_array_equal(outcomes.scores, MATRIX)
    if not options.get("by_order"):
        assert outcomes.items.tolist() == list(ITEMS)


UNNAMED: dict[str, tuple[Callable[[Path], Any], dict[str, Any]]] = {
    "an array": (lambda folder: np.array(MATRIX), {}),
    "npy": (npy(MATRIX), {}),
    "lists": (lambda folder: MATRIX, {}),
    "an array of items": (lambda folder: np.array(MATRIX).T, {"rows": "items"}),
    "npy of items": (npy(np.array(MATRIX).T), {"rows": "items"}),
    "an array of percentages": (lambda folder: 100 * np.array(MATRIX), {"max_score": 100}),
    "npy of booleans": (npy(np.array(MATRIX, dtype=bool)), {}),
    "npz": (npz(scores=MATRIX), {}),
    "CSV without a header": (text("s.csv", "1,0,1\n0,0,1\n"), {}),
    "CSV with numbers as header": (text("s.csv", "0,1,2\n1,0,1\n0,0,1\n"), {}),
    "CSV of a frame without names": (text("s.csv", ",0,1,2\n0,1,0,1\n1,0,0,1\n"), {}),
}


@pytest.mark.parametrize("form", UNNAMED)
def test_matrix_without_names(form: str, tmp_path: Path) -> None:
    make, options = UNNAMED[form]
    outcomes = Outcomes.open(make(tmp_path), **options)
    np.testing.assert_array_equal(outcomes.scores, MATRIX)
    assert outcomes.models == ("model-0", "model-1")


def test_one_file_per_model_without_ids(tmp_path: Path) -> None:
    for m, model in enumerate(MODELS):
        text(f"{model}.csv", "correct\n" + "".join(f"{score}\n" for score in MATRIX[m]))(tmp_path)
    with pytest.raises(InputError, match="by_order"):
        Outcomes.open(tmp_path)
    outcomes = Outcomes.open(tmp_path, by_order=True)
    assert outcomes.models == MODELS
    np.testing.assert_array_equal(outcomes.scores, MATRIX)


def test_one_array_per_model(tmp_path: Path) -> None:
    outcomes = Outcomes.open(npz(a=MATRIX[0], b=MATRIX[1])(tmp_path))
    assert outcomes.models == MODELS
    np.testing.assert_array_equal(outcomes.scores, MATRIX)


def test_missing_cells_stay_missing(tmp_path: Path) -> None:
    expected = [[1, 0, np.nan], [0, np.nan, 1]]
    for content in (
        "model,q1,q2,q3\na,1,0,\nb,0,NaN,1\n",
        "model,item,score\na,q1,1\na,q2,0\nb,q1,0\nb,q3,1\n",
    ):
        np.testing.assert_array_equal(Outcomes.open(text("s.csv", content)(tmp_path)).scores, expected)


@pytest.mark.parametrize("failure", ["", "n/a", "-1", "timeout"])
def test_row_without_a_score_is_a_failure(failure: str, tmp_path: Path) -> None:
    content = f"model,item,score\na,q1,1\na,q2,0\na,q3,{failure}\nb,q1,0\nb,q2,0.5\nb,q3,1\n"
    path = text("s.csv", content)(tmp_path)
    assert Outcomes.open(path).scores.tolist() == [[1, 0, 0], [0, 0.5, 1]]
    np.testing.assert_array_equal(Outcomes.open(path, unparsed="missing").scores, [[1, 0, np.nan], [0, 0.5, 1]])


def test_cells_that_are_no_score_are_wrong_or_missing(tmp_path: Path) -> None:
    path = text("s.csv", "model,item,score\na,q1,1\na,q2,timeout\na,q3,0.5\n")(tmp_path)
    assert Outcomes.open(path).scores.tolist() == [[1, 0, 0.5]]
    np.testing.assert_array_equal(Outcomes.open(path, unparsed="missing").scores, [[1, np.nan, 0.5]])


def test_groups_answers_key_and_repeats_of_a_long_table(tmp_path: Path) -> None:
    rows = [
        {"model": m, "question_id": q, "score": s, "repeat": r, "task": t, "answer": x, "target": "B"}
        for m, q, s, r, t, x in (
            ("a", "q1", 1, 1, "x", "B"), ("a", "q1", 1, 2, "x", "B"), ("a", "q2", 0, 1, "y", "C"),
            ("a", "q2", 1, 2, "y", "B"), ("a", "q3", 0, 1, "y", "A"), ("a", "q3", 0, 2, "y", "A"),
        )
    ]  # fmt: skip
    outcomes = Outcomes.open(text("s.csv", lines(rows))(tmp_path))
    assert outcomes.scores.tolist() == [[[1, 1], [0, 1], [0, 0]]]
    assert outcomes.groups["task"].tolist() == ["x", "y", "y"]
    assert outcomes.key is not None
    assert outcomes.key.tolist() == ["B"] * 3
    assert outcomes.answers is not None
    assert outcomes.answers[0].tolist() == [["B", "B"], ["C", "B"], ["A", "A"]]


COUNTS: dict[str, tuple[str, list[list[float]], list[str]]] = {
    "one set": ("model,correct,total\na,90,100\nb,8,10\n", [[0.9], [0.8]], ["s"]),
    "two sets": (
        "model,original_correct,original_total,new_correct,new_total\na,9,10,3,4\nb,8,10,2,4\n",
        [[0.9, 0.75], [0.8, 0.5]],
        ["original", "new"],
    ),
    "two sets in rows": (
        "model,set,correct,total\na,old,9,10\na,new,3,4\nb,old,8,10\nb,new,2,4\n",
        [[0.9, 0.75], [0.8, 0.5]],
        ["old", "new"],
    ),
    "other names": ("model,num_correct,num_examples\na,9,10\nb,8,10\n", [[0.9], [0.8]], ["s"]),
    "thousands": ('model,correct,total\na,"1,500","2,000"\n', [[0.75]], ["s"]),
    "accuracies with totals": ("model,accuracy,total\na,0.9,10\nb,0.8,10\n", [[0.9], [0.8]], ["s"]),
    "percentages": ("model,top1,top5\na,90.00,99\nb,80.5,100\n", [[0.9], [0.805]], ["s"]),
    "one model at two sizes": (
        "model,img_size,top1\na,224,90.0\na,448,91.0\nb,224,80.0\n",
        [[0.9], [0.91], [0.8]],
        ["s"],
    ),
}


@pytest.mark.parametrize("form", COUNTS)
def test_counts(form: str, tmp_path: Path) -> None:
    content, accuracies, sets = COUNTS[form]
    outcomes = Outcomes.open(text("s.csv", content)(tmp_path))
    np.testing.assert_allclose(outcomes.scores, accuracies)
    assert outcomes.items.tolist() == sets
    assert outcomes.totals is not None
    assert len(set(outcomes.models)) == len(accuracies)


def test_totals_of_accuracies_are_stated_by_the_user(tmp_path: Path) -> None:
    paths = [
        text(f"{name}.csv", f"model,top1\na,{a}\nb,{b}\n")(tmp_path)
        for name, a, b in (("old", 90, 80), ("new", 75, 50))
    ]
    for totals in (100, [100, 100], {"old": 100, "new": 100}):
        outcomes = Outcomes.open(paths, totals=totals)
        assert outcomes.totals is not None
        assert outcomes.totals.tolist() == [[100, 100], [100, 100]]
    assert len(Outcomes.open(paths, totals=7).notes) == 2  # 90 % of 7 is no whole number of right answers


REFUSED: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str]] = {
    "scores above 1": (text("s.csv", lines([{**row, "score": 7} for row in LONG])), {}, "max_score"),
    "a score below 0": (npy([[0.5, -1]]), {}, "max_score"),
    "text in the column of scores": (text("s.csv", lines([{**row, "score": "x"} for row in LONG])), {}, "score"),
    "no items": (text("s.csv", lines([{"model": r["model"], "score": r["score"]} for r in LONG])), {}, "by_order"),
    "no scores": (text("s.csv", "model,comment\na,good\nb,bad\n"), {}, "score"),
    "an unknown metric": (text("s.csv", lines(LONG)), {"metric": "f1"}, "metric"),
    "an unknown group": (text("s.csv", lines(LONG)), {"group": "topic"}, "group"),
    "unknown rows": (text("s.csv", WIDE), {"rows": "columns"}, "rows"),
    "unknown treatment": (text("s.csv", WIDE), {"unparsed": "skip"}, "unparsed"),
    "a negative highest score": (text("s.csv", WIDE), {"max_score": -1}, "max_score"),
    "metric of a wrong type": (text("s.csv", WIDE), {"metric": 3}, "metric"),
    "a model twice in a wide table": (text("s.csv", WIDE.replace("b,", "a,")), {}, "model"),
    "more right than there are": (text("s.csv", "model,correct,total\na,11,10\n"), {}, "correct"),
    "counts without totals": (text("s.csv", "model,new_correct\na,11\n"), {}, "total"),
    "fractions of counts": (text("s.csv", "model,correct,total\na,1.5,10\n"), {}, "correct"),
    "a dataset": (npz(x=np.zeros((4, 2)), y=[0, 1, 0, 1]), {}, "scores"),
    "predicted classes in arrays": (npz(predictions=[[0, 1]], labels=[0, 1]), {}, "table"),
    "class probabilities in arrays": (npz(probs=[[[0.5, 0.5]]], labels=[0]), {}, "Predictions"),
    "predictions without labels, JSON": (text("s.json", '{"predictions": {"a": [0, 1]}}'), {}, "scores"),
    "other names in the answers": (text("s.csv", "id,label,a\nq1,cat,0\nq2,dog,1\n"), {}, "cat"),
    "four dimensions": (npy(np.zeros((2, 2, 2, 2))), {}, "scores"),
    "an array of objects": (lambda folder: np.array([["a", "b"]]), {}, "scores"),
    "errors": (text("s.csv", "model,error\na,0.1\nb,0.2\n"), {}, "'error'"),
    "counts of errors": (text("s.csv", "model,errors,total\na,1,10\nb,2,10\n"), {}, "'errors'"),
    "timm's errors alone": (text("s.csv", "model,top1_err\na,10.5\nb,20.5\n"), {}, "'top1_err'"),
    "scores without models and items": (text("s.csv", "correct\n1\n0\n1\n"), {}, "by_order"),
    "models under an unknown name": (text("s.csv", lines(LONG, ["who", "item", "score"])), {}, "model"),
    "a series": (lambda folder: Table.from_pydict(COLUMNS).to_pandas()["score"], {}, "source"),
    "rows of an array": (lambda folder: np.array(MATRIX), {"rows": "columns"}, "rows"),
    "a number": (lambda folder: 5, {}, "source"),
    "a quote that is not closed": (text("s.csv", lines(LONG).replace("q2,", '"q2,', 1)), {}, "quote"),
}


@pytest.mark.parametrize("form", REFUSED)
def test_mistake_is_refused(form: str, tmp_path: Path) -> None:
    make, options, named = REFUSED[form]
    with pytest.raises(InputError, match=named):
        Outcomes.open(make(tmp_path), **options)


def test_declared_shapes_are_compared_with_the_file(tmp_path: Path) -> None:
    path = npy(MATRIX)(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"(2, 3), }          ", b"(99999999999, 3), }"))
    with pytest.raises(InputError):
        Outcomes.open(path)


def test_two_test_sets_in_one_file(tmp_path: Path) -> None:
    outcomes = Outcomes.open(npz(correct_old=MATRIX, correct_new=[[1, 1], [0, 1]], models=MODELS)(tmp_path))
    assert outcomes.groups["set"].tolist() == ["old"] * 3 + ["new"] * 2
    np.testing.assert_array_equal(outcomes.scores, [[1, 0, 1, 1, 1], [0, 0, 1, 0, 1]])


def test_answers_beside_keys_are_scored_and_numbered_groups_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("model,task,doc_id,answer,key\na,x,0,A,A\na,x,1,,B\na,y,0,C,D\n")
    outcomes = Outcomes.open(path)
    assert (outcomes.scores.tolist(), outcomes.groups["task"].tolist()) == ([[1, 0, 0]], ["x", "x", "y"])
    assert np.isnan(Outcomes.open(path, unparsed="missing").scores[0, 1])
    path.write_text("item,year,difficulty,gpt\nq1,2020,0.3,1\nq2,2021,0.9,0\n")
    with pytest.raises(InputError, match="group='year'"):
        Outcomes.open(path)
    assert Outcomes.open(path, group="year").models == ("gpt",)


def test_letters_of_answers_are_no_scores(tmp_path: Path) -> None:
    """ "C" is the letter of Inspect for a correct answer, and also the third choice."""
    path = tmp_path / "answers.csv"
    path.write_text("model,q1,q2\na,C,A\nb,C,C\n")
    with pytest.raises(InputError):
        Outcomes.open(path)
    path.write_text("model,q1,q2\na,C,I\nb,C,C\n")
    assert Outcomes.open(path).scores.tolist() == [[1, 0], [1, 1]]
    path.write_text("question,label,subject,m\n" + "".join(f"q{i},{'AB'[i % 2]},x,A\n" for i in range(10)))
    assert Outcomes.open(path).scores.tolist() == [[1, 0] * 5]
