"""Scores in JSON without a known schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardpan import Outcomes
from hardpan.errors import InputError

MODELS = ("gpt", "llama")
ITEMS = tuple(f"q{number}" for number in range(6))
RIGHT = np.array([[1, 0, 1, 1, 0, 1], [0, 0, 1, 0, 0, 1]])


def by_item(model: int) -> dict[str, bool]:
    return {item: bool(RIGHT[model, number]) for number, item in enumerate(ITEMS)}


def records(model: int) -> list[dict[str, Any]]:
    return [{"task_id": item, "resolved": right} for item, right in by_item(model).items()]


def ids(model: int, right: bool = True) -> list[str]:
    return [item for item, value in by_item(model).items() if value == right]


def each(content: Any) -> dict[str, Any]:
    """One file per model, in its folder."""
    return {f"{name}/results.json": content(model) for model, name in enumerate(MODELS)}


FORMS: dict[str, dict[str, Any]] = {
    "items with true and false, named by file": {f"{n}.json": by_item(m) for m, n in enumerate(MODELS)},
    "items with true and false, named by folder": each(by_item),
    "items with numbers": each(lambda m: {item: int(right) for item, right in by_item(m).items()}),
    "models with items": {"all.json": {name: by_item(model) for model, name in enumerate(MODELS)}},
    "models with items, inside": {
        "all.json": {"results": {n: by_item(m) for m, n in enumerate(MODELS)}, "seed": 3}
    },
    "models with records": {"all.json": {name: records(model) for model, name in enumerate(MODELS)}},
    "records inside": each(lambda m: {"anything": records(m), "duration": 3.5, "config": {"temperature": 0.5}}),
    "records inside, with the model": {
        f"{m}.json": {"model": name, "results": records(m), "log": []} for m, name in enumerate(MODELS)
    },
    "records by item": each(
        lambda m: {item: {"resolved": right, "cost": 0.5} for item, right in by_item(m).items()}
    ),
    "models with records by item": {
        "all.json": {n: {i: {"passed": r} for i, r in by_item(m).items()} for m, n in enumerate(MODELS)}
    },
    "resolved and all": each(lambda m: {"resolved": ids(m), "all": list(ITEMS)}),
    "resolved and unresolved": each(lambda m: {"n": 6, "resolved_ids": ids(m), "unresolved_ids": ids(m, False)}),
    "columns of pandas": {
        "all.json": {
            "model": {str(k): MODELS[k // 6] for k in range(12)},
            "item": {str(k): ITEMS[k % 6] for k in range(12)},
            "score": {str(k): int(RIGHT[k // 6, k % 6]) for k in range(12)},
        }
    },
}


def write(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_form_is_read(form: str, tmp_path: Path) -> None:
    outcomes = Outcomes.open(write(tmp_path, FORMS[form]))
    assert outcomes.models == MODELS
    rows = outcomes.select(items=list(ITEMS))
    np.testing.assert_array_equal(rows.scores, RIGHT)
    assert outcomes.n_items == 6


def test_tasks_with_items_of_their_own_are_no_models(tmp_path: Path) -> None:
    tasks = {name: {f"{name}-{item}": right for item, right in by_item(0).items()} for name in ("algebra", "logic")}
    outcomes = Outcomes.open(write(tmp_path, {"gpt.json": tasks}))
    assert outcomes.models == ("gpt",)
    assert sorted(set(outcomes.groups["task"])) == ["algebra", "logic"]


def test_null_is_a_failed_answer_and_an_absent_item_is_missing() -> None:
    scores: dict[str, dict[str, Any]] = {"a": {"q1": True, "q2": None, "q3": False}, "b": {"q1": True, "q3": True}}
    assert Outcomes.open(scores).scores[0].tolist() == [1, 0, 0]
    np.testing.assert_array_equal(Outcomes.open(scores).scores[1], [1, np.nan, 1])
    np.testing.assert_array_equal(Outcomes.open(scores, unparsed="missing").scores[0], [1, np.nan, 0])


OTHER: dict[str, dict[str, Any]] = {
    "settings": {
        "gpt/config.json": {"shuffle": True, "lr": 0.1, "name": "x"},
        "llama/config.json": {"shuffle": False},
    },
    "metrics": {"gpt.json": {"accuracy": 0.8, "f1": 0.7, "loss": 0.1}},
    "scores of test sets": {"all.json": {"gpt": {"mmlu": 0.7, "arc": 0.5}, "llama": {"mmlu": 0.6, "arc": 0.4}}},
    "metrics by model": {"all.json": {"gpt": {"accuracy": 0.7, "n": 100}, "llama": {"accuracy": 0.6, "n": 100}}},
    "two lists of scores": {"all.json": {"first": records(0), "second": records(1), "third": {"acc": 0.5}}},
    "a list of numbers": {"all.json": [1, 0, 1]},
    "only resolved ids": {"all.json": {"resolved": ids(0)}},
    "nothing": {"all.json": {}},
}


@pytest.mark.parametrize("form", OTHER)
def test_other_json_is_refused_with_what_it_holds(form: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        Outcomes.open(write(tmp_path, OTHER[form]))
    first = next(iter(OTHER[form].values()))
    for key in list(first)[:1] if isinstance(first, dict) else ():
        assert key in str(raised.value)
    assert '"item"' in str(raised.value)  # what a readable table looks like


def test_other_json_beside_scores_is_noted(tmp_path: Path) -> None:
    outcomes = Outcomes.open(write(tmp_path, FORMS["models with items"] | {"config.json": {"steps": 3}}))
    assert outcomes.models == MODELS
    assert any("steps" in note for note in outcomes.notes)


def test_tables_of_one_name_in_several_folders_are_several_models(tmp_path: Path) -> None:
    for name in MODELS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "scores.csv").write_text("item,score\nq1,1\nq2,0\n")
    assert Outcomes.open(tmp_path).models == MODELS
