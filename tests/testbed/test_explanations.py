"""Explanations of a drop: which ones the inputs allow, and that each is the function of its own."""

import csv
import html
import json
from pathlib import Path

import numpy as np
import pytest
from tests.testbed.helpers import simulate_counts

from hardpan import files, testbed
from hardpan.errors import InputError
from hardpan.testbed.explanations import EXPLANATIONS, NEEDS, ExplanationInputs
from hardpan.testbed.subset_accuracies import class_balanced_accuracies

PAIR = testbed.simulate(np.linspace(-0.7, 0.9, 6), examples=(300, 200), mu=(-0.5, 0.0), seed=3)
QUICK = {"bootstrap": 200}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    for name, outcomes in zip(("original", "new"), PAIR, strict=True):
        ids = [f"{name}-{row}" for row in range(outcomes.n_items)]
        np.savez(folder / f"{name}.npz", correct=outcomes.scores, models=outcomes.models, ids=ids)
        n = outcomes.n_items
        with (folder / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "duplicate", "label", "frequency"])
            writer.writerows([ids[row], int(row % 10 == 0), row % 4, row % 11 / 10] for row in reversed(range(n)))
    rows = [line for name in ("original", "new") for line in (folder / f"{name}.csv").read_text().splitlines()[1:]]
    (folder / "examples.csv").write_text("\n".join(["id,duplicate,label,frequency", *rows]))
    (folder / "people.csv").write_text("participant,set,correct,total\n1,original,40,50\n1,new,20,50\n")
    return folder


def everything(folder: Path) -> dict[str, object]:
    return {
        "examples": folder / "examples.csv",
        "responses": folder / "people.csv",
        "by": "frequency",
    }


def test_all_inputs_give_all_explanations(folder: Path) -> None:
    result = testbed.explain(folder / "original.npz", folder / "new.npz", **everything(folder), **QUICK)
    assert list(result.results) == list(EXPLANATIONS)
    assert not result.skipped
    for item in (*result.results.values(), result):
        assert item.headline.endswith(".")
        assert len({len(values) for values in item.view().columns.values()}) == 1
    assert result.results["duplicates"].duplicates == 30
    assert result.results["duplicates"].rows[0].drop == pytest.approx(
        PAIR[0].scores[0].mean() - PAIR[1].scores[0].mean()
    )
    expected = class_balanced_accuracies(PAIR[1], np.arange(200) % 4)  # the table is in another order, with ids
    assert result.results["balanced"] == expected
    again = files.from_json(json.loads(result.to_json()))
    assert list(again.results) == list(EXPLANATIONS)
    page = html.unescape(result.to_html()).replace("\u00a0", " ")
    assert all(item.headline.split(" (")[0] in page for item in result.results.values())


def test_scores_alone_give_what_needs_no_more() -> None:
    result = testbed.explain(*PAIR, **QUICK)
    assert list(result.results) == ["decompose", "hardest"]
    counts = testbed.explain(simulate_counts(np.linspace(0, 2, 8)), **QUICK)
    assert list(counts.results) == ["decompose"]


def test_people_count_on_the_hardest_examples_only() -> None:
    hard = testbed.hardest_of(*PAIR, fraction=0.2)
    rows = [
        {"participant": "p", "set": side, "example": row, "correct": int(row in getattr(hard, side))}
        for side, n in (("original", 300), ("new", 200))
        for row in range(n)
    ]
    result = testbed.explain(*PAIR, responses=rows, only=("humans",), hardest_only=True, fraction=0.2)
    person = result.results["humans"].rows[0]
    assert (person.original.value, person.original.n) == (1.0, len(hard.original))


def test_what_fails_is_skipped_unless_it_was_asked_for(folder: Path) -> None:
    two = testbed.simulate([0.0, 1.0], examples=(300, 200))
    assert set(testbed.explain(*two, **QUICK).skipped) == {"decompose"}
    with pytest.raises(InputError):
        testbed.explain(*two, only=("decompose",))


@pytest.mark.parametrize(
    ("inputs", "argument"),
    [
        ({"only": ("smell",)}, "only"),
        ({"only": ("duplicates",)}, "only"),
        ({"test_set": "newer"}, "test_set"),
        ({"examples": {"id": ["a"], "label": [1]}, "only": ("balanced",)}, "examples"),
        ({"examples": {"label": [0] * 200}, "by": "smell"}, "by"),
    ],
)
def test_wrong_inputs_are_named(inputs: dict[str, object], argument: str) -> None:
    with pytest.raises(InputError) as caught:
        testbed.explain(*PAIR, **inputs)
    assert caught.value.argument == argument


def test_without_inputs_the_message_lists_them() -> None:
    with pytest.raises(InputError) as caught:
        testbed.explain()
    assert "scores on two test sets" in str(caught.value)


def test_every_need_is_an_input_with_words() -> None:
    needs = {need for item in EXPLANATIONS.values() for need in item.needs}
    assert needs == set(NEEDS)
    assert all(hasattr(ExplanationInputs, need) for need in needs)
