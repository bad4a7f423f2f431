"""``training.train``: seeds × architectures, their predictions into stores, their weights beside them."""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hardpan import engine, parallel, stats
from hardpan.errors import InputError
from hardpan.records import Dataset, Estimate, Split
from hardpan.store.making import is_store
from hardpan.training import classifiers, objectives
from hardpan.training.config import TrainConfig
from hardpan.training.examples import shaped
from hardpan.training.groups import Groups, read_groups
from hardpan.training.lockstep_piece import LockstepPiece, train_lockstep
from hardpan.training.new_stores import NewStores
from hardpan.training.piece import PROGRESS, Ended, Piece, load_split, open_recorder, run_settings, train_piece
from hardpan.training.recipes import filled
from hardpan.training.recorder import Recorder
from hardpan.training.results import Trained, TrainedRun

_Unit = TypeVar("_Unit", Piece, LockstepPiece)
_Result = TypeVar("_Result")


def train(
    dataset: str | os.PathLike[str] | Dataset,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    groups: Groups = None,
    backend: str = "",
    workers: int | None = None,
    address: str = "",
    scalars_only: bool = False,
    progress: engine.Progress | None = None,
    **changes: Any,
) -> Trained:
    """Train seeds of one or more architectures, and record their predictions of every example.

    Predictions are made in evaluation mode on unaugmented examples of train, validation and test. A run that was
    killed goes on from its last checkpoint when the same is asked for again; what is whole is not run again, and
    more seeds can be added later.

    Args:
        dataset: a name or path for ``datasets.load``, or a dataset with labels.
        config: settings.
        out: the store of predictions (folder or fsspec address); with several architectures, a folder with a store
            for each.
        weights: the folder for models; by default ``OUT-models`` beside the store.
        groups: for objectives over groups: a file (a subset of ``hardpan confusion``, or an npz with ``groups``),
            or (N,) group numbers in the order of the dataset.
        backend: ``processes``, ``threads`` (one run after another), ``dask`` or ``ray``; empty: processes where
            there are several runs to do and no GPU, else one after another here.
        workers: how many runs at once.
        address: of a Dask or Ray cluster; its machines must see ``dataset``, ``out`` and ``weights``.
        scalars_only: keep no predictions: the seeds of an architecture are trained in lockstep, and of each epoch
            only the entropy of their mean is added to the scores in ``out``. Their number is then fixed.
        progress: called with a line and the fraction done.
        changes: settings to be changed in ``config``.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = train("digits", model="linear", seeds=1, epochs=2, out=folder + "/run", device="cpu")
        >>> made.runs[0].epochs, made.runs[0].accuracy["test"].n
        (2, 359)
    """
    config = dataclasses.replace(config or TrainConfig(), **changes)
    if backend and backend not in parallel.BACKENDS:
        raise InputError(f"backend must be one of {', '.join(parallel.BACKENDS)}; got {backend!r}")
    data = os.fspath(dataset) if not isinstance(dataset, Dataset) else dataset
    if isinstance(data, str) and Path(data).exists():
        data = str(Path(data).absolute())  # a worker elsewhere has another working folder
    loaded, parts = load_split(data)
    if loaded.labels is None:
        raise InputError(f"dataset {loaded.name!r} has no labels; training needs them")
    given = read_groups(groups, loaded, config.objective)
    device = engine.pick_device(config.device)
    with engine.process_group(device):
        pieces = _pieces(data, loaded, config, _place(out), weights, given)
        _check_settings(pieces[0], parts, backend, address)
        engine.choose_precision(config.precision, device)
        ended: Sequence[Ended]
        together = _by_architecture(pieces) if scalars_only else ()
        new = NewStores()
        make = _check(pieces, loaded, parts, together, new)
        where = (backend, workers, address, device.type == "cuda", progress)
        try:
            if together:
                ended = [end for of_one in _run(train_lockstep, together, make, *where) for end in of_one]
            else:
                ended = _run(train_piece, pieces, make, *where)
        except BaseException:
            # A store keeps its settings: an empty one would refuse the run again with others that may work.
            new.remove_empty()
            raise
    runs = tuple(_told(piece, end, parts) for piece, end in zip(pieces, ended, strict=True))
    return Trained(runs, tuple(dict.fromkeys(piece.store for piece in pieces)), config, scalars_only)


def _by_architecture(pieces: Sequence[Piece]) -> list[LockstepPiece]:
    if pieces[0].config.patience:
        raise InputError(
            f"patience must be 0 with scalars_only, since seeds in lockstep end together; got "
            f"{pieces[0].config.patience}"
        )
    stores = dict.fromkeys(piece.store for piece in pieces)
    return [LockstepPiece(tuple(piece for piece in pieces if piece.store == store)) for store in stores]


def _place(out: str | os.PathLike[str]) -> str:
    text = os.fspath(out)
    if not text:
        raise InputError("out must name a folder for the predictions; got ''")
    return text if "://" in text else str(Path(text).absolute())


def _pieces(
    data: str | Dataset,
    loaded: Dataset,
    config: TrainConfig,
    out: str,
    weights: str | os.PathLike[str] | None,
    groups: NDArray[np.int64] | None,
) -> list[Piece]:
    if weights is None and "://" in out:
        raise InputError(f"weights must name a local folder for the models, since out is {out!r}")
    models = Path(f"{out.rstrip('/')}-models" if weights is None else os.fspath(weights)).absolute()
    shape = shaped(loaded.x).shape[1:]
    return [
        Piece(
            data,
            filled(config, name, shape),
            seed,
            out if len(config.models) == 1 else f"{out}/{folder_name(name)}",
            str(models / folder_name(name) / f"seed-{seed}"),
            groups,
        )
        for name in config.models
        for seed in range(config.seeds)
    ]


def folder_name(model: str) -> str:
    """Give the name of an architecture as a folder's.

    Example:
        >>> folder_name("my_nets:small")
        'my_nets-small'
    """
    return model.replace(":", "-").replace("/", "-")


def _check_settings(piece: Piece, parts: Split, backend: str, address: str) -> None:
    """Refuse settings that a run would refuse later: a store keeps those it was made with, and takes no others."""
    groups = None if piece.groups is None else piece.groups[parts.train]
    options = dict(piece.config.objective_options)
    objectives.build(piece.config.objective, n_rows=len(parts.train), groups=groups, **options)
    if address and backend not in ("dask", "ray"):
        raise InputError(f"address {address!r} is for the back ends dask and ray; backend is {backend!r}")
    place = Path(piece.folder)
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"weights: {place} is no folder that may be written; give another one for the models")


def _check(
    pieces: Sequence[Piece], loaded: Dataset, parts: Split, together: Sequence[LockstepPiece], new: NewStores
) -> Callable[[], None]:
    """Refuse what cannot work before anything runs, and give what makes the stores.

    They are made in one place, so that runs at once find them there, and only when the runs can begin: a store
    keeps the settings that it was made with, so that one of a run that never began would refuse another run.
    """
    x = shaped(loaded.x)
    input_shape = (x.shape[-1], *x.shape[1:-1]) if x.ndim == 4 else x.shape[1:]
    opened: dict[str, Callable[[], Recorder]] = {}
    for piece in {piece.config.model: piece for piece in pieces}.values():
        options = dict(piece.config.model_options)
        classifiers.build(piece.config.model, input_shape=input_shape, n_classes=loaded.n_classes, **options)
        if not together:
            settings = run_settings(loaded, piece.config, piece.groups)
            opened[piece.store] = partial(open_recorder, piece.store, loaded, parts, settings)
    for group in together:
        opened[group.pieces[0].store] = partial(group.recorder, loaded, parts)

    def make() -> None:
        for place, recorder in opened.items():
            if engine.is_main() and not is_store(place):
                new.make(place, recorder)
        engine.barrier()

    for place, recorder in opened.items():
        if engine.is_main() and is_store(place):
            recorder().close()
    return make


def available_cores() -> int:
    """Give how many cores this process may use: fewer than the machine has where it is bound to some.

    Example:
        >>> 1 <= available_cores() <= (os.cpu_count() or 1)
        True
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(
    function: Callable[..., _Result],
    pieces: Sequence[_Unit],
    make: Callable[[], None],
    backend: str,
    workers: int | None,
    address: str,
    on_gpu: bool,
    progress: engine.Progress | None,
) -> list[_Result]:
    if engine.world_size() > 1 and backend:
        raise InputError(f"backend {backend!r} cannot be joined with torchrun; leave one of them out")
    alone = len(pieces) == 1 or workers == 1 or available_cores() == 1
    here = engine.world_size() > 1 or alone or on_gpu
    chosen = backend or ("threads" if here and workers in (None, 1) else "processes")
    if chosen == "threads" and not address:
        make()
        return [
            function(piece, _share(progress, index, len(pieces)) if progress else None)
            for index, piece in enumerate(pieces)
        ]
    with _watching(pieces, progress):
        return parallel.map_pieces(function, pieces, backend=chosen, workers=workers, address=address, ready=make)


def _share(progress: engine.Progress, index: int, count: int) -> engine.Progress:
    return lambda text, fraction: progress(text, (index + fraction) / count)


@contextmanager
def _watching(pieces: Sequence[Piece | LockstepPiece], progress: engine.Progress | None) -> Iterator[None]:
    """Tell from time to time how far runs in other processes are, by the files that they leave."""
    if progress is None:
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(1.0):
            lines, done = [], 0.0
            for piece in pieces:
                try:
                    text, fraction = json.loads((Path(piece.folder) / PROGRESS).read_text(encoding="utf-8"))
                    lines.append(str(text))
                    done += float(fraction)
                except (OSError, ValueError, TypeError):
                    # Written last: by then the progress file is gone.
                    last = Path(piece.folder) if isinstance(piece, Piece) else Path(piece.pieces[-1].folder)
                    done += float((last / "model.json").exists())
            if lines:
                progress(
                    "; ".join(lines[:2]) + (f"; {len(lines) - 2} more" if len(lines) > 2 else ""),
                    done / len(pieces),
                )

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _told(piece: Piece, end: Ended, parts: Split) -> TrainedRun:
    # With patience the weights of the best epoch are kept, so that its values are the run's.
    judged = min(end.history, key=lambda values: values["validation_loss"]) if piece.config.patience else None
    last = judged or end.history[-1]
    sizes = {"validation": len(parts.validation), "test": len(parts.test)}
    accuracy = {
        name: _estimate(last[f"{name}_accuracy"], n)
        for name, n in sizes.items()
        if f"{name}_accuracy" in last and n
    }
    return TrainedRun(
        piece.config.model,
        piece.seed,
        piece.store,
        piece.folder,
        len(end.history),
        end.resumed_at,
        accuracy,
        last,
        end.seconds,
    )


def _estimate(accuracy: float, n: int) -> Estimate:
    return stats.share(round(accuracy * n), n, method="accuracy, Clopper–Pearson")
