"""Numbers as a person reads them: never more digits than their interval supports.

The one formatter for page and terminal. Errors are fractions inside hardpan and percent here; below 0.01 % they are
written as powers of ten, which are fractions where no percent sign follows: no fraction stands in front of one.
"""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from hardpan.estimates import Estimate, Interval

NOTHING = "–"
_EXACT_DIGITS = 3
_LEAST_WHOLE, _MOST_WHOLE = 1e4, 1e15  # between them a number has no digits behind the point
_COLUMN_PLACES = 2  # behind the point, in a column with numbers of 10 and more
_SMALLEST_PERCENT = 1e-4
_SMALLEST_DECIMAL = 1e-5  # beside percents, what is smaller becomes a power of ten
_ROUNDING = 1e-9  # an interval narrower than this fraction of its ends counts as no interval
_TO = re.compile(r"(?<=\d) to (?=[+−]?[\d.,]+(?: %)?\))")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(value: float, spread: float = 0.0) -> str:
    """Write a fraction as percent, with the digits that an uncertainty of ``spread`` supports.

    The last digit shown is of the order of the spread: two digits of it where it begins with 1 or 2, else one.
    Three significant digits where the spread is 0.

    Args:
        value: the fraction.
        spread: half the width of its interval, or 0 for an exact number.

    Example:
        >>> percent(0.03417, 0.015), percent(0.03417, 0.0004), percent(0.03417), percent(1.106e-11)
        ('3.4 %', '3.42 %', '3.42 %', '1.11 × 10⁻¹¹')
    """
    if not math.isfinite(value):
        return NOTHING
    if value == 0.0 and 0.0 < spread < _SMALLEST_PERCENT:
        return "0 %"
    if value != 0.0 and abs(value) < _SMALLEST_PERCENT and spread < _SMALLEST_PERCENT:
        return _power_of_ten(value, spread)
    return f"{fixed(100 * value, _decimals(100 * value, 100 * spread))} %"


def exact_percent(value: float) -> str:
    """Write a proportion without an interval in percent with three digits at most.

    Example:
        >>> exact_percent(0.0246), exact_percent(0.0), exact_percent(3e-27)
        ('2.46 %', '0 %', '3.00 × 10⁻²⁷')
    """
    return f"{100 * value:.3g} %" if value == 0 or value >= 1e-5 else percent(value)


def short_percent(value: float) -> str:
    """Write a fraction as a short label on a chart.

    Example:
        >>> [short_percent(value) for value in (0.0, 0.004, 0.064, 0.4)]
        ['0 %', '0.40 %', '6.4 %', '40 %']
    """
    digits = 0 if value == 0 or value >= 0.1 else 1 if value >= 0.01 else 2
    return f"{100 * value:.{digits}f} %"


def percent_range(low: float, high: float) -> str:
    """Write a bracket as percent, both ends with the digits that its width supports.

    A low end that such digits would round to nothing has a percent sign and digits of its own; a bracket that lies
    below 0.01 % as a whole is one of fractions.

    Example:
        >>> percent_range(0.0212, 0.0341), percent_range(0.0, 0.0341), percent_range(9e-7, 0.028)
        ('2.1–3.4 %', '0.0–3.4 %', '9 × 10⁻⁵ % to 2.8 %')
        >>> percent_range(9e-5, 0.034), percent_range(0.0021, 0.43), percent_range(2e-6, 3e-6)
        ('0.009 % to 3.4 %', '0.21 % to 43 %', '2.0 × 10⁻⁶ to 3.0 × 10⁻⁶')
    """
    if not (math.isfinite(low) and math.isfinite(high)):
        return NOTHING
    spread = (high - low) / 2
    if 0 < high < _SMALLEST_PERCENT and low >= 0:
        return f"{_power_of_ten(low, spread) if low else '0'} to {_power_of_ten(high, spread)}"
    digits = _decimals(100 * high, 100 * spread)
    if low > 0 and (low < _SMALLEST_PERCENT or round(100 * low, digits) == 0):
        # One digit or two, unless the bracket is narrower: of so low an end its size matters, no more.
        small, own = 100 * low, 100 * min(0.4 * low, spread)
        text = _power_of_ten(small, own) if low < _SMALLEST_DECIMAL else fixed(small, _decimals(small, own))
        return f"{text} % to {percent(high, spread)}"
    return f"{_interval_ends(100 * low, 100 * high, digits)} %"


def limit(value: float) -> str:
    """Write an upper limit as percent: one digit behind the point from 1 % on, two digits in all below.

    Example:
        >>> limit(0.02708), limit(0.1243), limit(0.00314), limit(3.1e-6)
        ('2.7 %', '12.4 %', '0.31 %', '3.1 × 10⁻⁶')
    """
    return percent(value, 0.005 if value >= 0.01 else value / 5)


def estimate(item: Estimate) -> str:
    """Write an estimate of an error with its interval, in percent.

    Example:
        >>> estimate(Estimate(0.0139, 0.006, 0.0046, 0.0322, method="m", n=359))
        '1.4 % (0.5–3.2 %)'
        >>> estimate(Estimate(0.0, 0.0, 0.0, 0.0, method="m", log10=-1234.5))
        '3.16 × 10⁻¹²³⁵'
    """
    if item.value == 0.0 and item.log10 is not None and math.isfinite(item.log10):
        return _from_log10(item.log10)
    spread = _half_interval(item)
    if spread == 0.0 or not math.isfinite(item.value):
        return percent(item.value)
    if 0.0 < abs(item.value) < _SMALLEST_PERCENT and spread < _SMALLEST_PERCENT:
        return f"{percent(item.value, spread)} ± {percent(spread, 0.3 * spread)}"
    decimals = _decimals(100 * item.value, 100 * spread)
    return f"{fixed(100 * item.value, decimals)} % ({_interval_ends(100 * item.low, 100 * item.high, decimals)} %)"


def value_of(item: Estimate) -> str:
    """Write an estimate of an error without its interval, with the digits that the interval supports."""
    return percent(item.value, (item.high - item.low) / 2)


def plain(item: Estimate, scale: float = 1.0, unit: str = "") -> str:
    """Write an estimate that is no share, with its interval.

    Args:
        item: the estimate; where its interval is not known the value stands alone.
        scale: 100 for a share in a column whose heading says percent, or a distance in points.
        unit: what stands behind the value.

    Example:
        >>> plain(Estimate(0.3961, 0.012, 0.3731, 0.4191)), plain(Estimate(2.5, 0.0, 2.5, 2.5))
        ('0.396 (0.373–0.419)', '2.50')
        >>> plain(Estimate(0.853, 0.004, 0.846, 0.86), scale=100), plain(Estimate(-0.02, 0.05, -0.12, 0.08))
        ('85.3 (84.6–86.0)', '−0.02 (−0.12 to 0.08)')
        >>> plain(Estimate(0.4127, 0.01, 0.391, 0.434), unit="nats")
        '0.413 nats (0.391–0.434)'
    """
    return _value_and_interval(item, scale, _estimate_decimals(item, scale), unit=unit)


def signed(item: Estimate, scale: float = 100.0, unit: str = "points", *, interval: bool = True) -> str:
    """Write a difference with its sign and, unless ``interval`` is False, its interval, in points by default.

    Example:
        >>> signed(Estimate(0.0194, 0.005, 0.0065, 0.0243))
        '+1.9 points (+0.7 to +2.4)'
        >>> signed(Estimate(-0.0168, 0.01, -0.041, 0.0075), scale=1.0, unit="")
        '−0.017 (−0.041 to +0.007)'
        >>> signed(Estimate(-0.04, 0.02, -0.08, -0.0003))  # an end beside 0 keeps its sign
        '−4.00 points (−8.00 to −0.03)'
    """
    decimals = _estimate_decimals(item, scale)
    nearest = scale * min(abs(item.low), abs(item.high))
    if interval and item.low * item.high > 0 and round(nearest, decimals) == 0:
        decimals = min(4, -math.floor(math.log10(nearest)))
    return _value_and_interval(item, scale, decimals, "+", unit, interval)


def points(value: float, sign: str = "+", digits: int = 1) -> str:
    """Write a difference of fractions in points, with its sign unless ``sign`` is empty.

    Example:
        >>> points(0.0194), points(-0.0194, ""), points(-0.0001), points(math.nan)
        ('+1.9', '−1.9', '+0.0', '–')
    """
    return f"{100 * value:{sign}z.{digits}f}".replace("-", "−") if math.isfinite(value) else NOTHING


def aligned(items: Iterable[Estimate | Interval | None], scale: float = 1.0, sign: str = "") -> list[str]:
    """Write a column of estimates or intervals, with equal digits where every interval still shows.

    The widest interval sets the digits, unless another would vanish in them; then each row has its own.

    Args:
        items: the rows; an interval without a value gives its two ends, None a dash.
        scale: 100 for shares in percent and differences in points, as the heading of the column says.
        sign: "+" for differences.

    Example:
        >>> aligned([Estimate(0.62, 0.02, 0.57, 0.67), Estimate(0.9164, 0.015, 0.8832, 0.9434)], scale=100)
        ['62 (57–67)', '92 (88–94)']
        >>> aligned([Estimate(0.62, 0.02, 0.57, 0.67), Estimate(0.9164, 0.0015, 0.9132, 0.9194)], scale=100)
        ['62 (57–67)', '91.6 (91.3–91.9)']
        >>> aligned([Interval(-0.0041, 0.0072), Interval(0.11, 0.14)], scale=100, sign="+")
        ['−0.4 to +0.7', '+11.0 to +14.0']
    """
    rows = list(items)
    uncertain = [
        item
        for item in rows
        if item is not None and _half_interval(item) > 0.0 and math.isfinite(_interval_centre(item))
    ]
    digits = min((_estimate_decimals(item, scale) for item in uncertain), default=None)
    if digits is not None and any(scale * _half_interval(item) < 10.0**-digits for item in uncertain):
        digits = None
    return [
        NOTHING
        if item is None
        else _value_and_interval(item, scale, _estimate_decimals(item, scale) if digits is None else digits, sign)
        for item in rows
    ]


def unbroken(text: str) -> str:
    """Keep a number and its unit on one line, and the "to" of an interval with its lower end.

    Example:
        >>> unbroken("3.4 % of 2.0 × 10⁻⁹").count(" ")
        2
        >>> unbroken("+1.9 points (+0.7 to +2.4)").count(" ")
        3
    """
    text = _TO.sub("\u00a0to ", text)
    return text.replace(" %", "\u00a0%").replace(" × 10", "\u00a0×\u00a010").replace(" ± ", "\u00a0±\u00a0")


def listed(names: Sequence[str]) -> str:
    """Put names into a sentence.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a"])
        ('a, b and c', 'a')
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def capital(text: str) -> str:
    """A clause as the beginning of a sentence."""
    return text[0].upper() + text[1:]


def lower_case(text: str) -> str:
    """A sentence's first letter in lower case, unless the first word is a name or an abbreviation."""
    word = text.partition(" ")[0]
    return text if len(word) > 1 and word[1:] != word[1:].lower() else text[0].lower() + text[1:]


def level(confidence: float) -> str:
    """Write a level of confidence.

    Example:
        >>> level(0.95), level(0.999)
        ('95 %', '99.9 %')
    """
    return f"{100 * confidence:g} %"


def round_up(count: float) -> str:
    """Write about how many are needed: two digits, rounded up.

    Example:
        >>> round_up(279_888), round_up(7)
        ('280,000', '7')
    """
    step = 10 ** max(0, math.floor(math.log10(max(count, 1))) - 1)
    return f"{math.ceil(count / step) * step:,}"


def cell(value: Any) -> str:
    """Write one cell of a table: whole numbers with thousands, others with four digits, nothing as a dash.

    Example:
        >>> cell(12345), cell(0.123456), cell(-2), cell(None), cell("a"), cell(True)
        ('12,345', '0.1235', '−2', '–', 'a', 'yes')
        >>> cell(-2.1e-6), cell(123456.7), cell(8e22)
        ('−2.1 × 10⁻⁶', '123,457', '8 × 10²²')
        >>> cell(Estimate(0.0139, 0.006, 0.0046, 0.0322))
        '1.4 % (0.5–3.2 %)'
    """
    if isinstance(value, Estimate):
        return estimate(value)
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if isinstance(value, float):
        if _LEAST_WHOLE <= abs(value) < _MOST_WHOLE:
            return fixed(value, 0)
        text, _, power = f"{value:.4g}".partition("e")
        return text.replace("-", "−") + (f" × 10{str(int(power)).translate(_SUPERSCRIPTS)}" if power else "")
    return str(value)


def p_value(p: float) -> str:
    """Write a p-value with two digits.

    Example:
        >>> p_value(0.03251), p_value(1.0), p_value(2.13e-9)
        ('0.033', '1', '2.1 × 10⁻⁹')
    """
    return cell(float(f"{p:.2g}"))


def column(cells: Sequence[Any]) -> list[str]:
    """Write the cells of one column, numbers of about one size with as many digits behind the point.

    Example:
        >>> column([3.0, 10.5, -0.0, None]), column([0.1234, 123.4]), column([1, "a"])
        (['3.0', '10.5', '0.0', '–'], ['0.1234', '123.4'], ['1', 'a'])
    """
    texts = [cell(value) for value in cells]
    known = [index for index, value in enumerate(cells) if isinstance(value, float) and math.isfinite(value)]
    places = max((len(texts[index].partition(".")[2]) for index in known), default=0)
    largest = max((abs(cells[index]) for index in known), default=0.0)
    if any("×" in texts[index] for index in known) or (places > _COLUMN_PLACES and largest >= 10.0):
        return texts
    for index in known:
        texts[index] = fixed(cells[index], places)
    return texts


def _half_interval(item: Estimate | Interval) -> float:
    """Half the width of the interval; 0 where there is none, or none beyond the rounding of the computer."""
    half = (item.high - item.low) / 2
    size = max(abs(item.low), abs(item.high))
    return half if half > _ROUNDING * size or half == math.inf else 0.0


def _interval_centre(item: Estimate | Interval) -> float:
    return item.value if isinstance(item, Estimate) else (item.low + item.high) / 2


def _estimate_decimals(item: Estimate | Interval, scale: float) -> int:
    return _decimals(scale * _interval_centre(item), scale * _half_interval(item))


def _value_and_interval(
    item: Estimate | Interval, scale: float, decimals: int, sign: str = "", unit: str = "", interval: bool = True
) -> str:
    ends = _interval_ends(scale * item.low, scale * item.high, decimals, sign)
    if isinstance(item, Interval):
        return NOTHING if math.isnan(_interval_centre(item)) else ends
    if not math.isfinite(item.value):
        return NOTHING
    known = _half_interval(item) > 0.0
    sign = sign if known or item.value else ""  # an exact 0 has none
    value = f"{fixed(scale * item.value, decimals, sign)} {unit}".rstrip()
    return f"{value} ({ends})" if known and interval else value


def _decimals(value: float, spread: float) -> int:
    """How many digits behind the point: set by the spread, or by the size of an exact value."""
    size, digits = (spread, 1) if 0.0 < spread < math.inf else (abs(value), _EXACT_DIGITS)
    if size == 0.0 or not math.isfinite(size):
        return 0
    exponent = math.floor(math.log10(size))
    if size == spread and size / 10.0**exponent < 2.95:
        digits = 2
    return max(0, digits - 1 - exponent)


def fixed(value: float, decimals: int, sign: str = "") -> str:
    """Write a number with this many digits behind the point; "+" for its sign.

    Example:
        >>> fixed(1234.56, 1), fixed(-0.001, 2), fixed(0.02, 1, "+")
        ('1,234.6', '0.00', '+0.0')
    """
    return f"{value:{sign}z,.{decimals}f}".replace("-", "−").replace("inf", "∞")


def number(value: float, digits: int = 3) -> str:
    """Write a number that has no interval with this many digits in all.

    Example:
        >>> number(0.123456), number(1234.0, 4), number(2.0)
        ('0.123', '1,234', '2')
    """
    return f"{value:,.{digits}g}".replace("-", "−")


def in_points(value: float) -> str:
    """Write a difference of fractions, or a limit of one, in percentage points with one digit behind the point.

    Example:
        >>> in_points(0.01634), in_points(0.2)
        ('1.6 points', '20.0 points')
    """
    return f"{fixed(100 * value, 1)} points"


def rounded_points(value: float) -> str:
    """Write a difference of fractions, or a limit of one, in percentage points with two digits.

    Example:
        >>> rounded_points(0.01634), rounded_points(3.1e-6), rounded_points(0.01)
        ('1.6 points', '0.00031 points', '1 point')
    """
    text = number(100 * value, 2)
    return f"{text} point{'' if text == '1' else 's'}"


def _interval_ends(low: float, high: float, decimals: int, sign: str = "") -> str:
    """Both ends; a dash between them could be read as a minus where one of them has a sign."""
    texts = [fixed(end, decimals, sign) for end in (low, high)]
    return (" to " if sign or "−" in "".join(texts) else "–").join(texts)


def _power_of_ten(value: float, spread: float) -> str:
    exponent = math.floor(math.log10(abs(value)))
    if exponent <= -300:  # the power that scales it is no number any more
        return _from_log10(math.log10(abs(value)))

    def mantissa(power: int) -> str:
        scale = 10.0**-power
        return fixed(value * scale, min(_decimals(value * scale, spread * scale), _EXACT_DIGITS))

    text = mantissa(exponent)
    if text.lstrip("−").startswith("10"):  # rounded up to the next power
        exponent += 1
        text = mantissa(exponent)
    return f"{text} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def _from_log10(log10: float) -> str:
    exponent = math.floor(log10)
    mantissa = f"{10 ** (log10 - exponent):.2f}"
    if mantissa == "10.00":
        exponent, mantissa = exponent + 1, "1.00"
    return f"{mantissa} × 10{str(exponent).translate(_SUPERSCRIPTS)}"


def short_names(names: Sequence[str], longest: int = 24) -> list[str]:
    """Long names shortened in the middle, but not where they differ: different names stay different.

    Example:
        >>> short_names(["lab/model-of-many-words-with-tools-a", "lab/model-of-many-words-with-tools-b"], 16)
        ['lab/mod…-tools-a', 'lab/mod…-tools-b']
        >>> short_names(["x" * 9 + "1" + "y" * 30, "x" * 9 + "2" + "y" * 30, "short"], 12)
        ['xxxxx…1yyyy…', 'xxxxx…2yyyy…', 'short']
    """
    half = (longest - 1) // 2
    tail = longest - 1 - half
    labels = {name: name if len(name) <= longest else f"{name[:half]}…{name[-tail:]}" for name in names}
    for label, count in collections.Counter(labels.values()).items():
        alike = [name for name, own in labels.items() if own == label] if count > 1 else []
        start = next((at for at, letters in enumerate(zip(*alike, strict=False)) if len(set(letters)) > 1), 0)
        parts = [name[start : start + tail] for name in alike]
        cut = [
            f"{piece[:-1]}…" if len(name) > start + tail else piece
            for name, piece in zip(alike, parts, strict=True)
        ]
        different = len(set(cut)) == len(alike)
        labels |= {
            name: f"{name[:half]}…{piece}" if different else name for name, piece in zip(alike, cut, strict=True)
        }
    return [labels[name] for name in names]
