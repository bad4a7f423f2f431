"""Characters that end drawing libraries or cannot be written: cleaned in names, refused in ids."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console

from hardpan import arguments
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.leaderboard import summarize
from hardpan.outcomes import Outcomes
from hardpan.pages.charts import svg_of_spec
from hardpan.pages.sections import ProblemLine, View
from hardpan.pages.terminal import render
from hardpan.tables import read_table

UNSAFE = ["\x00", "\x01", "\x07", "\x1b", "\x7f", "\x85", "\x9f", "\ufffe", "\uffff", "\ud800", "\udfff"]


@pytest.mark.parametrize("character", UNSAFE, ids=ascii)
def test_class_names_are_cleaned_when_a_dataset_is_made_and_can_be_drawn(character):
    data = Dataset(
        f"set{character}", np.zeros((2, 3)), np.array(["a", "b"]), np.array([0, 1]), (f"cat{character}", "dog")
    )
    assert data.class_names[1] == "dog"
    for text in (*data.class_names, data.name):
        assert arguments.clean_text(text) == text
        text.encode()
    values = [{"x": data.class_names[0], "y": 1}]
    spec = {
        "data": {"values": values},
        "mark": "bar",
        "encoding": {"x": {"field": "x", "type": "nominal"}, "y": {"field": "y", "type": "quantitative"}},
    }
    assert "<svg" in svg_of_spec(spec)  # without cleaning, the process ends here


def test_names_that_differ_by_such_characters_only_are_refused():
    with pytest.raises(InputError, match="class_names"):
        Dataset("set", np.zeros((2, 3)), np.array(["a", "b"]), np.array([0, 1]), ("cat\x01", "cat\x02"))


def test_ids_with_such_characters_are_refused():
    with pytest.raises(InputError, match="ids"):
        Dataset.from_arrays(np.zeros((2, 3)), np.array([0, 1]), ids=["a\x01", "b"])


@pytest.mark.parametrize("character", UNSAFE, ids=ascii)
def test_no_name_brings_such_a_character_into_a_page_a_table_or_a_terminal(character):
    data = Dataset.from_arrays(np.zeros((2, 1)), np.array([0, 1]), feature_names=[f"size{character}cm"])
    assert data.feature_names == ("size\ufffdcm",)
    scores = np.array([[1, 0, 1, 1], [0, 0, 1, 0]])
    names = {"models": [f"a{character}", "b"], "items": [f"{character}{k}" for k in range(4)]}
    outcomes = Outcomes.from_arrays(scores, **names, groups={f"g{character}": [character] * 4})
    texts = [*outcomes.models, *outcomes.items, *outcomes.groups, *outcomes.groups["g\ufffd"]]
    if not "\ud800" <= character <= "\udfff":  # which Arrow refuses
        table = read_table({f"column{character}": [f"cell{character}\nline", None]})
        texts += [*table.column_names, *table.column(0).to_pylist()[:1]]
    view = View(character, f"One{character}.", lede=(character,), problems=(ProblemLine("k", "high", character),))
    console = Console(file=io.StringIO(), width=60)
    console.print(render(view))  # the terminal also prints paths, which no reader has cleaned
    texts.append(console.file.getvalue())
    assert [text for text in texts if arguments.clean_text(text, lines=True) != text] == []


def test_models_that_differ_by_such_characters_only_are_refused():
    with pytest.raises(InputError, match="models"):
        Outcomes.from_arrays(np.eye(2), models=["a\x01", "a\x02"])


def test_text_is_cleaned_at_most_once_from_reading_to_saving(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"m{m},\x01i{k},{int(rng.random() < 0.3 + 0.05 * m)}" for m in range(8) for k in range(120)]
    (tmp_path / "scores.csv").write_text("\n".join(["model,item,score", *rows]))
    code, cleaned = arguments.clean_text.__code__, []

    def count(frame, event, argument):
        if event == "call" and frame.f_code is code:
            cleaned.append(frame.f_locals["text"])

    sys.setprofile(count)
    try:
        summarize(Outcomes.open(tmp_path / "scores.csv")).save(tmp_path / "report")
    finally:
        sys.setprofile(None)
    assert len(cleaned) == len(set(cleaned)) <= 8 + 120 + 3
