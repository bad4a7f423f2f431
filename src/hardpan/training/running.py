"""``training.train``: seeds × architectures, their predictions into stores, their weights beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan import engine, stats
from hardpan.data.dataset import Dataset, Split
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.predictions.recorder import Recorder
from hardpan.predictions.store import is_store
from hardpan.training import classifiers, objectives
from hardpan.training.config import TrainConfig, changed
from hardpan.training.examples import check_size, input_shape_of, shaped
from hardpan.training.groups import Groups, check_named, of_groups, read_groups
from hardpan.training.lockstep_training import train_lockstep
from hardpan.training.new_stores import NewStores
from hardpan.training.pieces import Ended, LockstepPiece, Piece
from hardpan.training.recipes import filled
from hardpan.training.results import Trained, TrainedRun
from hardpan.training.run_data import load_split
from hardpan.training.seed_training import train_piece
from hardpan.training.spreading import run_pieces
from hardpan.training.work import open_recorder


def train(
    dataset: str | os.PathLike[str] | Dataset,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str],
    weights: str | os.PathLike[str] | None = None,
    groups: Groups = None,
    scalars_only: bool = False,
    progress: Progress | None = None,
    **changes: Any,
) -> Trained:
    """Train seeds of one or more architectures, and record their predictions of every example.

    Predictions are made in evaluation mode on unaugmented examples of train, validation and test. A run that was
    killed goes on from its last checkpoint when the same is asked for again; what is whole is not run again, and
    more seeds can be added later.

    Runs are independent tasks: :func:`hardpan.parallel` sets where they run. By default they run in processes of
    this machine where there are several and no GPU, else one after another here; on a cluster, its machines must
    see ``dataset``, ``out`` and ``weights``.

    Args:
        dataset: a name or path for ``Dataset.open``, or a dataset with labels.
        config: settings.
        out: the store of predictions (folder or fsspec address); with several architectures, a folder with a store
            for each.
        weights: the folder for models; by default ``OUT-models`` beside the store.
        groups: for objectives over groups: a file (a subset of ``hardpan confusion``, or an npz with ``groups``),
            or (N,) group numbers in the order of the dataset.
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
    config = changed(config, changes)
    place = _place(out)
    if not isinstance(dataset, (str, os.PathLike, Dataset)):
        raise InputError(
            f"dataset must be a name or path, such as 'digits', or a Dataset; got {type(dataset).__name__}"
        )
    data = dataset if isinstance(dataset, Dataset) else os.fspath(dataset)
    if isinstance(data, str) and Path(data).exists():
        data = str(Path(data).absolute())  # a worker elsewhere has another working folder
    loaded, parts = load_split(data)
    if loaded.labels is None:
        raise InputError(f"dataset {loaded.name!r} has no labels; training needs them")
    check_size(shaped(loaded.x), f"examples of {loaded.name}")
    given = read_groups(groups, loaded, config.objective)
    check_named(groups, given, parts)
    device = engine.pick_device(config.device)
    on_gpu = device.type == "cuda"
    with engine.process_group(device):
        pieces = _pieces(data, loaded, config, place, weights, given)
        _check_settings(pieces[0], parts)
        engine.choose_precision(config.precision, device)
        together = _by_architecture(pieces) if scalars_only else []
        openers = _checked_openers(together or pieces, loaded, parts)
        new = NewStores()
        ready = partial(_make_missing, openers, new)
        ended: Sequence[Ended]
        try:
            if together:
                of_each = run_pieces(train_lockstep, together, on_gpu=on_gpu, ready=ready, progress=progress)
                ended = [end for of_one in of_each for end in of_one]
            else:
                ended = run_pieces(train_piece, pieces, on_gpu=on_gpu, ready=ready, progress=progress)
        except BaseException:
            # A store keeps its settings: an empty one would refuse the run again with others that may work.
            new.remove_empty()
            raise
    runs = tuple(_told(piece, end, parts) for piece, end in zip(pieces, ended, strict=True))
    return Trained(runs, tuple(openers), config, scalars_only)


def _by_architecture(pieces: Sequence[Piece]) -> list[LockstepPiece]:
    if pieces[0].config.patience:
        raise InputError(
            f"patience must be 0 with scalars_only, since seeds in lockstep end together; got "
            f"{pieces[0].config.patience}"
        )
    stores = dict.fromkeys(piece.store for piece in pieces)
    return [LockstepPiece(tuple(piece for piece in pieces if piece.store == store)) for store in stores]


def _place(out: str | os.PathLike[str]) -> str:
    if not isinstance(out, (str, os.PathLike)) or not os.fspath(out):
        raise InputError(f"out must name a folder or an fsspec address for the predictions; got {out!r}")
    text = os.fspath(out).removeprefix("file://")
    return text if "://" in text else str(Path(text).absolute())


def _pieces(
    data: str | Dataset,
    loaded: Dataset,
    config: TrainConfig,
    out: str,
    weights: str | os.PathLike[str] | None,
    groups: NDArray[np.int64] | None,
) -> list[Piece]:
    models = _models_folder(weights, out)
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


def _models_folder(weights: str | os.PathLike[str] | None, out: str) -> Path:
    if weights is None and "://" in out:
        raise InputError(f"weights must name a local folder for the models, since out is {out!r}")
    if weights is not None and not isinstance(weights, (str, os.PathLike)):
        raise InputError(f"weights must name a local folder for the models; got {weights!r}")
    place = f"{out.rstrip('/')}-models" if weights is None else os.fspath(weights).removeprefix("file://")
    if "://" in place:
        raise InputError(f"weights must name a local folder for the models, no address; got {place!r}")
    return Path(place).absolute()


def folder_name(model: str) -> str:
    """Give the name of an architecture as a folder's.

    Example:
        >>> folder_name("my_nets:small")
        'my_nets-small'
    """
    return model.replace(":", "-").replace("/", "-")


def _check_settings(piece: Piece, parts: Split) -> None:
    """Refuse settings that a run would refuse later: a store keeps those it was made with, and takes no others."""
    groups = None if piece.groups is None else piece.groups[parts.train]
    options = dict(piece.config.objective_options)
    objectives.build(piece.config.objective, n_rows=len(parts.train), groups=groups, **options)
    place = Path(piece.folder)
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise InputError(f"weights: {place} is no folder that may be written; give another one for the models")


def _checked_openers(
    units: Sequence[Piece | LockstepPiece], loaded: Dataset, parts: Split
) -> dict[str, Callable[[], Recorder]]:
    """Refuse architectures and stores that cannot work before anything runs; give what opens each store."""
    input_shape = input_shape_of(shaped(loaded.x).shape)
    openers: dict[str, Callable[[], Recorder]] = {}
    for unit in {unit.store: unit for unit in units}.values():
        options = dict(unit.config.model_options)
        classifiers.build(unit.config.model, input_shape=input_shape, n_classes=loaded.n_classes, **options)
        openers[unit.store] = partial(open_recorder, unit, loaded, parts, unit.settings(loaded))
    for place, opened in openers.items():
        if engine.is_main() and is_store(place):
            opened().close()
    return openers


def _make_missing(openers: Mapping[str, Callable[[], Recorder]], new: NewStores) -> None:
    """Make the stores that are not there.

    They are made in one place, so that runs at once find them there, and only when the runs can begin: a store
    keeps the settings that it was made with, so that one of a run that never began would refuse another run.
    """
    for place, opened in openers.items():
        if engine.is_main() and not is_store(place):
            new.make(place, opened)
    engine.barrier()


def _told(piece: Piece, end: Ended, parts: Split) -> TrainedRun:
    values = end.history[-1]
    if piece.config.patience:  # the weights of the best epoch are kept, so that its values are the run's
        values = min(end.history, key=lambda values: values["validation_loss"])
    sizes = {"validation": len(parts.validation), "test": len(parts.test)}
    accuracy = {
        name: _estimate(values[f"{name}_accuracy"], n)
        for name, n in sizes.items()
        if n and f"{name}_accuracy" in values
    }
    return TrainedRun(
        model=piece.config.model,
        seed=piece.seed,
        store=piece.store,
        weights=piece.folder,
        epochs=len(end.history),
        resumed_at=end.resumed_at,
        accuracy=accuracy,
        values=values,
        seconds=end.seconds,
        group_accuracy={} if piece.groups is None else _by_group(values, piece.groups, parts),
    )


def _by_group(values: Mapping[str, float], groups: NDArray[np.int64], parts: Split) -> dict[str, Estimate]:
    for part, rows in (("test", parts.test), ("validation", parts.validation)):
        found = of_groups(part, values)
        if found:
            return {
                str(group): _estimate(right, int(np.count_nonzero(groups[rows] == group)))
                for group, right in found.items()
            }
    return {}


def _estimate(accuracy: float, n: int) -> Estimate:
    return stats.share(round(accuracy * n), n, method="accuracy, Clopper–Pearson")
