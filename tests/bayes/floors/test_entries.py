import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from hardpan.bayes.floors.entries import (
    HELD_OUT,
    REPEATS,
    STATED_NOISE,
    VOTES,
    AssumptionTest,
    Entry,
    Sampling,
    classifier_entry,
    weigh,
)
from hardpan.bayes.floors.error_estimates import held_out_error
from hardpan.errors import InputError
from hardpan.estimates import Estimate


def claim(name, value, low=None, high=None, role="estimate", assumption="gaussian", check=None):
    ends = (value if low is None else low, value if high is None else high)
    return Entry(name, role, Estimate(value, 0.0, *ends, method="m"), assumption, check=check)


def classifier(name, errors, n):
    return Entry(name, "classifier", held_out_error(errors, n, method="m"), HELD_OUT)


def statuses(entries, **options):
    weighed, _ = weigh(entries, **{"n_classes": 2} | options)
    return {entry.name: entry.status for entry in weighed}


counts = st.integers(50, 5000).flatmap(
    lambda n: st.lists(st.tuples(st.integers(0, 50), st.just(n)), min_size=1, max_size=5)
)


@settings(max_examples=40)
@given(st.floats(0, 1), counts)
def test_the_upper_end_is_the_lowest_corrected_one_sided_limit(value, classifiers):
    entries = [classifier(f"c{i}", e, n) for i, (e, n) in enumerate(classifiers)]
    level = 0.05 / len(classifiers)
    limits = [beta.ppf(1 - level, e + 1, n - e) if e < n else 1.0 for e, n in classifiers]
    weighed, bracket = weigh([claim("f", value), *entries], n_classes=1000)
    assert bracket.high == pytest.approx(min(*limits, 0.999))
    assert (weighed[0].status == "refuted") == (value > bracket.high)
    assert (bracket.low, bracket.low_from) == (0.0, "")
    assert bracket.n_classifiers == len(classifiers)


def test_classifiers_on_other_rows_give_no_end():
    _, bracket = weigh([classifier("all", 10, 1000), classifier("some", 0, 900)], n_classes=2)
    assert bracket.high_from == "all"
    assert bracket.n_classifiers == 2


def test_with_copies_the_end_is_the_larger_of_both():
    wrong, kept = np.arange(400) < 40, np.arange(400) < 200
    entry = classifier_entry("c", wrong, "m", 0.95, Sampling(apart=kept))
    assert (entry.apart.estimate.value, entry.apart.estimate.n) == (0.2, 200)
    for apart, errors, n in ((False, 40, 400), (True, 40, 200)):
        _, bracket = weigh([entry], n_classes=2, apart=apart)
        assert bracket.apart == apart
        assert bracket.high == pytest.approx(beta.ppf(0.95, errors + 1, n - errors))
    harder = classifier_entry("c", ~wrong, "m", 0.95, Sampling(apart=wrong))  # right on what remains
    assert not weigh([harder], n_classes=1000, apart=True)[1].apart
    nothing = classifier_entry("c", wrong, "m", 0.95, Sampling(apart=np.zeros(400, dtype=bool)))
    assert weigh([nothing], n_classes=2, apart=True)[1].high == 0.5


ROLES = st.sampled_from(["estimate", "lower", "upper"])
NUMBERS = st.tuples(st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.3)).map(sorted)
CLAIMS = st.lists(
    st.tuples(NUMBERS, ROLES, st.sampled_from(["gaussian", "neighbours", "flow", VOTES, REPEATS])), max_size=7
)


@settings(max_examples=80)
@given(CLAIMS, st.integers(0, 300))
def test_no_assumption_enters_the_bracket_and_contradictions_are_found_between_any_two(claims, errors):
    entries = [
        claim(f"e{i}", mid, low, high, role, assumption)
        for i, ((low, mid, high), role, assumption) in enumerate(claims)
    ]
    weighed, bracket = weigh([*entries, classifier("net", errors, 1000)], n_classes=10)
    evidence, _ = weigh(
        [entry for entry in entries if not entry.under_assumption] + [classifier("net", errors, 1000)], n_classes=10
    )
    assert 0 <= bracket.low <= bracket.high
    assert bracket.low_assumption in ("", VOTES, REPEATS)
    usable = [e.estimate.low for e in evidence if e.status == "not refuted" and e.role in ("lower", "estimate")]
    assert bracket.low == min(max(usable, default=0.0), bracket.high)
    rest = [e for e in weighed if e.role != "classifier" and e.status in ("not refuted", "contradicted")]
    for a, b in itertools.permutations(rest, 2):
        if a.bounds_below and b.role in ("upper", "estimate") and a.estimate.low > b.estimate.high:
            assert b.name in a.refuted_by or a.name in b.refuted_by


def test_the_papers_own_row_is_refuted():
    weighed, bracket = weigh([claim("flow", 2.46e-2), classifier("network", 30, 10_000)], n_classes=10)
    assert (weighed[0].status, weighed[0].refuted_by) == ("refuted", ("network",))
    assert bracket.low == 0.0


def test_a_lower_bound_and_votes_that_exclude_each_other_do_not_both_survive():
    """A lower end of 42.5 % beside votes of 4.6 %: what the user vouches for prevails over what is assumed."""
    found = statuses(
        [
            claim("neighbours", 0.45, 0.425, 0.475, "lower", "neighbours"),
            claim("votes", 0.046, 0.04, 0.05, "estimate", VOTES),
            classifier("net", 480, 1000),
        ]
    )
    assert found == {"neighbours": "contradicted", "votes": "not refuted", "net": "not refuted"}


def test_repeats_prevail_and_equals_contradict_each_other():
    """That inputs repeat whatever their labels is an assumption, too, so repeats contradict, and do not refute."""
    entries = [
        claim("repeats", 0.1, 0.08, 0.12, "lower", REPEATS),
        claim("flow", 0.01, 0.009, 0.011, "estimate", "flow"),
        claim("cap", 0.15, 0.14, 0.16, "upper", "gaussian"),
        claim("bound", 0.25, 0.2, 0.3, "lower", "neighbours"),
        classifier("net", 300, 1000),
    ]
    weighed, bracket = weigh(entries, n_classes=2)
    assert {e.name: e.status for e in weighed if e.role != "classifier"} == {
        "repeats": "not refuted",
        "flow": "contradicted",
        "cap": "contradicted",
        "bound": "contradicted",
    }
    assert (bracket.low, bracket.low_from) == (0.08, "repeats")
    assert {e.name: e.refuted_by for e in weighed if e.refuted_by} == {
        "flow": ("repeats", "bound"),
        "cap": ("bound",),
        "bound": ("flow", "cap"),
    }


def test_a_lower_end_takes_half_of_the_level():
    _, alone = weigh([classifier("net", 100, 1000)], n_classes=2)
    _, both = weigh(
        [claim("noise", 0.05, role="lower", assumption=STATED_NOISE), classifier("net", 100, 1000)], n_classes=2
    )
    assert alone.high == pytest.approx(beta.ppf(0.95, 101, 900))
    assert both.high == pytest.approx(beta.ppf(0.975, 101, 900))
    assert (both.low, both.low_assumption) == (0.05, STATED_NOISE)


def test_a_stated_noise_above_a_classifiers_limit_is_refuted():
    weighed, bracket = weigh(
        [claim("noise", 0.3, role="lower", assumption=STATED_NOISE), classifier("net", 100, 1000)], n_classes=2
    )
    assert weighed[0].status == "refuted"
    assert bracket.low == 0.0


def test_a_rejected_assumption_is_named_and_tests_share_the_level():
    found = statuses([claim("model", 0.01, check=AssumptionTest(1e-9, 0.01, 0.3)), classifier("c", 20, 1000)])
    assert found["model"] == "assumption rejected"
    marginal = [claim(f"m{i}", 0.01, check=AssumptionTest(0.02, 0.01, 0.02)) for i in range(3)]
    assert statuses([marginal[0], classifier("c", 20, 1000)])["m0"] == "assumption rejected"
    assert statuses([*marginal, classifier("c", 20, 1000)])["m0"] == "not refuted"


def test_no_bracket_is_above_guessing():
    weighed, bracket = weigh([claim("f", 0.6), classifier("c", 5, 10)], n_classes=2)
    assert (bracket.high, bracket.high_from, weighed[0].status) == (0.5, "guessing", "refuted")


def test_more_classifiers_make_the_limit_wider():
    one = [classifier("a", 20, 1000)]
    many = one + [classifier(f"b{i}", 500, 1000) for i in range(50)]
    assert weigh(one, n_classes=2)[1].high < weigh(many, n_classes=2)[1].high


def test_bad_entries_are_refused():
    with pytest.raises(InputError, match="classifiers"):
        weigh([Entry("c", "classifier", Estimate(0.1, 0.0, 0.1, 0.1), HELD_OUT)], n_classes=2)
    with pytest.raises(InputError, match=r"^f\b"):
        weigh([claim("f", float("nan")), classifier("c", 1, 10)], n_classes=2)
    with pytest.raises(InputError, match="'c'"):
        weigh([claim("c", 0.1), classifier("c", 1, 10)], n_classes=2)
