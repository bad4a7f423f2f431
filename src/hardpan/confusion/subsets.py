"""Hard subsets by threshold, quantile or count, saved as JSON files that are checked wherever they are used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardpan import arguments, files
from hardpan.arguments import real_number, whole_number
from hardpan.errors import InputError
from hardpan.files import array_hash, record

if TYPE_CHECKING:
    from hardpan.confusion.scoring import Scores

VERSION = 1


@record(eq=False, kw_only=True, dropped=("easiest",))
class Subset:
    """The ids of some examples, and how they were selected: the file that commands take as ``--subset``, or
    after the data, as ``DATA@FILE.json``.

    Attributes:
        ids: (n,) ids, most confusing first.
        ids_sha256: hash of the ids; an edited file is refused.
        scores_sha256: hash of the scores that it was selected from.
        rule: "threshold", "quantile" or "count"; "by hand" if a person selected them.
        value: of the rule.
        threshold: the lowest score inside.
        balanced: whether every class contributes its proportion.
        examples: number of examples that it was selected from.
        per_class: number of examples by class, if labels are known.
        seeds: of the scores.
        epochs: of the scores.
        base: of the scores.
        source: what was scored.
        version: of the file format.
    """

    ids: NDArray[np.str_]
    ids_sha256: str
    scores_sha256: str = ""
    rule: str
    value: float
    threshold: float = 0.0
    balanced: bool = False
    examples: int
    per_class: Mapping[str, int] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()
    base: float = 2.0
    source: str = ""
    version: int = VERSION

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        rule = f"{self.rule} {self.value:g}{', balanced' if self.balanced else ''}"
        return (
            f"Subset({len(self):,} hardest of {self.examples:,} examples, {rule}, scores {self.scores_sha256[:12]})"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the subset as JSON (many ids in an npz beside it)."""
        try:
            return files.save(self, path)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror or error}); give another path") from error

    def check_whole(self, path: str | os.PathLike[str]) -> None:
        """Refuse a subset of another version, or one whose ids were changed; ``path`` is named."""
        if self.version != VERSION:
            raise InputError(f"{path}: is version {self.version} of a subset; this hardpan reads {VERSION}")
        # A list in a file that was edited comes back as a tuple: names it holds are compared as text.
        if not isinstance(self.ids, np.ndarray) or array_hash(np.asarray(self.ids, np.str_)) != self.ids_sha256:
            raise InputError(f"{path}: the ids were changed since it was written; select the subset again")

    def check(self, scores: Scores) -> None:
        """Refuse scores that are not those that the subset was cut from."""
        if scores.sha256 != self.scores_sha256:
            raise InputError(
                f": was selected from scores {self.scores_sha256[:12]}, but these are {scores.sha256[:12]}; "
                "make it again, or give its own scores",
                argument="subset",
            )

    def rows(self, ids: ArrayLike) -> NDArray[np.int64]:
        """Row numbers of the subset's examples among ``ids``, in the order of the subset.

        Args:
            ids: (N,) ids of a dataset or store; every id of the subset must be among them.
        """
        names = np.asarray(ids, dtype=np.str_)
        if names.ndim != 1:
            raise InputError(f"must be names of examples, shape (N,); got {ids!r}", argument="ids")
        row_of = {name: row for row, name in enumerate(names.tolist())}
        missing = [name for name in self.ids.tolist() if name not in row_of]
        if missing:
            raise InputError(
                f": {len(missing):,} of its {len(self):,} ids are not among the {len(names):,} ids "
                f"(first {missing[0]}); give the data or predictions that it was selected from",
                argument="subset",
            )
        return np.array([row_of[name] for name in self.ids.tolist()], dtype=np.int64)


def subset(
    scores: Scores,
    *,
    threshold: float | None = None,
    fraction: float | None = None,
    count: int | None = None,
    balanced: bool = False,
    labels: ArrayLike | None = None,
) -> Subset:
    """Select the most confusing examples; give exactly one of threshold, fraction and count.

    Args:
        scores: of all examples.
        threshold: select scores of at least this many bits.
        fraction: select this fraction of the examples: 0.1 for the hardest tenth.
        count: select this many examples; equal scores in the order of the ids.
        balanced: select from each class separately: the same fraction of each, or an equal count (which must be a
            multiple of the number of classes); not with a threshold.
        labels: (N,) class numbers for ``balanced``; those of the scores where None.

    Example:
        >>> import numpy as np
        >>> from hardpan import confusion
        >>> probs = np.array([[0.5, 0.5], [0.9, 0.1], [1.0, 0.0], [0.6, 0.4]])
        >>> hard = subset(confusion.scores(probs, ids=["a", "b", "c", "d"]), count=2)
        >>> hard.ids.tolist(), hard.rows(["d", "c", "b", "a"]).tolist()
        (['a', 'd'], [3, 0])
    """
    if not (hasattr(scores, "ids") and hasattr(scores, "labels")):
        raise InputError(
            f"must be the result of confusion.scores, which has the ids; got {type(scores).__name__}",
            argument="scores",
        )
    rules = {"threshold": threshold, "fraction": fraction, "count": count}
    stated = {name: value for name, value in rules.items() if value is not None}
    if len(stated) != 1:
        listed = ", ".join(stated) or "none"
        raise InputError(f": give exactly one of them; got {listed}", argument=("threshold", "fraction", "count"))
    rule, value = next(iter(stated.items()))
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(f"must be a number; got {value!r}", argument=rule)
    if rule == "fraction":
        rule, value = "quantile", 1.0 - real_number("fraction", value, "(0, 1]")
    classes = scores.labels if labels is None else arguments.labels("labels", labels, len(scores), scores.n_classes)
    if balanced and classes is None:
        raise InputError("balanced needs labels: give labels=..., or scores of predictions that have them")
    # Most confusing first; ties go by id, so that the order of the rows does not matter.
    order = np.lexsort((scores.ids, -scores.values))
    pools = [order]
    if balanced and classes is not None:
        if rule == "threshold":
            raise InputError("a threshold cannot be balanced; use fraction or count")
        pools = [order[classes[order] == label] for label in np.unique(classes)]
    sizes = [_subset_size(scores.values[pool], rule, value, len(pools)) for pool in pools]
    rows = np.concatenate([pool[:size] for pool, size in zip(pools, sizes, strict=True)])
    if not len(rows):
        low, high = scores.values.min(), scores.values.max()
        raise InputError(f"no score is at least {value:g}; scores lie in {low:.4g} to {high:.4g}")
    rows = rows[np.lexsort((scores.ids[rows], -scores.values[rows]))]
    ids, per_class = (
        np.array(scores.ids[rows].tolist()),
        {},
    )  # as JSON gives them back, so that the hash is the same
    if classes is not None:
        names = scores.class_names or tuple(map(str, range(scores.n_classes)))
        numbers = np.bincount(classes[rows], minlength=scores.n_classes).tolist()
        per_class = dict(zip(names, numbers, strict=True))
    return Subset(
        ids=ids,
        ids_sha256=array_hash(np.asarray(ids, dtype=np.str_)),
        scores_sha256=scores.sha256,
        rule=rule,
        value=float(value),
        threshold=float(scores.values[rows[-1]]),
        balanced=balanced,
        examples=len(scores),
        per_class=per_class,
        seeds=scores.seeds,
        epochs=scores.epochs,
        base=scores.base,
        source=scores.source,
    )


def subset_of_ids(ids: ArrayLike, *, examples: int, source: str = "") -> Subset:
    """A subset of examples that a person selected.

    Args:
        ids: (n,) ids, each once.
        examples: number of examples that they were selected from.
        source: where and how they were selected.

    Example:
        >>> len(subset_of_ids(["a", "b"], examples=10))
        2
    """
    names = np.array(np.asarray(ids, dtype=np.str_).tolist(), dtype=np.str_)
    if not len(names) or len(np.unique(names)) < len(names):
        raise InputError(f"must name each example once, and at least one; got {len(names):,}", argument="ids")
    return Subset(
        ids=names,
        ids_sha256=array_hash(names),
        rule="by hand",
        value=float(len(names)),
        examples=int(examples),
        source=source,
    )


def load_subset(path: str | os.PathLike[str]) -> Subset:
    """Read a subset and check that it is whole."""
    result: Any = files.load(arguments.as_path("path", path))
    if not isinstance(result, Subset):
        raise InputError(f"{path}: is a {type(result).__name__}, not a Subset; give what `confusion subset` wrote")
    result.check_whole(path)
    return result


def _subset_size(values: NDArray[np.float64], rule: str, value: float, pools: int) -> int:
    """How many scores of a pool, sorted most confusing first, are selected."""
    n = len(values)
    if rule == "threshold":
        real_number("threshold", value, "(-inf, inf)")
        return int(np.count_nonzero(values >= value))
    if rule == "quantile":
        return max(1, round((1.0 - value) * n))
    whole_number("count", value, 1)
    if value % pools:
        raise InputError(
            f"must divide by the {pools} classes for a balanced subset; got {value:g}", argument="count"
        )
    if value // pools > n:
        raise InputError(f"must be at most {n * pools:,} here; got {value:g}", argument="count")
    return int(value) // pools


def is_subset_file(path: Path) -> bool:
    """Whether a path names the JSON file of a subset and not a folder for a report."""
    return path.suffix.lower() == ".json" and not path.is_dir()
