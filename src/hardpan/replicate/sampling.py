"""Tables of annotated images, the three sampling strategies, and drawing again after removals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments, stats, tables
from hardpan.arguments import one_of, real_number, whole_number
from hardpan.errors import InputError, few
from hardpan.estimates import Estimate
from hardpan.files import record
from hardpan.report import Report

EDGES = (0.2, 0.4, 0.6, 0.8)
UNKNOWN_VOTES = np.iinfo(np.int64).max
BINS = ("0–0.2", "0.2–0.4", "0.4–0.6", "0.6–0.8", "0.8–1")
ROUNDING = 1e-9  # a frequency of 3/5 computed in another way still belongs to the bin that begins at 0.6


def largest_remainder_counts(weights: ArrayLike, total: int) -> NDArray[np.int64]:
    """Whole numbers that sum to ``total`` and follow ``weights``: floors first, then the largest remainders.

    Ties go to the later entry, which for bins of frequencies is the higher one.

    Example:
        >>> largest_remainder_counts([1, 1, 2], 6).tolist(), largest_remainder_counts([1, 1], 3).tolist()
        ([1, 2, 3], [1, 2])
    """
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or values.sum() <= 0:
        raise InputError("must be one row of numbers of at least 0, not all 0", argument="weights")
    exact = values / values.sum() * total
    counts = np.floor(exact + ROUNDING).astype(np.int64)
    remainder = np.round(exact - counts, 9)
    order = sorted(range(len(values)), key=lambda k: (remainder[k], k), reverse=True)
    counts[order[: total - int(counts.sum())]] += 1
    return np.asarray(counts, dtype=np.int64)


def frequency_bins(frequencies: ArrayLike) -> NDArray[np.int64]:
    """The bin of each frequency: inner edges 0.2, 0.4, 0.6, 0.8, closed below, open above.

    Example:
        >>> frequency_bins([0.0, 0.19, 0.2, 0.6, 1.0]).tolist()
        [0, 0, 1, 3, 4]
    """
    return np.asarray(np.digitize(np.asarray(frequencies, dtype=np.float64) + ROUNDING, EDGES), dtype=np.int64)


def average_frequency(frequencies: ArrayLike) -> Estimate:
    """The mean selection frequency of images, with a normal interval over them."""
    values = np.asarray(frequencies, dtype=np.float64)
    method = "mean over images, normal interval"
    if not len(values):
        return stats.normal(np.nan, np.nan, 0, method=method)
    return stats.mean(values, least=0.0, most=1.0, method=method)


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedImages:
    """Images with their selection frequencies, one entry per image and target class.

    Attributes:
        ids: (N,) text.
        classes: (N,) text.
        frequencies: (N,) fractions.
        votes: (N,) how many workers saw each.
        subclasses: (N,) text, "" where there is none.
    """

    ids: NDArray[np.str_]
    classes: NDArray[np.str_]
    frequencies: NDArray[np.float64]
    votes: NDArray[np.int64]
    subclasses: NDArray[np.str_] = field(default_factory=lambda: np.zeros(0, dtype=np.str_))

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: NDArray[Any]) -> AnnotatedImages:
        """The entries of a mask or of row numbers."""
        columns = (self.ids, self.classes, self.frequencies, self.votes, self.subclasses)
        return AnnotatedImages(*(column[rows] for column in columns))

    @classmethod
    def read(cls, table: Any, what: str = "candidates", *, need_ids: bool = True) -> AnnotatedImages:
        """Read a table: rows, columns, a data frame, a CSV or Parquet file, or annotated images.

        Columns are id, class, frequency (or selection_frequency), votes, and optionally sub-class (or keyword).
        Where there are no votes, ``min_votes`` is not checked.

        Example:
            >>> table = {"id": ["a", "b"], "class": ["cat", "cat"], "frequency": [0.9, 0.4], "votes": [10, 10]}
            >>> AnnotatedImages.read(table).votes
            array([10, 10])
        """
        if isinstance(table, AnnotatedImages):
            return table
        columns = tables.read_table(
            table, text=lambda name: not sampling_columns([name], ("frequency", "votes"), what), name=what
        )
        names = sampling_columns(columns.column_names, ("id", "label", "frequency", "votes", "subclass"), what)
        for role in ("id", "label", "frequency") if need_ids else ("label", "frequency"):
            if role not in names:
                raise InputError(
                    f": a column of {role} is missing; it has {few(columns.column_names)}", argument=what
                )
        cells = {role: tables.cells_of(columns[name], name) for role, name in names.items()}
        n = columns.num_rows
        frequencies = arguments.real_numbers(f"{what}: frequency", cells["frequency"])
        if not ((frequencies >= 0) & (frequencies <= 1)).all():
            raise InputError(": frequencies must lie between 0 and 1", argument=what)
        subclasses = ["" if value is None else str(value) for value in cells.get("subclass", [""] * n)]
        ids = np.array([str(value) for value in cells.get("id", range(n))], dtype=np.str_)
        return cls(
            arguments.ids(f"{what}: id", ids, n) if need_ids else ids,
            np.array([str(value) for value in cells["label"]], dtype=np.str_),
            frequencies,
            arguments.whole_numbers(f"{what}: votes", cells["votes"])
            if "votes" in cells
            else np.full(n, UNKNOWN_VOTES),
            np.array(subclasses, dtype=np.str_),
        )

    def sampled(self, row: int, slot: int, fill: str = "") -> SampledImage:
        """The image of a row as one of a sample."""
        votes = int(self.votes[row])
        return SampledImage(
            str(self.ids[row]),
            str(self.classes[row]),
            str(self.subclasses[row]),
            float(self.frequencies[row]),
            -1 if votes == UNKNOWN_VOTES else votes,
            slot,
            fill,
        )


def sampling_columns(columns: Collection[str], roles: Collection[str], where: str) -> dict[str, str]:
    """The columns of a table of images by role; ids may also be called ``image_id``."""
    renamed = {"id": "image_id"} if "image_id" in columns and "id" not in columns else {}
    return tables.find_columns(list(columns), roles, renamed, where=where)


STRATEGIES = ("matched", "threshold", "top")
MIN_VOTES = 10
MIN_ORIGINALS = 20


@record
class SampledImage:
    """One image of a sample.

    Attributes:
        id: the candidate.
        class_name: its class.
        subclass: its sub-class, or "".
        frequency: its selection frequency.
        votes: how many workers saw it, −1 where unknown.
        slot: the bin that it fills (0 to 4), −1 where the strategy has no bins.
        fill: "", or why it is from another bin or sub-class.
    """

    id: str
    class_name: str
    subclass: str
    frequency: float
    votes: int
    slot: int
    fill: str = ""


@record(kind="Shortfall")
class SampleShortfall:
    """Images that are missing because no candidate fits."""

    class_name: str
    subclass: str
    slot: int
    missing: int


@record
class Sample(Report):
    """What :func:`sample` returns.

    Attributes:
        images: the drawn images, by class, then in the order of drawing.
        strategy: "matched", "threshold" or "top".
        per_class: requested images of each class.
        threshold: smallest frequency of the strategy "threshold".
        average_frequency: mean selection frequency of the images, normal interval over images.
        quotas: requested images by class and bin (strategy "matched").
        shortfalls: images that are missing.
        seed: of the draws.
        min_votes: images with fewer votes did not count.
        too_few_votes: number of such candidates.
        originals_too_few_votes: number of such originals (strategy "matched").
        few_originals: annotated originals of classes that have fewer than 20 (strategy "matched").
        without_flagged: whether votes of workers who fail the controls were left out.
    """

    images: tuple[SampledImage, ...]
    strategy: str
    per_class: int
    threshold: float
    average_frequency: Estimate
    quotas: Mapping[str, tuple[int, ...]]
    shortfalls: tuple[SampleShortfall, ...]
    seed: int
    min_votes: int = MIN_VOTES
    too_few_votes: int = 0
    originals_too_few_votes: int = 0
    few_originals: Mapping[str, int] = field(default_factory=dict)
    without_flagged: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the images, in their order."""
        return tuple(image.id for image in self.images)

    @property
    def fills(self) -> tuple[SampledImage, ...]:
        """Images from another bin or sub-class."""
        return tuple(image for image in self.images if image.fill)


def sample(
    candidates: Any,
    strategy: str = "matched",
    per_class: int = 10,
    originals: Any = None,
    threshold: float = 0.7,
    seed: int = 0,
    *,
    min_votes: int = MIN_VOTES,
    quotas: Mapping[tuple[str, str], int] | None = None,
    exclude: Collection[str] = (),
) -> Sample:
    """Draw a new test set from annotated candidates.

    - matched: per class, the annotated originals' selection frequencies are counted in bins with inner edges 0.2,
      0.4, 0.6, 0.8 (closed below, open above); counts of ``per_class`` follow by largest remainder, ties to the
      higher bin; every bin draws its quota at random; then, from the highest bin down, a short bin takes from the
      next higher bin with room, never from a lower one.
    - threshold: at random from frequencies ≥ ``threshold``.
    - top: the highest frequencies, ties at random.

    Class c (in the order of names) draws by ``default_rng([seed, c])``.

    Args:
        candidates: table of id, class, frequency, votes and, optionally, sub-class, see :class:`AnnotatedImages`.
        strategy: one of the three.
        per_class: how many images of each class.
        originals: the same table of annotated originals; needed by "matched".
        threshold: for the strategy "threshold".
        seed: of the draws.
        min_votes: candidates and originals with fewer votes do not count.
        quotas: (class, sub-class) to a number of images, in place of ``per_class``.
        exclude: ids that must not be drawn.

    Returns:
        The sample; fills and shortfalls are listed in it.

    Source: Recht et al., section 4.

    Example:
        >>> table = {"id": list("abcd"), "class": ["cat"] * 4, "frequency": [0.9, 0.8, 0.7, 0.3], "votes": [10] * 4}
        >>> sample(table, "top", per_class=2).ids
        ('a', 'b')
        >>> sample(table, "threshold", per_class=4).shortfalls[0].missing
        1
    """
    table = AnnotatedImages.read(candidates)
    one_of("strategy", strategy, STRATEGIES)
    whole_number("per_class", per_class, 1)
    real_number("threshold", threshold, "[0, 1]")
    whole_number("min_votes", min_votes, 0)
    free = (table.votes >= min_votes) & ~np.isin(table.ids, np.array(list(exclude), dtype=np.str_))
    shares: dict[str, tuple[int, ...]] = {}
    few_originals: dict[str, int] = {}
    originals_below = 0
    names = sorted(set(table.classes.tolist()) | {name for name, _ in quotas or ()})
    if strategy == "matched":
        if originals is None:
            raise InputError(
                "are needed for the strategy 'matched'; annotate the original set too", argument="originals"
            )
        reference = AnnotatedImages.read(originals, "originals", need_ids=False)
        originals_below = int((reference.votes < min_votes).sum())
        shares = _frequency_bin_counts(reference, min_votes, names)
        few_originals = {name: sum(share) for name, share in shares.items() if sum(share) < MIN_ORIGINALS}
    images: list[SampledImage] = []
    missing: list[SampleShortfall] = []
    bin_quotas: dict[str, tuple[int, ...]] = {}
    quotas_by_class = sorted(({(name, ""): per_class for name in names} if quotas is None else quotas).items())
    for number, name in enumerate(names):
        rng = np.random.default_rng([seed, number])
        for (owner, subclass), size in quotas_by_class:
            if owner != name or size <= 0:
                continue
            rows = free & (table.classes == name)
            if quotas is not None:
                rows &= table.subclasses == subclass
            need = {-1: size}
            if strategy == "matched":
                need = dict(enumerate(largest_remainder_counts(shares[name], size).tolist()))
                so_far = bin_quotas.get(name, (0,) * len(BINS))
                bin_quotas[name] = tuple(so_far[b] + need[b] for b in range(len(BINS)))
            new_images, short = _draw_sampled_images(table, np.flatnonzero(rows), strategy, need, threshold, rng)
            images += new_images
            missing += [SampleShortfall(name, subclass, slot, count) for slot, count in short]
    return Sample(
        tuple(images),
        strategy,
        per_class,
        threshold,
        average_frequency([image.frequency for image in images]),
        bin_quotas,
        tuple(missing),
        seed,
        min_votes,
        int((table.votes < min_votes).sum()),
        originals_below,
        few_originals,
    )


def sample_again(
    current: Sample,
    candidates: Any,
    removed: Collection[str],
    *,
    round_number: int,
    ever_removed: Collection[str] = (),
) -> Sample:
    """Replace removed images by others of the same class, sub-class and bin, drawn by the same strategy.

    Where a sub-class has none left, another sub-class of the class gives one, and the image says so. Class c of
    round r draws by ``default_rng([seed, c, r])``.

    Args:
        current: the sample so far.
        candidates: the table that it was drawn from.
        removed: ids to take out.
        round_number: 1, 2, ...: how many times it was drawn again.
        ever_removed: ids removed in earlier rounds, which must not come back.
    """
    table = AnnotatedImages.read(candidates)
    gone = set(removed)
    used = {image.id for image in current.images} | gone | set(ever_removed)
    free = (table.votes >= current.min_votes) & ~np.isin(table.ids, np.array(sorted(used), dtype=np.str_))
    names = sorted(set(table.classes.tolist()))
    images, missing = [image for image in current.images if image.id not in gone], []
    for number, name in enumerate(names):
        rng = np.random.default_rng([current.seed, number, round_number])
        lost = Counter((i.subclass, i.slot) for i in current.images if i.id in gone and i.class_name == name)
        for (subclass, slot), count in sorted(lost.items()):
            for mask, other in ((table.subclasses == subclass, ""), (table.subclasses != subclass, subclass)):
                rows = np.flatnonzero(free & (table.classes == name) & mask)
                new_images, _ = _draw_sampled_images(
                    table, rows, current.strategy, {slot: count}, current.threshold, rng
                )
                instead = f"in place of sub-class {other}" if other else ""
                images += [replace(item, fill="; ".join(filter(None, (item.fill, instead)))) for item in new_images]
                free &= ~np.isin(table.ids, np.array([item.id for item in new_images], dtype=np.str_))
                count -= len(new_images)
            if count:
                missing.append(SampleShortfall(name, subclass, slot, count))
    images.sort(key=lambda image: image.class_name)  # stable: the order of drawing stays
    return replace(
        current,
        images=tuple(images),
        average_frequency=average_frequency([image.frequency for image in images]),
        shortfalls=current.shortfalls + tuple(missing),
    )


def _draw_sampled_images(
    table: AnnotatedImages,
    rows: NDArray[np.int64],
    strategy: str,
    need: Mapping[int, int],
    threshold: float,
    rng: np.random.Generator,
) -> tuple[list[SampledImage], list[tuple[int, int]]]:
    """Draw what each slot needs from the rows of one group; give the images and what stayed empty."""
    order = rng.permutation(rows)
    if strategy == "matched":
        return _draw_frequency_bins(table, order, need)
    if strategy == "threshold":
        order = order[table.frequencies[order] >= threshold - ROUNDING]
    else:
        order = order[np.argsort(-table.frequencies[order], kind="stable")]
    size = need[-1]
    images = [table.sampled(int(row), -1) for row in order[:size]]
    return images, [(-1, size - len(images))] if len(images) < size else []


def _draw_frequency_bins(
    table: AnnotatedImages, order: NDArray[np.int64], need: Mapping[int, int]
) -> tuple[list[SampledImage], list[tuple[int, int]]]:
    bins = frequency_bins(table.frequencies[order])
    stock = {b: [int(row) for row in order[bins == b]] for b in range(len(BINS))}
    images, short = [], []
    for slot in sorted(need):  # every bin draws its own quota first
        taken, stock[slot] = stock[slot][: need[slot]], stock[slot][need[slot] :]
        images += [table.sampled(row, slot) for row in taken]
    for slot in sorted(need, reverse=True):
        left = need[slot] - sum(image.slot == slot for image in images)
        for higher in range(slot + 1, len(BINS)):
            taken, stock[higher] = stock[higher][:left], stock[higher][left:]
            reason = f"from {BINS[higher]} for {BINS[slot]}"
            images += [table.sampled(row, slot, reason) for row in taken]
            left -= len(taken)
        if left:
            short.append((slot, left))
    return images, short


def _frequency_bin_counts(
    originals: AnnotatedImages, min_votes: int, names: list[str]
) -> dict[str, tuple[int, ...]]:
    enough = originals.select(originals.votes >= min_votes)
    shares = {}
    for name in names:
        frequencies = enough.frequencies[enough.classes == name]
        if not len(frequencies):
            raise InputError(
                f": class {name!r} has none with {min_votes} votes; annotate more, or lower min_votes",
                argument="originals",
            )
        shares[name] = tuple(np.bincount(frequency_bins(frequencies), minlength=len(BINS)).tolist())
    return shares
