import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan.records import Estimate, numbers


def decimals(text):
    return len(match[1]) if (match := re.search(r"\.(\d+)", text)) else 0


@given(st.floats(0.001, 1), st.floats(1e-6, 0.5))
def test_the_last_digit_is_of_the_order_of_the_spread(value, spread):
    text = numbers.percent(value, spread)
    unit = 10.0 ** -decimals(text)
    assert unit > 0.03 * 100 * spread or decimals(text) == 0
    assert unit <= 100 * spread or decimals(text) == 0
    assert float(text.removesuffix(" %").replace(",", "")) == pytest.approx(100 * value, abs=unit / 2 * 1.001)


@given(st.floats(1e-300, 9e-5))
def test_small_fractions_are_powers_of_ten_and_right(value):
    text = numbers.percent(value)
    mantissa, exponent = re.fullmatch(r"([\d.]+) × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text).groups()
    power = int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert float(mantissa) * 10.0**power == pytest.approx(value, rel=6e-3)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_range_gives_both_ends_the_same_digits(a, b):
    low, high = sorted([a, b])
    text = numbers.percent_range(low, high)
    if "×" not in text:
        left, right = text.removesuffix(" %").split("–")
        assert decimals(left) == decimals(right)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.0139, 0.006, 0.0046, 0.0322, n=359), "1.4 % (0.5–3.2 %)"),
        (Estimate(0.0, 0.0, 0.0, 0.0102, n=359), "0.0 % (0.0–1.0 %)"),
        (Estimate(0.25, 0.0, 0.25, 0.25), "25.0 %"),
        (Estimate(0.0, 0.0, 0.0, 0.0), "0 %"),
        (Estimate(0.0, 0.0, 0.0, 0.0, log10=-400.0), "1.00 × 10⁻⁴⁰⁰"),
        (Estimate(2e-9, 1e-11, 1.98e-9, 2.02e-9), "2.000 × 10⁻⁹ ± 2.0 × 10⁻¹¹"),
        (Estimate(math.nan, 0.0, 0.0, 0.0), numbers.NOTHING),
    ],
)
def test_estimates_as_a_person_reads_them(estimate, text):
    assert numbers.estimate(estimate) == text


@given(st.floats(), st.floats(), st.floats(), st.none() | st.floats())
def test_nothing_makes_the_formatter_fail(value, low, high, log10):
    numbers.estimate(Estimate(value, 0.0, low, high, log10=log10))
    numbers.percent(value, low)
    numbers.percent_range(low, high)
    numbers.cell(value)
