"""A floor that was weighed, on its page: the tile's bracket, and how marks show the verdict."""

import pytest

from hardpan.auditing.measures import in_words
from hardpan.bayes.floors import Candidate
from hardpan.bayes.floors.means import held_out_error
from hardpan.bayes.floors.weighing import HELD_OUT, weigh
from hardpan.estimates import Estimate
from hardpan.studies.floor_page import floor_section, floor_tiles


@pytest.fixture(scope="module")
def floor():
    """A bound far below the rest that stands, a floor above a ceiling, a refuted estimate, and a classifier."""
    return weigh(
        [
            Candidate("tiny", "lower", Estimate(2e-6, 0.0, 9e-7, 3e-6), "A holds"),
            Candidate("bound", "lower", Estimate(0.012, 0.0, 0.010, 0.014), "B holds"),
            Candidate("cap", "upper", Estimate(0.004, 0.0, 0.003, 0.005), "C holds"),
            Candidate("model", "estimate", Estimate(0.25, 0.0, 0.25, 0.25), "D holds"),
            Candidate("network", "classifier", held_out_error(20, 1000, method="a network"), HELD_OUT),
        ],
        n_classes=10,
    )


def test_both_ends_of_the_bracket_are_in_percent(floor):
    (tile,) = (tile for tile in floor_tiles(floor) if tile.title == "Floor")
    assert tile.value == "9 × 10⁻⁵ % to 3.1 %"
    assert in_words("bracket", Estimate(floor.high, 0.0, floor.low, floor.high)) == tile.value


def test_rows_of_the_chart_carry_the_verdict(floor):
    chart = floor_section(floor).charts[0]
    found = {row["name"]: (row["role"], row["status"]) for row in chart.rows}
    assert found == {
        "tiny": ("floor", "stands"),
        "bound": ("floor", "disputed"),
        "cap": ("ceiling", "disputed"),
        "model": ("refuted", "refuted"),
        "network": ("ceiling", ""),
    }
    (disputed,) = (row for row in chart.rows if row["name"] == "bound")
    assert disputed["reason"].startswith("Disputed: it says at least 1 % if B holds, against cap (at most 0.5 %)")
    assert chart.options["log"]
