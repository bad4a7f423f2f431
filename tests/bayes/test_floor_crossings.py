"""A ceiling below a floor: named wherever intervals do not explain it, and never inside the bracket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan import files
from hardpan.bayes.floors import Candidate, Check, held_out_error, weigh
from hardpan.bayes.floors.crossings import in_sentences
from hardpan.estimates import Estimate


def claim(name, value, low, high, role, assumption="", check=None):
    return Candidate(
        name, role, Estimate(value, 0.0, low, high, method="m"), assumption or f"{name} is right", check
    )


def classifier(errors=150, n=1000):
    return Candidate("net", "classifier", held_out_error(errors, n, method="m"), "")


shares = st.floats(0, 0.3)
claims = st.lists(
    st.tuples(
        st.tuples(shares, shares, shares).map(sorted),
        st.sampled_from(["estimate", "lower", "upper"]),
        st.sampled_from(["A", "B", "C", "D"]),
        st.sampled_from([None, 1.0, 1e-12]),
    ),
    max_size=12,
)


@given(claims, st.integers(0, 400))
def test_every_contradiction_is_named_and_the_bracket_is_in_order(planted, errors):
    candidates = [
        claim(f"c{i}", value, low, high, role, assumption, None if p is None else Check(p, "it errs"))
        for i, ((low, value, high), role, assumption, p) in enumerate(planted)
    ]
    found = weigh([*candidates, classifier(errors)], n_classes=10)
    assert 0 <= found.low <= found.high
    open_to_dispute = [entry for entry in found.entries if entry.status in ("stands", "disputed")]
    floors = [entry for entry in open_to_dispute if entry.role in ("estimate", "lower")]
    ceilings = [entry for entry in open_to_dispute if entry.role == "upper"]
    expected = {
        (floor.name, ceiling.name)
        for floor in floors
        for ceiling in ceilings
        if floor.estimate.low > ceiling.estimate.high
    }
    assert {(item.floor, item.ceiling) for item in found.crossings if item.contradiction} == expected
    assert set(found.disputed) == {name for pair in expected for name in pair}
    assert bool(expected) == ("not both can be true" in found.sentence)
    assert all(found.low <= ceiling.estimate.high for ceiling in ceilings)
    for item in found.crossings:
        assert item.floor in item.sentence.replace("C", "c", 1)
        assert item.ceiling in item.sentence
        assert item.ceiling in found[item.floor].against.split(", ") or not item.contradiction
    assert files.from_json(files.to_json(found)) == found


@given(claims)
def test_a_dispute_never_raises_the_lower_end(planted):
    made = [
        claim(f"c{i}", value, low, high, role, assumption)
        for i, ((low, value, high), role, assumption, _) in enumerate(planted)
    ]
    with_ceilings = weigh([*made, classifier()], n_classes=10)
    without = weigh([*(item for item in made if item.role != "upper"), classifier()], n_classes=10)
    assert with_ceilings.low <= without.low
    assert with_ceilings.high == without.high


def test_a_floor_above_a_ceiling_disputes_both_and_no_longer_bounds():
    found = weigh(
        [
            claim("bound", 0.06, 0.055, 0.07, "lower", "neighbours share a posterior"),
            claim("cap", 0.05, 0.045, 0.052, "upper", "classes are Gaussian"),
            classifier(),
        ],
        n_classes=10,
    )
    assert found.disputed == ("bound", "cap")
    assert (found.low, found.low_from) == (0.0, "")
    assert found["bound"].against == "cap"
    assert found["cap"].against == "bound"
    assert found.crossings[0].sentence == (
        "Bound and cap contradict each other: at least 5.5 % if neighbours share a posterior, at most 5.2 % if "
        "classes are Gaussian; one is not true."
    )
    assert "; not both can be true: bound (at least 5.5 %) and cap (at most 5.2 %)." in found.sentence
    assert "nothing is refuted" not in found.sentence
    assert found["cap"].reason == (
        "Disputed: it says at most 5.2 % if classes are Gaussian, against bound (at least 5.5 %); not all of these "
        "can be true."
    )


def test_values_that_cross_within_their_intervals_are_shown_to_be_comparable():
    found = weigh(
        [claim("bound", 0.06, 0.03, 0.1, "lower"), claim("cap", 0.05, 0.04, 0.06, "upper"), classifier()],
        n_classes=10,
    )
    assert found.disputed == ()
    assert (found.low, found.low_from) == (0.03, "bound")
    assert found.crossings[0].sentence == (
        "Bound and cap cross, but their intervals meet (6 % is above 5 %): that is no contradiction."
    )


def test_one_assumption_that_contradicts_itself_is_false():
    found = weigh(
        [
            claim("bound", 0.06, 0.055, 0.07, "lower", "A"),
            claim("cap", 0.05, 0.04, 0.05, "upper", "A"),
            classifier(),
        ],
        n_classes=10,
    )
    assert "so it is not true" in found.crossings[0].sentence


@pytest.mark.parametrize(("value", "p_value"), [(0.9, None), (0.1, 1e-9)])
def test_what_is_refuted_or_unfounded_disputes_nothing(value, p_value):
    check = None if p_value is None else Check(p_value, "it errs more often")
    found = weigh(
        [
            claim("wrong", value, value, value, "estimate", check=check),
            claim("cap", 0.05, 0.04, 0.06, "upper"),
            classifier(),
        ],
        n_classes=10,
    )
    assert found["cap"].status == "stands"
    assert found.crossings == ()


def test_many_crossings_are_told_in_few_sentences():
    low = [claim(f"low {i}", 0.06, 0.055, 0.07, "lower") for i in range(3)]
    caps = [claim(f"cap {i}", 0.05, 0.04, 0.052, "upper") for i in range(3)]
    wide = [claim(f"wide {i}", 0.058, 0.05, 0.057, "upper") for i in range(2)]
    found = weigh([*low, *caps, *wide, classifier()], n_classes=10)
    assert len(found.crossings) == 15
    assert [item.contradiction for item in found.crossings] == [True] * 9 + [False] * 6
    told = in_sentences(found.crossings)
    assert told[4:] == (
        "5 more such pairs: see what is against each in the table.",
        "Values cross while their intervals meet, which is no contradiction: low 0 with wide 0, low 0 with wide 1, "
        "low 1 with wide 0 and 3 more.",
    )
    assert found.sentence.endswith("; and 5 more pairs.")
