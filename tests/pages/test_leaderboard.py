"""The page of a leaderboard: what is on the first screen, answers to items, pictures of scores."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from hardpan import Outcomes
from hardpan.leaderboard.summary import summarize
from hardpan.pages.leaderboard.board import scores_raster
from hardpan.pages.sections import Table

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def board():
    right = RNG.random((6, 200)) < np.linspace(0.9, 0.2, 6)[:, None]
    answers = np.where(right, "A", np.where(RNG.random((6, 200)) < 0.5, "B", "C"))
    return summarize(Outcomes.from_arrays(right, answers=answers, key=["A"] * 200))


def test_the_first_screen_has_scores_and_separated_pairs(board):
    scores, pairs = board.view().hero
    assert scores.drawing == "ranking"
    shown = np.array([row["value"] is not None for row in pairs.rows]).reshape(6, 6)
    ahead = (board.ranking.pairs.p_holm <= 0.05) & (board.ranking.pairs.difference > 0)
    np.testing.assert_array_equal(shown, ahead)


def test_answers_to_items_are_those_of_the_models(board):
    for example in board.examples:
        assert example.key == "A"
        given = [name for models in example.models for name in models]
        assert sorted(given) == sorted(board.ranking.models)
        assert all(score == (answer == "A") for answer, score in zip(example.answers, example.scores, strict=True))
    folded = [part for section in board.view().sections for part in section.folded if isinstance(part, Table)]
    (table,) = [table for table in folded if table.columns[:3] == ("item", "key", "answer")]
    assert len(table.rows) == sum(len(example.answers) for example in board.examples)


@pytest.mark.parametrize("shape", [(100, 5), (2, 400), (7, 7), (1, 1)])
def test_pictures_of_scores_have_a_largest_height(shape):
    address = scores_raster(RNG.random(shape)).options["png"]
    image = Image.open(io.BytesIO(base64.b64decode(address.split(",")[1])))
    assert image.height <= image.width


def test_nothing_separated_shows_no_pairs():
    board = summarize(Outcomes.from_arrays(RNG.random((4, 40)) < 0.5))
    assert [chart.drawing for chart in board.view().hero] == ["ranking"]
    assert not board.examples
