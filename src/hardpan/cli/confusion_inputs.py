"""What the confusion commands read: predictions or scores, the dataset they are of, and a subset of them."""

from __future__ import annotations

import dataclasses
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardpan import confusion
from hardpan.confusion.galleries import dataset_rows
from hardpan.confusion.reports import ConfusionConfig
from hardpan.confusion.sources import Source, read
from hardpan.data.dataset import Dataset
from hardpan.data.opening import parse_source, short_name
from hardpan.errors import InputError
from hardpan.execution import Progress
from hardpan.predictions.store import is_store


def epochs_of(text: str) -> str | int | tuple[int, ...]:
    """Read ``all``, a number k for every k-th, or a list with commas.

    Example:
        >>> epochs_of("all"), epochs_of("5"), epochs_of("0,5,9"), epochs_of("3,")
        ('all', 5, (0, 5, 9), (3,))
    """
    if text == "all":
        return text
    try:
        return tuple(int(piece) for piece in text.split(",") if piece) if "," in text else int(text)
    except ValueError:
        raise InputError(f"--epochs must be all, a number k, or numbers with commas; got {text!r}") from None


def whole(option: str, text: str | None) -> tuple[int, ...]:
    """Read whole numbers with commas between them; nothing gives none."""
    if text is None:
        return ()
    try:
        return tuple(int(piece) for piece in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be whole numbers with commas, such as 0,1,2; got {text!r}") from None


def model_names(paths: Sequence[str], given: str | None) -> tuple[str, ...]:
    """Names of the models: as given, or from their paths, told apart where those are alike."""
    if given is not None:
        names = tuple(piece.strip() for piece in given.split(","))
        if len(names) != len(paths) or len(set(names)) != len(names) or not all(names):
            raise InputError(f"--names must be {len(paths)} different names with commas; got {given!r}")
        return names
    stems = [short_name(path) for path in paths]
    return tuple(
        stem if stems.count(stem) == 1 else f"{stem} {stems[: i + 1].count(stem)}" for i, stem in enumerate(stems)
    )


def load_data(name: str | None) -> Dataset | None:
    """The dataset, where one is named."""
    return None if name is None else Dataset.open(name)


def load_source(path: str, config: ConfusionConfig, data: Dataset | None = None, by_order: bool = False) -> Source:
    """Predictions with the chosen seeds and epochs; what they lack (labels, split) comes from the dataset."""
    _exists(path)
    source = read(path, epochs=config.epochs, seeds=config.seeds or None)
    if getattr(source.predictions, "outputs", "") == "logits":
        print(f"hardpan: {path} holds logits, as it seems; their softmax is taken", file=sys.stderr)
    if data is None:
        return source
    if by_order:
        if len(source) != len(data):
            raise InputError(
                f"--by-order: {path} has {len(source):,} rows and {data.name} {len(data):,} examples; they differ"
            )
        source = dataclasses.replace(source, ids=data.ids)
    rows = dataset_rows(source.ids, data)
    labels, split = source.labels, source.split
    if labels is None and data.labels is not None:
        labels = data.labels[rows]
    elif labels is not None and data.labels is not None:
        _alike(path, data.name, int(np.count_nonzero(labels != data.labels[rows])), len(rows), by_order)
    if split is None and data.split is not None:
        split = data.split[rows]
    names = source.class_names or (data.class_names if len(data.class_names) == source.n_classes else ())
    return dataclasses.replace(source, labels=labels, split=split, class_names=names)


def _alike(path: str, name: str, differing: int, examples: int, by_order: bool) -> None:
    """Labels that both know must be the same where rows are joined by their place; by id, they may be newer."""
    if not differing:
        return
    said = f"{name} has another label than {path} for {differing:,} of {examples:,} examples"
    if by_order:
        raise InputError(f"--by-order: {said}; give the dataset that the predictions are of, in their order")
    print(f"hardpan: {said}; those of the predictions are used", file=sys.stderr)


def load_scores(
    path: str,
    config: ConfusionConfig,
    progress: Progress,
    *,
    data: Dataset | None = None,
    by_order: bool = False,
    stderr: bool = True,
) -> tuple[confusion.Scores, Source | None]:
    """Scores that were saved, or those of predictions (then with the source)."""
    _exists(path)
    saved = confusion.load_scores(path)
    if saved is not None:
        return saved, None
    source = load_source(path, config, data, by_order)
    return scored(source, config, progress, stderr), source


def scored(source: Source, config: ConfusionConfig, progress: Progress, stderr: bool = True) -> confusion.Scores:
    """Confusion scores of predictions, with progress."""
    return confusion.scores(
        source,
        base=config.base,
        stderr=stderr,
        progress=lambda step, share: progress(f"scoring, {step}", share),
    )


def signalled(source: Source, progress: Progress) -> confusion.Signals:
    """Everything else that predictions say, with progress."""
    return confusion.signals(source, progress=lambda step, share: progress(f"comparing, {step}", share))


def load_correct(path: Path | None, scores: confusion.Scores, of: str) -> NDArray[np.bool_]:
    """Right or wrong at the end of training, as ``hardpan train --scalars-only`` keeps it, in the scores' order."""
    if path is None:
        raise InputError(
            "scores alone do not say who is right; give --correct FILE (correct.npz beside the models that "
            "hardpan train --scalars-only wrote), or predictions"
        )
    if of not in ("ensemble", "seeds"):
        raise InputError(f"--of must be seeds or ensemble; got {of!r}")
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as kept:
            ids, right = kept["ids"], np.asarray(kept[of])
    except FileNotFoundError:
        raise InputError(f"--correct {path}: is not there; give correct.npz, which train wrote") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        raise InputError(
            f"--correct {path}: is no npz with ids and {of}; give correct.npz, which train --scalars-only wrote"
        ) from None
    if right.dtype != np.bool_ or right.shape[-1:] != ids.shape or set(ids.tolist()) != set(scores.ids.tolist()):
        raise InputError(f"--correct {path}: is not of the examples that the scores are of; give their own file")
    place = {name: row for row, name in enumerate(ids.tolist())}
    found: NDArray[np.bool_] = right[..., [place[name] for name in scores.ids.tolist()]]
    return found


def wanted_rows(source: Source, path: str, part: str, manifest: Path | None) -> NDArray[np.int64]:
    """Row numbers of one part of the split, and of a manifest's examples alone where one is given."""
    rows = np.arange(len(source))
    if part != "all":
        if source.split is None or part not in source.split:
            raise InputError(f"--part {part}: {path} has no such part of a split")
        rows = np.flatnonzero(source.split == part)
    if manifest is None:
        return rows
    kept: NDArray[np.int64] = np.intersect1d(rows, confusion.load_subset(manifest).rows(source.ids))
    if not len(kept):
        raise InputError(f"--subset {manifest}: names no example of part {part}; give --part all")
    return kept


def restricted(
    scores: confusion.Scores, signals: confusion.Signals | None, path: Path | None
) -> tuple[confusion.Scores, confusion.Signals | None]:
    """Only the examples of a manifest, where one is given."""
    if path is None:
        return scores, signals
    rows = np.sort(confusion.load_subset(path).rows(scores.ids))
    return scores.rows(rows), None if signals is None else signals.rows(rows)


def _exists(path: str) -> None:
    if "://" not in path and not os.path.exists(path) and not os.path.exists(parse_source(path)[0]):
        raise InputError(f"{path}: is not there; give a store, an npz or npy file of predictions, or scores.json")
    folder = Path(path)
    if "://" not in path and folder.is_dir() and not is_store(folder):
        inner = sorted(place.name for place in folder.iterdir() if place.is_dir() and is_store(place))
        if inner:
            raise InputError(f"{path}: holds stores ({', '.join(inner)}); give one, such as {path}/{inner[0]}")
