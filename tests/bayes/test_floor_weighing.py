import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from hardpan import files
from hardpan.bayes.floors import Candidate, Check, held_out_error, weigh
from hardpan.bayes.floors.weighing import own_decisions_check
from hardpan.errors import InputError
from hardpan.estimates import Estimate


def number(value, low=None, high=None):
    return Estimate(value, 0.0, value if low is None else low, value if high is None else high, method="m")


def claim(name, value, low=None, high=None, role="estimate", assumption="", check=None):
    return Candidate(name, role, number(value, low, high), assumption or f"{name} is right", check)


def classifier(name, errors, n):
    return Candidate(name, "classifier", held_out_error(errors, n, method="m"), "")


counts = st.lists(st.tuples(st.integers(0, 50), st.integers(50, 5000)), min_size=1, max_size=5)


@given(st.floats(0, 1), counts)
def test_an_estimate_is_refuted_exactly_above_the_lowest_corrected_limit(value, given_counts):
    classifiers = [classifier(f"c{i}", e, n) for i, (e, n) in enumerate(given_counts)]
    tail = 0.025 / len(given_counts)
    limits = [beta.ppf(1 - tail, e + 1, n - e) if e < n else 1.0 for e, n in given_counts]
    floor = weigh([claim("f", value), *classifiers], n_classes=1000)
    assert floor.high == pytest.approx(min(*limits, 0.999))
    assert (floor["f"].status == "refuted") == (value > floor.high)
    assert floor.refuted == (("f",) if value > floor.high else ())
    assert 0 <= floor.low <= floor.high
    assert files.from_json(files.to_json(floor)) == floor


def test_the_papers_own_row_is_refuted():
    floor = weigh([claim("flow", 2.46e-2), classifier("network", 30, 10_000)], n_classes=10)
    assert floor.refuted == ("flow",)
    assert (floor.low, floor.low_from) == (0.0, "")
    assert "refuted by that limit: flow (2.46 %)" in floor.sentence
    assert floor["flow"].against == "network"


def test_the_bracket_runs_from_the_lowest_assumption_to_the_lowest_limit():
    floor = weigh(
        [
            claim("wild", 0.3),
            claim("model", 0.01),
            claim("bound", 0.015, 0.004, 0.02, role="lower"),
            classifier("poor", 200, 1000),
            classifier("good", 20, 1000),
        ],
        n_classes=2,
    )
    assert floor.refuted == ("wild",)
    assert (floor.low, floor.low_from, floor.low_assumption) == (0.004, "bound", "bound is right")
    assert floor.high_from == "good"
    assert floor.n_classifiers == 2


def test_a_loose_bound_does_not_pull_down_a_tight_one_of_the_same_assumption():
    shared = "the classes are Gaussian"
    tight = claim("exact", 0.01, 0.009, 0.011, assumption=shared)
    loose = claim("loose", 1e-9, role="lower", assumption=shared)
    assert weigh([tight, loose, classifier("c", 20, 1000)], n_classes=2).low == 0.009
    other = claim("loose", 1e-9, role="lower", assumption="another")
    assert weigh([tight, other, classifier("c", 20, 1000)], n_classes=2).low == 1e-9


def test_a_failed_assumption_takes_its_numbers_out_of_the_bracket():
    wrong = Check(1e-9, "it promises 1 % and makes 30 %")
    fine = Check(0.5, "")
    floor = weigh(
        [
            claim("model", 0.001, check=wrong),
            claim("bound", 0.9, role="upper", check=wrong),
            claim("other", 0.01, check=fine),
            classifier("c", 20, 1000),
        ],
        n_classes=2,
    )
    assert floor.unfounded == ("model", "bound")
    assert floor.low == 0.01
    assert "it promises 1 % and makes 30 %" in floor["model"].reason
    assert floor["model"].against == "its own decisions"


def test_checks_share_the_level():
    marginal = [claim(f"m{i}", 0.01, check=Check(0.02, "")) for i in range(3)]
    assert weigh([marginal[0], classifier("c", 20, 1000)], n_classes=2).unfounded == ("m0",)
    assert weigh([*marginal, classifier("c", 20, 1000)], n_classes=2).unfounded == ()


def test_ceilings_are_neither_refuted_nor_refuting():
    floor = weigh(
        [claim("plug-in", 0.5, role="upper"), claim("tight", 0.001, role="upper"), classifier("c", 20, 1000)],
        n_classes=10,
    )
    assert floor.refuted == ()
    assert floor.high_from == "c"


def test_no_floor_is_above_guessing():
    floor = weigh([claim("f", 0.6), claim("g", 0.4), classifier("c", 5, 10)], n_classes=2)
    assert (floor.high, floor.high_from, floor.refuted) == (0.5, "guessing", ("f",))
    assert floor.n_classifiers == 1


def test_more_classifiers_make_a_refutation_harder():
    one = [classifier("a", 20, 1000)]
    many = one + [classifier(f"b{i}", 500, 1000) for i in range(50)]
    estimate = claim("f", weigh(one, n_classes=2).high * 1.01)
    assert weigh([estimate, *one], n_classes=2).refuted == ("f",)
    assert weigh([estimate, *many], n_classes=2).refuted == ()


def test_an_estimate_whose_interval_crosses_the_limit_is_said_to():
    one = classifier("c", 20, 1000)
    assert "reaches below" in weigh([claim("f", 0.04, 0.01, 0.07), one], n_classes=2)["f"].reason
    assert "reaches above" in weigh([claim("f", 0.02, 0.01, 0.07), one], n_classes=2)["f"].reason


@given(st.integers(0, 200), st.floats(0.001, 0.6))
def test_the_check_of_own_decisions_is_twice_the_smaller_binomial_tail(wrong, promised):
    found = own_decisions_check(number(promised), held_out_error(wrong, 200, method="m")).p_value
    tails = [binomtest(wrong, 200, promised, alternative=side).pvalue for side in ("less", "greater")]
    assert found == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6, abs=1e-12)


def test_bad_evidence_is_refused():
    with pytest.raises(InputError, match="at least one classifier"):
        weigh([claim("f", 0.1)], n_classes=2)
    with pytest.raises(InputError, match="share of n held-out examples"):
        weigh([Candidate("c", "classifier", number(0.1), "")], n_classes=2)
    with pytest.raises(InputError, match="got NaN"):
        weigh([claim("f", float("nan")), classifier("c", 1, 10)], n_classes=2)
    with pytest.raises(InputError, match="given twice"):
        weigh([claim("c", 0.1), classifier("c", 1, 10)], n_classes=2)
