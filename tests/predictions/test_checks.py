import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax as reference
from tests.predictions.made import logits, probabilities

from hardpan import arguments
from hardpan.errors import InputError
from hardpan.predictions import checks
from hardpan.predictions import checks as rows


@pytest.mark.parametrize("classes", [2, 10, 1000])
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 10.0, 100.0])
def test_what_float16_does_to_a_sum_is_within_the_tolerance(classes, scale):
    exact = reference(scale * np.random.default_rng(0).normal(size=(2000, classes)), axis=1)
    assert checks.are_probabilities(exact).all()
    assert checks.are_probabilities(exact.astype(np.float32)).all()
    assert checks.are_probabilities(exact.astype(np.float16)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_twice_the_tolerance_off_is_refused(dtype):
    row = np.full((1, 4), 0.25, dtype=dtype)
    row[0, 0] += 2 * arguments.sum_tolerance(4)
    assert not checks.are_probabilities(row).any()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=20))
def test_softmax_is_that_of_scipy(values):
    found = rows.softmax(np.array([values]))
    assert np.allclose(found, reference(np.array([values]), axis=1), rtol=2e-6, atol=1e-30)
    assert checks.are_probabilities(found).all()


def test_a_class_ruled_out_has_no_probability_and_an_infinite_logit_none_that_is_a_number():
    assert rows.softmax(np.array([[0.0, -np.inf, 0.0]])).tolist() == [[0.5, 0.0, 0.5]]
    assert np.isnan(rows.softmax(np.array([[0.0, np.inf]]))).any()


def test_what_rows_are_is_said_or_seen():
    assert rows.detect("p", probabilities(100, 5)) == "probabilities"
    assert rows.detect("p", logits(100, 5)) == "logits"
    assert rows.detect("p", np.log(probabilities(100, 5, dtype=np.float64) + 1e-9)) == "logits"
    assert rows.detect("p", probabilities(100, 5), "logits") == "logits"
    some_bad = probabilities(100, 5, dtype=np.float64)
    some_bad[:30] = logits(30, 5)
    assert rows.detect("p", some_bad) == "probabilities"
    with pytest.raises(InputError, match="outputs"):
        rows.detect("p", np.random.default_rng(0).uniform(0, 0.1, size=(50, 5)))
    with pytest.raises(InputError, match=r"\boutputs\b"):
        rows.detect("p", logits(5, 5), "scores")


@settings(max_examples=200)
@given(st.lists(st.floats(width=16), min_size=2, max_size=6))
def test_half_precision_is_judged_as_single_precision_is(values):
    row = np.array([values], dtype=np.float16)
    single = checks.are_probabilities(row.astype(np.float32))
    assert checks.are_probabilities(row).tolist() == single.tolist()


def test_minus_zero_is_no_fault():
    assert checks.are_probabilities(np.array([[1.0, -0.0]], dtype=np.float16)).all()


@pytest.mark.parametrize("total", [100, 255, 7])
def test_shares_of_another_whole_are_no_logits(total):
    shares = np.round(rows.softmax(np.random.default_rng(0).standard_normal((40, 4))) * total * 100) / 100
    with pytest.raises(InputError, match="normalize"):
        rows.detect("p.npy", shares)
    assert rows.detect("p.npy", shares, "logits") == "logits"


def test_logits_that_are_not_negative_are_logits():
    assert rows.detect("z", np.maximum(5 * np.random.default_rng(1).standard_normal((40, 4)), 0) + 1) == "logits"
    assert rows.detect("z", np.array([[3.0, 1.0, 0.0]])) == "logits"
