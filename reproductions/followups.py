"""Follow-up experiments of Recht et al. (2019) on any dataset: what could explain a lower score on a new test set?

    python -m reproductions.followups retune cifar10 --new cifar10.1.npz --out OUT --set epochs=100
    python -m reproductions.followups partial cifar10 --new cifar10.1.npz --model resnet18,vgg16 --out OUT
    python -m reproductions.followups crossval digits --model linear --set epochs=6 --out OUT

retune (B.2.3): do other hyperparameters recover the drop? partial (B.2.6): does training on half of the new set?
crossval (B.2.7, Table 4): was the original split a lucky one? Without --new, one half of the test set is called
original and the other new: a control, in which no experiment should find an effect. Every finished training is kept
in OUT/runs, so that the same command resumes; the record is OUT/NAME.json. Intervals are about the test examples;
repeated training would differ by more. A run whose loss becomes NaN has accuracy 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from hardpan import execution, files, stats
from hardpan.data.dataset import Dataset
from hardpan.engine import Diverged
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.training import TrainConfig, fit_arrays

Rows = NDArray[np.int64]
Correct = dict[str, NDArray[np.bool_]]  # by test set; nothing is correct where the loss became NaN
Values = tuple[float, ...]
Grid = Mapping[str, Values]

# B.2.3; for a VGG, dropout is a factor on all of the network's probabilities.
PAPER_GRID: dict[str, Values] = {
    "rate": (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8),
    "dropout": (0.5, 0.75, 1.0, 1.25, 1.75),
    "weight_decay": (5e-5, 1e-4, 5e-4, 1e-3, 5e-3),
}
PAPER_START = {"rate": 0.1, "dropout": 1.0, "weight_decay": 5e-4}


@dataclass(frozen=True, slots=True, eq=False)
class Experiment:
    """Examples of a dataset, then of the new test set; the rows of each set; settings, and where runs are kept."""

    x: NDArray[Any]
    labels: Rows
    train: Rows
    original: Rows
    new: Rows
    name: str
    new_name: str
    config: TrainConfig
    out: Path
    seed: int = 0

    @classmethod
    def open(cls, data: Any, new: Any, config: TrainConfig, out: Path, seed: int = 0) -> Experiment:
        old = Dataset.open(data)
        labels, splits = old.require_labels(), old.splits(seed=seed)
        train = np.sort(np.concatenate([splits.train, splits.validation]))
        if new is None:
            original, control = (splits.test[half] for half in balanced_parts(labels[splits.test], 2, seed))
            sets = (old.x, labels, train, original, control, old.name, "half of the test set")
            return cls(*sets, config, out, seed)
        other = Dataset.open(new)
        if (other.x.shape[1:], other.x.dtype) != (old.x.shape[1:], old.x.dtype):
            raise InputError(f": {other.name} must have examples like those of {old.name}", argument="new")
        if tuple(other.class_names) != tuple(old.class_names):
            raise InputError(f": {other.name} must have the classes of {old.name}, in their order", argument="new")
        has_test = other.split is not None and (other.split == "test").any()
        rows = np.flatnonzero(other.split == "test") if has_test else np.arange(len(other.x))
        x, labels = np.concatenate([old.x, other.x]), np.concatenate([labels, other.require_labels()])
        return cls(x, labels, train, splits.test, len(old.x) + rows, old.name, other.name, config, out, seed)

    def parts(self, rows: Rows, count: int, draw: int = 0) -> list[Rows]:
        """These rows in class-balanced random parts."""
        return [rows[part] for part in balanced_parts(self.labels[rows], count, self.seed, draw)]

    def trained(self, runs: Iterable[tuple[TrainConfig, Rows, Mapping[str, Rows]]]) -> list[Correct]:
        """Which examples of each test set each run classifies correctly; finished runs are read."""
        runs = list(runs)
        paths = [self.out / "runs" / f"{self._key(*run)}.npz" for run in runs]
        missing = [number for number, path in enumerate(paths) if not path.is_file()]

        def save(index: int, correct: Correct) -> None:
            paths[missing[index]].parent.mkdir(parents=True, exist_ok=True)
            with files.replacing(paths[missing[index]]) as partial_path, partial_path.open("wb") as stream:
                np.savez(stream, **correct)

        with execution.parallel("threads", workers=1):  # training sets the state of the process
            execution.map_tasks(partial(_train, self), [runs[number] for number in missing], each=save)
        return [dict(np.load(path)) for path in paths]

    def _key(self, config: TrainConfig, train: Rows, tests: Mapping[str, Rows]) -> str:
        arrays = [self.x, self.labels, train, *tests.values()]
        content = [config.model, config.deciding(), self.seed, list(tests), [files.array_hash(a) for a in arrays]]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def record(self, **results: Any) -> dict[str, Any]:
        """What is written: the data, the settings, and the results of one experiment."""
        sizes = {"train": len(self.train), "original": len(self.original), "new": len(self.new)}
        return {
            "data": self.name,
            "new": self.new_name,
            "examples": sizes,
            "seed": self.seed,
            "config": files.to_json(self.config),
            **{name: _plain(value) for name, value in results.items()},
        }


def _train(experiment: Experiment, run: tuple[TrainConfig, Rows, Mapping[str, Rows]]) -> Correct:
    config, train, tests = run
    x, labels = experiment.x, experiment.labels
    try:
        fit = fit_arrays(
            x[train],
            labels[train],
            x[np.concatenate(list(tests.values()))],
            dataclasses.replace(config, seeds=1, record_every=config.epochs),
            n_classes=int(labels.max()) + 1,
            first_seed=experiment.seed,
        )
    except Diverged:
        return {name: np.zeros(len(rows), dtype=np.bool_) for name, rows in tests.items()}
    answers = np.split(fit.probs[0, -1].argmax(axis=1), np.cumsum([len(rows) for rows in tests.values()])[:-1])
    return {name: answer == labels[rows] for (name, rows), answer in zip(tests.items(), answers, strict=True)}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return files.to_json(value) if dataclasses.is_dataclass(value) else value


def balanced_parts(labels: Rows, parts: int, seed: int, draw: int = 0) -> list[Rows]:
    """Rows at random in parts whose sizes, and whose counts of every class, differ by at most one."""
    order = np.random.default_rng([seed, draw]).permutation(len(labels))
    dealt = order[np.argsort(labels[order], kind="stable")]
    return [np.sort(dealt[start::parts]) for start in range(parts)]


def accuracy(correct: NDArray[np.bool_]) -> Estimate:
    return stats.share(int(correct.sum()), len(correct))


def accuracy_difference(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Estimate:
    """Accuracy of the first minus that of the second on the same n examples, with the interval of Agresti and Min.

    With b examples that only the first classifies correctly and c that only the second does, the interval is
    d ± z √(b + c + 1 − (b − c)² / (n + 2)) / (n + 2) around d = (b − c) / (n + 2): half an example is added to each
    of the four cells (Statistics in Medicine 24, 2005).
    """
    n, b, c = len(first), int((first & ~second).sum()), int((second & ~first).sum())
    error = float(np.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2))
    method = "paired, Agresti–Min interval"
    moved = stats.normal((b - c) / (n + 2), error, n, least=-1.0, most=1.0, method=method)
    return dataclasses.replace(moved, value=(b - c) / n)


def mcnemar(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float:
    return float(stats.mcnemar([int((first & ~second).sum())], [int((second & ~first).sum())])[0])


def crossval(experiment: Experiment, folds: int = 5) -> dict[str, Any]:
    """Train each architecture on every fold's complement plus the original test set, and once as usual.

    If cross-validation predicts the new test set, the accuracy there lies among those of the folds.
    """
    e, parts = experiment, experiment.parts(experiment.train, folds)
    sets: list[tuple[Rows, dict[str, Rows]]] = [(e.train, {"original": e.original, "new": e.new})]
    for number, fold in enumerate(parts):
        others = np.sort(np.concatenate(parts[:number] + parts[number + 1 :]))
        sets.append((np.concatenate([others, e.original]), {f"split {number + 1}": fold}))
    configs = [dataclasses.replace(e.config, model=model) for model in e.config.models]
    runs = [(config, *pair) for config in configs for pair in sets]
    rows = [
        {"model": run[0].model, "dataset": name, "correct": int(right.sum()), "total": len(right)}
        for run, correct in zip(runs, e.trained(runs), strict=True)
        for name, right in correct.items()
    ]
    return e.record(table={"rows": cross_validation(rows)})


def cross_validation(counts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Per model (Table 4) the accuracies on the original set, the splits and the new set, with their intervals.

    Args:
        counts: rows of ``model``, ``dataset`` ("original", "new", or else a split), ``correct`` and ``total``.

    The spread is that of the splits, the drop is their mean minus the new accuracy; the new accuracy is predicted
    if it lies within the range of the splits, widened by its own interval.
    """
    by_model: dict[str, dict[str, Estimate]] = {}
    for row in counts:
        by_model.setdefault(row["model"], {})[row["dataset"]] = stats.share(row["correct"], row["total"])
    rows = []
    for model, sets in by_model.items():
        original, new = sets.pop("original"), sets.pop("new")
        values = [item.value for item in sets.values()]
        rows.append(
            {
                "model": model,
                "original": original,
                "splits": list(sets.values()),
                "new": new,
                "spread": max(values) - min(values),
                "drop": float(np.mean(values)) - new.value,
                "predicted": new.low <= max(values) and new.high >= min(values),
            }
        )
    return rows


def part_of_new_set(experiment: Experiment, splits: int = 2) -> dict[str, Any]:
    """Add a random, class-balanced half of the new set to the training set, and test on the other half.

    As a control for more data, as many examples of the original test set are added instead.
    """
    e, rows = experiment, []
    for model in e.config.models:
        config = dataclasses.replace(e.config, model=model)
        runs: list[tuple[TrainConfig, Rows, Mapping[str, Rows]]] = [(config, e.train, {"new": e.new})]
        halves = [e.parts(e.new, 2, split) for split in range(splits)]
        for split, (half, rest) in enumerate(halves):
            parts = -(-len(e.original) // len(half))  # so that a part has about as many examples as the half
            both = (e.parts(e.original, parts, split)[0], half)
            runs += [(config, np.concatenate([e.train, added]), {"new": rest}) for added in both]
        usual, *results = (correct["new"] for correct in e.trained(runs))
        for split, (half, rest) in enumerate(halves):
            without = usual[np.isin(e.new, rest)]
            with_original, with_new = results[2 * split : 2 * split + 2]
            rows.append(
                {
                    "model": model,
                    "split": split + 1,
                    "added": len(half),
                    "without": accuracy(without),
                    "with_new": accuracy(with_new),
                    "gain": accuracy_difference(with_new, without),
                    "p": mcnemar(with_new, without),
                    "with_original": accuracy(with_original),
                    "beyond": accuracy_difference(with_new, with_original),
                }
            )
    return e.record(rows=rows)


def retune(experiment: Experiment, grid: Grid | None = None, extensions: int = 3) -> dict[str, Any]:
    """Train every combination of a grid, extend the grid until the best is inside, and estimate the gain.

    The best of many settings on one test set looks better than it is. So beside the gain on the whole new set there
    is an unbiased one: a setting is selected on each random half of the new set and evaluated on the other.
    """
    e, is_vgg = experiment, experiment.config.model.lower().startswith("vgg")
    usual = {name: values for name, values in PAPER_GRID.items() if name != "dropout" or is_vgg}
    ranges = {name: tuple(sorted(values)) for name, values in (grid or usual).items()}
    start = tuple(
        PAPER_START[name] if PAPER_START[name] in values else values[len(values) // 2]
        for name, values in ranges.items()
    )
    results: dict[Values, Correct] = {}
    times: dict[tuple[str, str], int] = {}

    def best_setting(rows: Rows | slice = slice(None)) -> Values:
        """Of equals the one at the fewest ends, then the first."""
        return max(
            sorted(results),
            key=lambda values: (int(results[values]["new"][rows].sum()), -len(grid_edges(ranges, values))),
        )

    while True:
        settings = [values for values in itertools.product(*ranges.values()) if values not in results]
        tests = {"original": e.original, "new": e.new}
        runs = [(_with_setting(e.config, dict(zip(ranges, v, strict=True))), e.train, tests) for v in settings]
        results |= zip(settings, e.trained(runs), strict=True)
        extended = {}
        for name, side in grid_edges(ranges, best_setting()).items():
            values = extended_range(name, ranges[name], side, 2.0 if is_vgg else 1.0)
            if values is not None and times.get((name, side), 0) < extensions:
                times[name, side] = times.get((name, side), 0) + 1
                extended[name] = values
        if not extended:
            break
        ranges |= extended
    best, base = best_setting(), results[start]["new"]
    order = sorted(results, key=lambda values: (values != best, -int(results[values]["new"].sum())))
    p_values = stats.holm(np.array([mcnemar(results[values]["new"], base) for values in order]))
    rows = [
        {
            "values": dict(zip(ranges, values, strict=True)),
            "original": accuracy(results[values]["original"]),
            "new": accuracy(results[values]["new"]),
            "gain": accuracy_difference(results[values]["new"], base),
            "p_holm": float(p),
        }
        for values, p in zip(order, p_values, strict=True)
    ]
    halves = balanced_parts(e.labels[e.new], 2, e.seed, draw=1)
    evaluated = np.zeros_like(base)
    for selecting, evaluating in (halves, halves[::-1]):
        evaluated[evaluating] = results[best_setting(selecting)]["new"][evaluating]
    return e.record(
        settings=rows,
        start=dict(zip(ranges, start, strict=True)),
        fair_gain=accuracy_difference(evaluated, base),
        better=sum(row["p_holm"] < 0.05 and row["gain"].value > 0 for row in rows),
        grid=ranges,
        at_edge=list(grid_edges(ranges, best)),
    )


def _with_setting(config: TrainConfig, setting: dict[str, Any]) -> TrainConfig:
    if "dropout" in setting:
        setting["model_options"] = {**config.model_options, "dropout": setting.pop("dropout")}
    return dataclasses.replace(config, **setting)


def grid_edges(grid: Grid, values: Values) -> dict[str, str]:
    """The settings that are at an end of their range: name to "low" or "high"; a single value has no ends."""
    return {
        name: "low" if value == known[0] else "high"
        for (name, known), value in zip(grid.items(), values, strict=True)
        if len(known) > 1 and value in (known[0], known[-1])
    }


def extended_range(name: str, values: Values, side: str, dropout_limit: float = 1.0) -> Values | None:
    """The range with one more value at a side, or None where the setting has no further values.

    Rates and weight decays continue by the factor between their last two values, dropout by the difference, not
    below 0; where that would reach the limit, the next value is half-way to it.
    """
    end, inner = (values[0], values[1]) if side == "low" else (values[-1], values[-2])
    following = end * end / inner
    if name == "dropout":
        following = max(end + (end - inner), 0.0)
        following = (end + dropout_limit) / 2 if following >= dropout_limit else following
    following = float(f"{following:.12g}")  # 0.4·2 is 0.8, not 0.8000000000000002
    if (following <= 0 and name != "dropout") or following == end or (following < end) != (side == "low"):
        return None
    return (following, *values) if side == "low" else (*values, following)


EXPERIMENTS = {"retune": retune, "partial": part_of_new_set, "crossval": crossval}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("data")
    parser.add_argument("--new", help="the new test set; without it, half of the test set")
    parser.add_argument("--model", default="vgg16", help="architectures, with commas; retune takes one")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of TrainConfig")
    parser.add_argument("--grid", action="append", default=[], metavar="NAME=V1,V2", help="of retune")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    settings = {name: json.loads(value) for name, _, value in (item.partition("=") for item in options.set)}
    experiment = Experiment.open(
        options.data, options.new, TrainConfig(model=options.model, **settings), options.out, options.seed
    )
    grid = {name: tuple(map(float, v.split(","))) for name, _, v in (item.partition("=") for item in options.grid)}
    record = EXPERIMENTS[options.experiment](experiment, **({"grid": grid} if grid else {}))
    files.write_text(options.out / f"{options.experiment}.json", files.json_text(record) + "\n")


if __name__ == "__main__":
    main()
