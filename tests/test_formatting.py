import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpan.estimates import Estimate, Interval
from hardpan.pages import formatting


def decimals(text):
    return len(match[1]) if (match := re.search(r"\.(\d+)", text)) else 0


@given(st.floats(0.001, 1), st.floats(1e-6, 0.5))
def test_the_last_digit_is_of_the_order_of_the_spread(value, spread):
    text = formatting.percent(value, spread)
    unit = 10.0 ** -decimals(text)
    assert unit > 0.03 * 100 * spread or decimals(text) == 0
    assert unit <= 100 * spread or decimals(text) == 0
    assert float(text.removesuffix(" %").replace(",", "")) == pytest.approx(100 * value, abs=unit / 2 * 1.001)


@given(st.floats(1e-300, 9e-5))
def test_small_fractions_are_powers_of_ten_and_right(value):
    text = formatting.percent(value)
    mantissa, exponent = re.fullmatch(r"([\d.]+) × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text).groups()
    power = int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert float(mantissa) * 10.0**power == pytest.approx(value, rel=6e-3)


def fractions(text):
    """Every number of a text of shares as the fraction that it says: of a percent sign, one of a hundred."""
    found = re.findall(r"([\d.,]+)(?: × 10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?( %)?", text)
    power = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return [
        float(f"{number.replace(',', '')}e{exponent.translate(power) or 0}") / (100 if sign else 1)
        for number, exponent, sign in found
    ]


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_range_gives_both_ends_the_same_digits(a, b):
    low, high = sorted([a, b])
    text = formatting.percent_range(low, high)
    if " to " not in text:
        left, right = text.removesuffix(" %").split("–")
        assert decimals(left) == decimals(right)


@given(st.floats(1e-290, 1), st.floats(1e-290, 1))
def test_an_end_of_a_range_beside_a_percent_sign_is_in_percent(a, b):
    low, high = sorted([a, b])
    text = formatting.percent_range(low, high)
    # Each end has its own sign where the low one would vanish in the digits of the high one.
    assert text.count(" %") == (0 if high < 1e-4 else 2 if " to " in text else 1)
    assert " to " in text or low >= 1e-4
    if " to " in text:
        assert fractions(text)[0] == pytest.approx(low, rel=0.3 if high >= 1e-4 else 0.51)
        assert not re.search(r"(?<![\d.])10(\.0+)? × 10", text)
    if "× 10" in text and "%" in text:
        assert re.fullmatch(r"[\d.]+ × 10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+ % to [\d.]+ %", text)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_no_fraction_stands_beside_a_percent_sign(a, b, c):
    low, value, high = sorted([a, b, c])
    texts = [
        formatting.estimate(Estimate(value, 0.0, low, high)),
        formatting.limit(value),
        formatting.percent(value, high),
    ]
    assert not any("× 10" in text and "%" in text for text in texts)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (9e-7, 0.028, "9 × 10⁻⁵ % to 2.8 %"),
        (9.6e-7, 0.028, "1.0 × 10⁻⁴ % to 2.8 %"),
        (9e-5, 0.034, "0.009 % to 3.4 %"),
        (9.99e-5, 1e-4, "0.009990 % to 0.010000 %"),
        (0.0, 3e-6, "0 to 3.0 × 10⁻⁶"),
        (0.0, 0.0, "0–0 %"),
    ],
)
def test_ranges_as_a_person_reads_them(low, high, text):
    assert formatting.percent_range(low, high) == text


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(0.0139, 0.006, 0.0046, 0.0322, n=359), "1.4 % (0.5–3.2 %)"),
        (Estimate(0.0, 0.0, 0.0, 0.0102, n=359), "0.0 % (0.0–1.0 %)"),
        (Estimate(0.25, 0.0, 0.25, 0.25), "25.0 %"),
        (Estimate(0.0, 0.0, 0.0, 0.0), "0 %"),
        (Estimate(0.0, 0.0, 0.0, 0.0, log10=-400.0), "1.00 × 10⁻⁴⁰⁰"),
        (Estimate(2e-9, 1e-11, 1.98e-9, 2.02e-9), "2.000 × 10⁻⁹ ± 2.0 × 10⁻¹¹"),
        (Estimate(math.nan, 0.0, 0.0, 0.0), formatting.NOTHING),
    ],
)
def test_estimates_as_a_person_reads_them(estimate, text):
    assert formatting.estimate(estimate) == text


FINITE = st.floats(-1e3, 1e3)


@st.composite
def estimates(draw):
    value = draw(FINITE)
    below, above = draw(st.floats(1e-5, 1e6)), draw(st.floats(1e-5, 1e6))  # more than rounding
    return Estimate(value, 0.0, value - below, value + above)


def parts(text):
    """The numbers of a text and the unit of their last digits, which must be the same for all."""
    found = re.findall(r"[+−]?[\d,]+(?:\.\d+)?", text)
    (places,) = {decimals(number) for number in found}
    return [float(number.replace(",", "").replace("−", "-")) for number in found], 10.0**-places


@given(estimates(), st.sampled_from([1.0, 100.0]))
def test_a_plain_number_and_its_ends_are_right_to_half_a_last_digit(item, scale):
    text = formatting.plain(item, scale)
    shown, unit = parts(text)
    assert shown == pytest.approx([scale * item.value, scale * item.low, scale * item.high], abs=0.501 * unit)
    assert re.fullmatch(r"\S+ \(\S+(–| to )\S+\)", text)
    assert ("–" in text) == ("−" not in text.partition(" ")[2])  # a dash never stands before a minus


@given(estimates())
def test_a_difference_has_signs_and_is_right_to_half_a_last_digit(item):
    text = formatting.signed(item)
    shown, unit = parts(text)
    assert shown == pytest.approx([100 * item.value, 100 * item.low, 100 * item.high], abs=0.501 * unit)
    assert re.fullmatch(r"[+−]\S+ points \([+−]\S+ to [+−]\S+\)", text)
    (ends,) = formatting.aligned([Interval(item.low, item.high)], scale=100, sign="+")
    assert text.endswith(f" points ({ends})")


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_share_and_its_ends_are_right_to_half_a_last_digit(a, b, c):
    low, value, high = sorted([a, b, c])
    text = formatting.estimate(Estimate(value, 0.0, low, high))
    if "×" in text or "(" not in text:
        return
    shown, unit = parts(text)
    assert shown == pytest.approx([100 * value, 100 * low, 100 * high], abs=0.501 * unit)
    assert re.fullmatch(r"[\d.]+ % \([\d.]+–[\d.]+ %\)", text)


@given(estimates())
def test_never_more_digits_than_the_spread_supports(item):
    spread = (item.high - item.low) / 2
    for text, scale in (
        (formatting.plain(item), 1.0),
        (formatting.plain(item, 100), 100.0),
        (formatting.signed(item), 100.0),
    ):
        _, unit = parts(text)
        assert unit == 1.0 or 0.03 * scale * spread < unit <= scale * spread


@given(st.lists(estimates(), max_size=8))
def test_a_column_has_equal_digits_or_each_row_its_own(items):
    texts = formatting.aligned(items)
    own = [formatting.plain(item) for item in items]
    units = {parts(text)[1] for text in texts}
    assert texts == own or len(units) == 1
    for text, alone, item in zip(texts, own, items, strict=True):
        (shown, unit), (_, supported) = parts(text), parts(alone)
        assert unit >= supported
        assert shown == pytest.approx([item.value, item.low, item.high], abs=0.501 * unit)
        assert shown[1] < shown[2] or supported == 1.0  # no interval vanishes in the rounding


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (formatting.plain(Estimate(0.03, 0.0, math.nan, math.nan)), "0.0300"),
        (formatting.estimate(Estimate(0.25, 0.0, math.nan, math.nan)), "25.0 %"),
        (formatting.signed(Estimate(0.25, 0.0, math.nan, math.nan)), "+25.0 points"),
        (formatting.plain(Estimate(math.nan, 0.0, 0.0, 1.0)), formatting.NOTHING),
        (formatting.signed(Estimate(math.nan, 0.0, 0.0, 1.0)), formatting.NOTHING),
        (formatting.aligned([Interval(math.nan, 1.0)])[0], formatting.NOTHING),
        (formatting.signed(Estimate(0.0, 0.0, 0.0, 0.0)), "0 points"),
        (formatting.plain(Estimate(2.0, 0.0, 1.5, math.inf)), "2.00 (1.50–∞)"),
        (formatting.plain(Estimate(1.0, 0.0, 1.0 - 2e-16, 1.0 + 2e-16)), "1.00"),
        (formatting.plain(Estimate(-0.004, 0.0, -0.02, 0.01)), "−0.004 (−0.020 to 0.010)"),
        (formatting.plain(Estimate(0.004, 0.0, -0.0001, 0.3)), "0.00 (0.00–0.30)"),
        (formatting.estimate(Estimate(-0.01, 0.0, -0.04, 0.02)), "−1 % (−4 to 2 %)"),
    ],
)
def test_what_is_not_known_what_is_exact_and_what_is_negative(text, expected):
    assert text == expected


def test_rows_without_a_number_set_no_digits():
    near, none = Estimate(0.9164, 0.0, 0.9132, 0.9194), Estimate(math.nan, 0.0, 0.0, 1.0)
    assert formatting.aligned([near, none, None], scale=100) == ["91.6 (91.3–91.9)", "–", "–"]
    assert formatting.aligned([near, Estimate(1.0, 0.0, 1.0, 1.0)]) == ["0.916 (0.913–0.919)", "1.000"]
    assert formatting.aligned([]) == []


ANY = st.floats()


@given(ANY, ANY, ANY, st.none() | ANY)
def test_nothing_makes_the_formatter_fail_nor_shows_nan(value, low, high, log10):
    item = Estimate(value, 0.0, low, high, log10=log10)
    texts = [
        formatting.estimate(item),
        formatting.plain(item),
        formatting.signed(item),
        *formatting.aligned([item, item]),
    ]
    texts += [formatting.percent(value, low), formatting.percent_range(low, high), formatting.cell(value)]
    texts += formatting.aligned([Interval(low, high), item], sign="+")
    assert not any("nan" in text or "inf" in text for text in texts)


@given(st.lists(st.text("ab/-", min_size=1, max_size=60), max_size=12), st.integers(8, 30))
def test_shortened_names_stay_different(names, longest):
    shown = formatting.short_names(names, longest)
    assert len(set(shown)) == len(set(names))
    assert all(label == name for name, label in zip(names, shown, strict=True) if len(name) <= longest)
