"""Characters that end drawing libraries or cannot be written: cleaned in names, refused in ids."""

import numpy as np
import pytest

from hardpan import files
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.report.drawing import picture

UNSAFE = ["\x00", "\x01", "\x07", "\x1b", "\x7f", "\x85", "\x9f", "\ufffe", "\uffff", "\ud800", "\udfff"]


@pytest.mark.parametrize("character", UNSAFE, ids=ascii)
def test_class_names_are_cleaned_when_a_dataset_is_made_and_can_be_drawn(character):
    data = Dataset(
        f"set{character}", np.zeros((2, 3)), np.array(["a", "b"]), np.array([0, 1]), (f"cat{character}", "dog")
    )
    assert data.class_names[1] == "dog"
    for text in (*data.class_names, data.name):
        assert files.clean_text(text) == text
        text.encode()
    values = [{"x": f"cat{character}", "y": 1}]
    spec = {
        "data": {"values": values},
        "mark": "bar",
        "encoding": {"x": {"field": "x", "type": "nominal"}, "y": {"field": "y", "type": "quantitative"}},
    }
    assert "<svg" in picture(spec)  # without cleaning, the process ends here


def test_names_that_differ_by_such_characters_only_are_refused():
    with pytest.raises(InputError, match="class_names"):
        Dataset("set", np.zeros((2, 3)), np.array(["a", "b"]), np.array([0, 1]), ("cat\x01", "cat\x02"))


def test_ids_with_such_characters_are_refused():
    with pytest.raises(InputError, match="ids"):
        Dataset.from_arrays(np.zeros((2, 3)), np.array([0, 1]), ids=["a\x01", "b"])
