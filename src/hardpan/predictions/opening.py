"""Opening predictions: paths, arrays, data frames, logs of multiple-choice tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardpan import arguments
from hardpan.data.opening import parse_data_source
from hardpan.errors import InputError
from hardpan.files import read_json_lines
from hardpan.predictions.arrays import array_predictions, open_array_file
from hardpan.predictions.predictions import Predictions
from hardpan.tables import is_frame, is_table_file

ARRAYS = (".npy", ".npz")
Epochs = str | int | Sequence[int]


def open_any(
    source: Any,
    outputs: str = "auto",
    normalize: bool = False,
    columns: Mapping[str, Any] | None = None,
    *,
    name: str = "source",
) -> Predictions:
    """Open whatever :meth:`hardpan.Predictions.open` takes; an error calls it by the ``name`` of the argument."""
    columns = columns or {}
    if isinstance(source, Predictions):
        return source
    if isinstance(source, (str, os.PathLike)):
        path, manifest = parse_data_source(os.fspath(source))
        opened = _open_path(path, outputs, normalize, columns)
        return opened.select(manifest) if manifest else opened
    from hardpan.outcomes import Outcomes

    if isinstance(source, Outcomes):
        return Predictions.from_outcomes(source)
    if isinstance(source, Mapping):  # an array for each model
        if not source:
            raise InputError("must name at least one model; got an empty mapping", argument=name)
        arrays = [np.asarray(array) for array in source.values()]
        if len({array.shape for array in arrays}) > 1:
            shapes = ", ".join(f"{model} {array.shape}" for model, array in zip(source, arrays, strict=True))
            raise InputError(f"{name}: all models must predict the same examples and classes; got {shapes}")
        columns = {**columns, "models": [str(model) for model in source]}
        return array_predictions(np.stack(arrays), outputs=outputs, normalize=normalize, **columns)
    if is_frame(source):
        from hardpan.predictions.tables import open_table

        return open_table(source, outputs=outputs, normalize=normalize, **columns)
    if isinstance(source, (np.ndarray, list, tuple)) or hasattr(source, "__array__"):
        return array_predictions(source, outputs=outputs, normalize=normalize, **columns)
    raise InputError(
        f"must be a path, an array, a data frame or Predictions; got {type(source).__name__}", argument=name
    )


def _open_path(path: str, outputs: str, normalize: bool, columns: Mapping[str, Any]) -> Predictions:
    file, suffix = Path(path), Path(path).suffix.lower()
    is_log = False  # of lm-evaluation-harness: a samples file, or a folder with such files
    if suffix == ".jsonl" and os.path.isfile(path):  # Path.is_file raises for a name that is too long
        from hardpan.outcomes import lm_eval

        is_log = lm_eval.is_lm_eval_sample(next(read_json_lines(file), None))
    elif os.path.isdir(path) and not (file / "zarr.json").is_file():
        is_log = next(file.rglob("samples_*.jsonl"), None) is not None
    if is_log:
        from hardpan.outcomes import Outcomes

        return Predictions.from_outcomes(Outcomes.open(path))
    if "://" not in path and not os.path.isdir(path):
        if suffix in ARRAYS:
            return open_array_file(file, outputs, normalize, **columns)
        if is_table_file(file):
            from hardpan.predictions.tables import open_table

            return open_table(file, outputs=outputs, normalize=normalize, **columns)
    from hardpan.predictions.store import open_store

    stored = Predictions(open_store(path))
    options = [name for name, used in (("outputs", outputs != "auto"), ("normalize", normalize)) if used]
    if options or columns:
        refused = ", ".join([*options, *columns])
        raise InputError(f"{path}: is a store, which has its own columns; leave out {refused}, or import it again")
    return stored


def open_selected(
    probs: Any,
    *,
    epochs: Epochs = "all",
    seeds: Sequence[int] | None = None,
    ids: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Predictions:
    """Predictions with some of their epochs and seeds.

    Args:
        probs: what :meth:`hardpan.Predictions.open` takes; an array must hold probabilities.
        epochs: "all", a whole number k for every k-th beginning with the first, or a list; numbers may be text.
        seeds: numbers of the seeds to use; all if None.
        ids: (N,) ids, for arrays.
        labels: (N,) class numbers; by default those of the predictions.

    Example:
        >>> p = Predictions.from_arrays(np.full((10, 1, 2), 0.5))
        >>> [open_selected(p, epochs=epochs).epochs for epochs in (4, [9, 0], "9,0")]
        [(0, 4, 8), (9, 0), (9, 0)]
    """
    if isinstance(probs, (str, os.PathLike, Predictions)):
        result = Predictions.open(probs)
    else:
        result = Predictions.from_arrays(probs, ids=ids, outputs="probabilities")
    if labels is not None:
        known = arguments.labels("labels", labels, len(result), result.n_classes)
        result = result.with_columns(labels=known)
    result = result if seeds is None else result.select(seeds=seeds)
    result.last_epoch()
    if isinstance(epochs, str):
        if epochs == "all":
            return result
        try:
            numbers = tuple(int(number) for number in epochs.split(",") if number)
        except ValueError:
            raise InputError(
                f'must be "all", a whole number k for every k-th, or a list such as 0,5,10; got {epochs!r}',
                argument="epochs",
            ) from None
        epochs = numbers if "," in epochs or not numbers else numbers[0]
    if epochs is None or isinstance(epochs, bool):
        raise InputError(f'must be "all", a whole number or a list; got {epochs!r}', argument="epochs")
    if isinstance(epochs, (int, np.integer)):
        step = arguments.whole_number("epochs", epochs, 1, len(result.epochs))
        return result.select(epochs=result.epochs[::step])
    return result.select(epochs=epochs)
