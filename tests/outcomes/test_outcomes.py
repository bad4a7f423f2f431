"""The class itself: arrays in, some of the models and items out, and mistakes refused by name."""

import numpy as np
import pytest

from hardpan import Outcomes, Predictions
from hardpan.errors import InputError
from hardpan.outcomes import Choices

SCORES = np.array([[1, 0, 0.5], [0, np.nan, 1]])


def full() -> Outcomes:
    choices = Choices(np.arange(12, dtype=np.float32).reshape(2, 3, 2), np.array([0, 1, -1]))
    made = Outcomes.from_arrays(
        SCORES, models=["a", "b"], items=["x", "y", "z"], groups={"task": ["t", "t", "u"]},
        answers=[["1", "2", "3"], ["4", "5", "6"]], key=["1", "5", "6"],
    )  # fmt: skip
    return Outcomes(
        made.scores, made.models, made.items, made.groups, made.answers, made.key, "s", ("n",), choices=choices,
        model_groups={"group": np.array(["g", "h"])},
    )  # fmt: skip


@pytest.mark.parametrize("items", [["z", "x"], [2, 0], [-1, 0]])
@pytest.mark.parametrize("models", [["b"], [1], np.array([False, True])])
def test_select_takes_names_numbers_and_masks(models: object, items: object) -> None:
    part = full().select(models=models, items=items)
    np.testing.assert_array_equal(part.scores, [[1, 0]])
    assert part.models == ("b",)
    assert part.items.tolist() == ["z", "x"]
    assert part.groups["task"].tolist() == ["u", "t"]
    assert part.answers is not None
    assert part.answers.tolist() == [["6", "4"]]
    assert part.key is not None
    assert part.key.tolist() == ["6", "1"]
    assert part.choices is not None
    np.testing.assert_array_equal(part.choices.logprobs, [[[10, 11], [6, 7]]])
    assert part.choices.right.tolist() == [-1, 0]
    assert part.model_groups["group"].tolist() == ["h"]
    assert (part.source, part.notes) == ("s", ("n",))


def test_align_orders_the_models_of_another() -> None:
    other = Outcomes.from_arrays([[1], [0]], models=["b", "a"])
    assert full().align(other).models == ("b", "a")
    with pytest.raises(InputError, match="models"):
        other.align(["a", "c"])


def test_repeats_are_averaged_over_those_that_are_there() -> None:
    scores = np.array([[[1, 0], [1, np.nan], [np.nan, np.nan]]])
    outcomes = Outcomes.from_arrays(scores)
    np.testing.assert_array_equal(outcomes.item_scores(), [[0.5, 1, np.nan]])
    assert outcomes.n_repeats == 2


def test_index_by_name_and_number() -> None:
    assert [full().index(model) for model in ("b", 0, -1)] == [1, 0, 1]
    for bad in ("c", 2, 1.5, None):
        with pytest.raises(InputError, match="model"):
            full().index(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"scores": "text"}, "scores"),
        ({"scores": [1, 2]}, "scores"),
        ({"scores": np.zeros((0, 3))}, "scores"),
        ({"scores": [[0, 2]]}, "scores"),
        ({"scores": [[0, 1]], "models": ["a", "b"]}, "models"),
        ({"scores": [[0, 1]], "models": "a"}, "models"),
        ({"scores": [[0, 1]], "models": 5}, "models"),
        ({"scores": [[0], [1]], "models": ["a", "a"]}, "models"),
        ({"scores": [[0, 1]], "items": ["x"]}, "items"),
        ({"scores": [[0, 1]], "items": ["x", "x"]}, "items"),
        ({"scores": [[0, 1]], "groups": ["g"]}, "groups"),
        ({"scores": [[0, 1]], "groups": 3}, "groups"),
        ({"scores": [[0, 1]], "answers": [["a"]]}, "answers"),
        ({"scores": [[0, 1]], "key": ["a"]}, "key"),
    ],
)
def test_mistakes_are_refused_by_name(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Outcomes.from_arrays(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [{"items": [3]}, {"items": ["w"]}, {"items": [True]}, {"models": ["c"]}])
def test_selections_that_are_not_there_are_refused(part: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(part))):
        full().select(**part)


def test_probabilities_of_choices() -> None:
    logprobs = np.array([[[-1.0, -2.0, np.nan], [np.nan, np.nan, np.nan], [-1000.0, -1001.0, -1002.0]]])
    probs = Choices(logprobs.astype(np.float32), np.zeros(3, dtype=np.int64)).probabilities()
    assert probs[0, 0] == pytest.approx([1 / (1 + np.exp(-1)), 1 / (1 + np.exp(1)), 0])
    assert np.isnan(probs[0, 1]).all()
    assert probs[0, 2].sum() == pytest.approx(1)


def test_the_last_part_of_a_name_is_enough_where_one_model_has_it() -> None:
    outcomes = Outcomes.from_arrays([[1, 0]] * 4, models=["org/a", "./b", "lab/c", "c"])
    assert [outcomes.index(name) for name in ("a", "b", "org/a", "c")] == [0, 1, 0, 3]
    twice = outcomes.select(models=["org/a", "lab/c"]).models
    with pytest.raises(InputError, match="'d'"):
        outcomes.index("d")
    with pytest.raises(InputError, match="'a'"):
        Outcomes.from_arrays([[1, 0]] * 3, models=[*twice, "lab/a"]).index("a")


def test_class_probabilities_are_not_taken_for_repeats(tmp_path):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=(3, 20))
    with pytest.raises(InputError, match="probabilities"):
        Outcomes.from_arrays(probs)
    np.save(tmp_path / "p.npy", probs)
    with pytest.raises(InputError, match="probabilities"):
        Outcomes.open(tmp_path / "p.npy")


def test_epochs_of_one_model_are_named_as_such():
    probs = np.random.default_rng(0).dirichlet(np.ones(4), size=(3, 20))
    epochs = Predictions.from_arrays(probs, labels=np.zeros(20, dtype=int)).outcomes()
    assert (epochs.n_models, len(epochs.notes)) == (1, 1)
    models = Predictions.from_arrays(probs, labels=np.zeros(20, dtype=int), models=["a", "b", "c"]).outcomes()
    assert (models.n_models, models.notes) == (3, ())
