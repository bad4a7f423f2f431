import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from hardpan import records
from hardpan.bayes.floors.verdict import held_out_error, weigh
from hardpan.errors import InputError
from hardpan.records import Estimate


def floor(value, low=None, high=None):
    return Estimate(value, 0.0, value if low is None else low, value if high is None else high, method="m")


@given(st.floats(0, 1), st.lists(st.tuples(st.integers(0, 50), st.integers(50, 5000)), min_size=1, max_size=5))
def test_an_estimate_is_refuted_exactly_above_the_lowest_corrected_limit(value, counts):
    classifiers = {f"c{i}": held_out_error(e, n, method="m") for i, (e, n) in enumerate(counts)}
    tail = 0.025 / len(counts)
    limits = [beta.ppf(1 - tail, e + 1, n - e) if e < n else 1.0 for e, n in counts]
    verdict = weigh({"f": floor(value)}, classifiers)
    assert verdict.high == pytest.approx(min(limits))
    (item,) = verdict.weighings
    assert item.refuted == (value > verdict.high)
    assert verdict.refuted == (("f",) if item.refuted else ())
    assert 0 <= verdict.low <= verdict.high
    assert records.from_json(records.to_json(verdict)) == verdict


def test_the_paper_s_own_row_is_refuted():
    verdict = weigh({"flow": floor(2.46e-2)}, {"network": held_out_error(30, 10_000, method="CNN")})
    assert verdict.refuted == ("flow",)
    assert verdict.low == 0.0
    assert verdict.sentence == (
        "Refuted: flow, by the held-out error of network. No estimate of the floor is left."
    )


def test_the_bracket_runs_from_the_lowest_standing_end_to_the_lowest_limit():
    classifiers = {"poor": held_out_error(200, 1000, method="p"), "good": held_out_error(20, 1000, method="g")}
    floors = {"wild": floor(0.3), "model": floor(0.01), "bound": floor(0.015, 0.004, 0.02)}
    verdict = weigh(floors, classifiers)
    assert verdict.refuted == ("wild",)
    assert (verdict.low, verdict.low_from, verdict.high_from) == (0.004, "bound", "good")
    assert verdict.n_classifiers == 2
    assert verdict.sentence == "Refuted: wild, by the held-out error of good. Standing: model and bound."


def test_no_floor_is_above_guessing():
    useless = {"c": held_out_error(5, 10, method="m")}
    verdict = weigh({"f": floor(0.6), "g": floor(0.4)}, useless, n_classes=2)
    assert (verdict.high, verdict.high_from, verdict.refuted) == (0.5, "guessing", ("f",))
    assert verdict.n_classifiers == 1
    assert weigh({}, useless).high > 0.5


def test_more_classifiers_make_a_refutation_harder():
    one = {"a": held_out_error(20, 1000, method="m")}
    many = one | {f"b{i}": held_out_error(500, 1000, method="m") for i in range(50)}
    limit = weigh({}, one).high
    estimate = {"f": floor(limit * 1.01)}
    assert weigh(estimate, one).refuted == ("f",)
    assert weigh(estimate, many).refuted == ()


def test_an_estimate_whose_interval_crosses_the_limit_is_said_to():
    classifiers = {"c": held_out_error(20, 1000, method="m")}
    crossing = weigh({"f": floor(0.04, 0.01, 0.07)}, classifiers).weighings[0]
    assert crossing.refuted
    assert not crossing.clear
    assert "reaches below" in crossing.sentence
    assert "reaches above" in weigh({"f": floor(0.02, 0.01, 0.07)}, classifiers).weighings[0].sentence


def test_bad_evidence_is_refused():
    with pytest.raises(InputError, match="at least one"):
        weigh({"f": floor(0.1)}, {})
    with pytest.raises(InputError, match="share of n held-out examples"):
        weigh({}, {"c": floor(0.1)})
    with pytest.raises(InputError, match="got NaN"):
        weigh({"f": floor(float("nan"))}, {"c": held_out_error(1, 10, method="m")})
