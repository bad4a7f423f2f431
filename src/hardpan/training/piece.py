"""One architecture and seed of ``hardpan train``, wherever it runs: this process, another, or another machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardpan import datasets, engine
from hardpan.datasets.chosen import asked_for
from hardpan.records import Dataset, Split, array_hash
from hardpan.training.config import TrainConfig
from hardpan.training.examples import Examples, normalization, on_device, shaped
from hardpan.training.fitting import Watched, fit_model, prepared
from hardpan.training.new_stores import in_use
from hardpan.training.recorder import Recorder
from hardpan.training.saved import describe_model, save_model
from hardpan.training.task import TrainingSet

CHECKPOINT, PROGRESS = "checkpoint", "progress.json"
_HASHED_BYTES = 2**30  # examples of more than this are named by a sample of their rows


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What one run needs to know; small where the data has a name.

    Attributes:
        data: name or path that every worker can load, or the dataset itself.
        config: settings, filled for one architecture.
        seed: of the run.
        store: where predictions go.
        folder: where the weights and, meanwhile, the checkpoints go.
        groups: (N,) group numbers, or None.
    """

    data: str | Dataset
    config: TrainConfig
    seed: int
    store: str
    folder: str
    groups: NDArray[np.int64] | None = None

    @property
    def label(self) -> str:
        """What a line of progress begins with."""
        return f"{self.config.model} seed {self.seed}, "


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a piece: the values of its epochs, where it went on, and how long it took here."""

    history: tuple[dict[str, float], ...]
    resumed_at: int
    seconds: float


@functools.lru_cache(maxsize=1)
def _loaded(name: str, stamps: tuple[int, ...]) -> tuple[Dataset, Split]:
    dataset = datasets.load(name)
    return dataset, datasets.split(dataset)


def _stamps(name: str) -> tuple[int, ...]:
    """Times and sizes of the files that a dataset is read from, so that one written anew is read anew."""
    places = [Path(text) for text in (name, *asked_for(name)) if text]
    found = [place.stat() for place in places if place.exists()]
    return tuple(number for item in found for number in (item.st_mtime_ns, item.st_size))


def load_split(data: str | Dataset) -> tuple[Dataset, Split]:
    """Give a dataset and its one split; a worker that runs several pieces loads the data once."""
    return _loaded(data, _stamps(data)) if isinstance(data, str) else (data, datasets.split(data))


def run_settings(dataset: Dataset, config: TrainConfig, groups: NDArray[np.int64] | None) -> dict[str, Any]:
    """Give everything that decides the predictions of a run, its seed apart."""
    labels = np.zeros(0, dtype=np.int64) if dataset.labels is None else dataset.labels
    return {
        "architecture": config.model,
        "data": dataset.name,
        "data_sha256": array_hash(dataset.ids)[:32] + array_hash(labels)[:32],
        "examples_sha256": examples_hash(dataset.x),
        "groups_sha256": "" if groups is None else array_hash(groups),
        **json.loads(json.dumps(config.deciding())),
    }


def examples_hash(x: NDArray[Any], limit: int = _HASHED_BYTES) -> str:
    """Name examples by their content, so that a run does not go on with changed ones under the same ids.

    Up to ``limit`` bytes every value counts; of more, evenly spaced rows of that size together, and the shape.

    Example:
        >>> x = np.arange(12.0).reshape(6, 2)
        >>> examples_hash(x) == array_hash(x), examples_hash(x, limit=48) == examples_hash(x)
        (True, False)
    """
    if x.nbytes <= limit:
        return array_hash(x)
    sampled = array_hash(x[:: -(-x.nbytes // limit)])
    return array_hash(np.array([sampled, str(x.shape)]))


def split_names(dataset: Dataset, parts: Split) -> NDArray[np.str_]:
    """Give the part that each example belongs to."""
    names = np.full(len(dataset), "validation")
    names[parts.train], names[parts.test] = "train", "test"
    return names


def open_recorder(
    store: str, dataset: Dataset, parts: Split, settings: dict[str, Any], lockstep: int | None = None
) -> Recorder:
    """Open the store of a run, or make it; with ``lockstep``, of the scores alone of so many seeds."""
    return Recorder(
        store,
        ids=dataset.ids,
        n_classes=dataset.n_classes,
        labels=dataset.labels,
        class_names=dataset.class_names,
        split=split_names(dataset, parts),
        config=settings,
        outputs="probabilities",
        scalars_only=lockstep is not None,
        seeds=lockstep,
    )


@contextlib.contextmanager
def main_recorder(
    store: str, dataset: Dataset, parts: Split, settings: dict[str, Any], lockstep: int | None = None
) -> Iterator[Recorder | None]:
    """The store of a run while the run is at work, in the main process; None in the others."""
    if not engine.is_main():
        yield None
        return
    opened = functools.partial(open_recorder, store, dataset, parts, settings, lockstep)
    with in_use(store, opened) as recorder:
        yield recorder


def train_piece(piece: Piece, progress: engine.Progress | None = None) -> Ended:
    """Train one model to its end, from wherever it stands, and keep its weights.

    A run that is there whole is given back as it is. A checkpoint that is ahead of the store (someone removed the
    store) is not used: predictions that nobody has cannot be recorded from it.
    """
    started = time.monotonic()
    with engine.claimed(piece.folder):
        dataset, parts = load_split(piece.data)
        settings = run_settings(dataset, piece.config, piece.groups)
        with main_recorder(piece.store, dataset, parts, settings) as recorder:
            return _train_piece(piece, dataset, parts, settings, recorder, progress, started)


def _train_piece(
    piece: Piece,
    dataset: Dataset,
    parts: Split,
    settings: dict[str, Any],
    recorder: Recorder | None,
    progress: engine.Progress | None,
    started: float,
) -> Ended:
    folder = Path(piece.folder)
    deciding = settings | {"seed": piece.seed}
    finished = _finished(folder, deciding, recorder, piece)
    if finished:
        if engine.is_main():
            tidy(folder)
        return Ended(finished, len(finished), time.monotonic() - started)
    if engine.is_main():
        kept = engine.load_checkpoint(folder / CHECKPOINT)
        if kept is not None and not _recorded(recorder, piece, len(kept.state["history"])):
            shutil.rmtree(folder / CHECKPOINT)
    engine.barrier()
    history = _fit(piece, dataset, parts, deciding, recorder, progress or progress_file(folder))
    if engine.is_main():
        tidy(folder)
    return Ended(tuple(history.epochs), history.resumed_at, time.monotonic() - started)


def _fit(
    piece: Piece,
    dataset: Dataset,
    parts: Split,
    deciding: dict[str, Any],
    recorder: Recorder | None,
    progress: engine.Progress,
) -> engine.History:
    config, folder = piece.config, Path(piece.folder)
    x = shaped(dataset.x)
    statistics = normalization(x, parts.train)

    def record(epoch: int, probs: NDArray[np.float32]) -> None:
        if recorder is not None:
            recorder.record(probs, seed=piece.seed, epoch=epoch)
            recorder.flush()

    with prepared(config) as (device, precision):
        given = training_set(piece, dataset, parts, on_device(x, statistics, device))
        watched = Watched(
            given.examples, record, {"validation": parts.validation, "test": parts.test}, dataset.labels
        )
        fitted = fit_model(
            config,
            given,
            watched,
            seed=piece.seed,
            precision=precision,
            folder=folder / CHECKPOINT,
            settings=deciding,
            progress=progress,
            label=piece.label,
        )
        if engine.is_main():
            described = describe_run(piece, dataset, given, deciding, fitted.history.epochs, precision)
            save_model(folder, fitted.model, statistics, described | {"best_epoch": fitted.history.best_epoch + 1})
    return fitted.history


def training_set(piece: Piece, dataset: Dataset, parts: Split, examples: Examples) -> TrainingSet:
    """Give what a piece is trained on, on the device of the examples."""
    assert dataset.labels is not None
    device = examples.raw.device
    return TrainingSet(
        examples,
        torch.from_numpy(parts.train).to(device),
        torch.from_numpy(dataset.labels).to(device),
        dataset.n_classes,
        None if piece.groups is None else torch.from_numpy(piece.groups).to(device),
    )


def describe_run(
    piece: Piece,
    dataset: Dataset,
    given: TrainingSet,
    deciding: dict[str, Any],
    history: Sequence[dict[str, float]],
    precision: str,
) -> dict[str, Any]:
    """Give what the JSON of a trained model says."""
    return {
        "model": piece.config.model,
        "model_options": dict(piece.config.model_options),
        "input_shape": list(given.examples.input_shape),
        "n_classes": dataset.n_classes,
        "class_names": list(dataset.class_names),
        "seed": piece.seed,
        "settings": deciding,
        "precision": precision,
        "device": engine.describe_device(given.examples.raw.device),
        "best_epoch": 0,
        "history": list(history),
    }


def _finished(
    folder: Path, deciding: dict[str, Any], recorder: Recorder | None, piece: Piece
) -> tuple[dict[str, float], ...]:
    """Give the history of a run that is there whole, weights and predictions; else nothing."""
    found = describe_model(folder) or {}
    history = tuple(found.get("history", ())) if found.get("settings") == deciding else ()
    # The main process alone has the store, so it decides.
    whole = engine.from_main(float(bool(history) and _recorded(recorder, piece, len(history))))
    return history if whole else ()


def _recorded(recorder: Recorder | None, piece: Piece, epochs: int) -> bool:
    """Whether the store has every epoch that a run of so many epochs records."""
    if recorder is None:
        return True
    wanted = [epoch for epoch in piece.config.recorded_epochs() if epoch <= epochs]
    return all(recorder.done(piece.seed, epoch=epoch) for epoch in wanted)


def tidy(folder: Path) -> None:
    """Remove what only an unfinished run needs."""
    shutil.rmtree(folder / CHECKPOINT, ignore_errors=True)
    for left in folder.glob(f"*{PROGRESS}*"):  # also what a killed run had not yet put in place
        left.unlink(missing_ok=True)


def progress_file(folder: Path) -> Callable[[str, float], None]:
    """Give a progress callback that leaves a small file, for whoever waits for the piece elsewhere."""

    def tell(text: str, fraction: float) -> None:
        waiting = folder / f".{PROGRESS}.{os.getpid()}"
        with contextlib.suppress(OSError):  # a full disk ends a run where something is lost by it, not here
            folder.mkdir(parents=True, exist_ok=True)
            waiting.write_text(json.dumps([text, fraction]), encoding="utf-8")
            waiting.replace(folder / PROGRESS)

    return tell
