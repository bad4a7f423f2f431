"""What Python users give by mistake: each is one sentence that names the argument, or means what they meant."""

import numpy as np
import pytest

from hardpan import confusion
from hardpan.errors import InputError

PROBS = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 30))


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": None},
        {"epochs": 1.5},
        {"epochs": [0.5]},
        {"epochs": ["0"]},
        {"epochs": True},
        {"epochs": [True]},
        {"seeds": "0"},
        {"seeds": [0.5]},
        {"seeds": [True, False]},
    ],
)
def test_choices_that_are_no_whole_numbers_are_refused_not_rounded(options):
    with pytest.raises(InputError) as caught:
        confusion.scores(PROBS, **options)
    assert caught.value.argument == next(iter(options))


def test_numbers_of_numpy_choose_like_those_of_python():
    whole = confusion.scores(PROBS, epochs=[0, 2], seeds=[1])
    same = confusion.scores(PROBS, epochs=np.array([0, 2], dtype=np.uint8), seeds=np.int64(1))
    assert np.array_equal(np.asarray(whole), np.asarray(same))


def test_a_masked_array_is_refused_since_its_mask_would_be_forgotten():
    with pytest.raises(InputError, match="masked"):
        confusion.scores(np.ma.masked_array(PROBS, mask=PROBS > 0.9))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_is_an_array_of_two_axes():
    assert np.array_equal(
        np.asarray(confusion.scores(np.asmatrix(PROBS[0, 0]))), np.asarray(confusion.scores(PROBS[0, 0]))
    )


def test_a_tensor_that_gradients_flow_through_is_scored():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(PROBS, requires_grad=True)
    assert np.array_equal(np.asarray(confusion.scores(tensor)), np.asarray(confusion.scores(PROBS)))


@pytest.mark.parametrize("rule", ["threshold", "fraction", "count"])
@pytest.mark.parametrize("value", ["a", True, [1]])
def test_a_rule_that_is_no_number_is_refused(rule, value):
    with pytest.raises(InputError) as caught:
        confusion.subset(confusion.scores(PROBS), **{rule: value})
    assert caught.value.argument == rule


@pytest.mark.parametrize("given", [None, np.ones(3), "scores.json"])
def test_a_subset_is_cut_from_scores_alone(given):
    with pytest.raises(InputError) as caught:
        confusion.subset(given, count=3)
    assert caught.value.argument == "scores"


@pytest.mark.parametrize("ids", [None, "row-0000001", 3])
def test_rows_of_a_subset_need_a_row_of_ids(ids):
    with pytest.raises(InputError) as caught:
        confusion.subset(confusion.scores(PROBS), count=3).rows(ids)
    assert caught.value.argument == "ids"
