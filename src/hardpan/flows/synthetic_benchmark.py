"""Synthetic benchmarks: any number of examples from a flow, with a chosen Bayes error and every true posterior.

Files are npz, float32 or 8 bits; the cost of 8 bits is estimated.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import arguments, files, stats
from hardpan.arguments import one_of
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import no_progress
from hardpan.files import file_hash, read_npz, record, replacing
from hardpan.flows.config import FORMATS, SynthesizeConfig
from hardpan.flows.flow import Flow, flow_fingerprint, weights_hash
from hardpan.flows.scaling import quantize_to_bytes
from hardpan.predictions import Predictions
from hardpan.report import Report

MANIFEST, DATA = "manifest.json", "data.npz"
UNFINISHED = ".parts"
BLOCK = 4096  # examples that are drawn into one file; part of what a seed means, so it stays as it is
CHECK_CONFIDENCE = 0.9999
ROUNDING_DRAWS = 4  # points in the cell of a rounded image


@record(eq=False, dropped=("other_temperatures",))
class Benchmark(Report):
    """The manifest of a synthetic benchmark.

    Attributes:
        config: the settings.
        flow: name of the flow, and the dataset that it was fitted to.
        flow_sha256: hash of its weights.
        temperature: the temperature that was drawn at.
        bayes_error: the exact Bayes error of the distribution that was drawn from.
        observed: error of the Bayes-optimal classifier on these very examples.
        rounding: how much the floor rises at most by rounding to 8 bits; None for float32 files.
        class_names: the K names.
        data: the file of the examples, for ``hardpan.Dataset.open``.
        ids: (N,) ids of the examples as they are read from there.
        labels: (N,) the classes that were drawn.
        split: (N,) "train" or "test".
        posterior: (N, K) the true p(y | x) of every example, before any rounding.
        files: sha256 of every file, by name.
    """

    config: SynthesizeConfig
    flow: str
    flow_sha256: str
    temperature: float
    bayes_error: Estimate
    observed: Estimate
    rounding: Estimate | None
    class_names: tuple[str, ...]
    data: str
    ids: NDArray[np.str_]
    labels: NDArray[np.int64]
    split: NDArray[np.str_]
    posterior: NDArray[np.float64]
    files: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The manifest without its arrays, which are in the folder."""
        empty = {name: getattr(self, name)[:0] for name in ("ids", "labels", "split", "posterior")}
        return files.json_text(files.to_json(dataclasses.replace(self, **empty)))

    @property
    def test(self) -> NDArray[np.int64]:
        """Row numbers of the test set."""
        return np.flatnonzero(self.split == "test")

    def test_probabilities(self, predictions: Any, *, by_order: bool = False) -> NDArray[Any]:
        """Probabilities of the test examples in the order of the benchmark; the mean over seeds, last epoch.

        Args:
            predictions: of the test examples or of all, in any form that ``Predictions.open`` opens.
            by_order: join rows without ids by their position.
        """
        source, predictions = predictions, Predictions.open(predictions)
        if by_order and len(predictions) == len(self.test):
            return np.asarray(predictions.align(self.ids[self.test], by_order=True).final_probs())
        aligned = predictions.align(self.ids, by_order=by_order)
        row_of = np.full(len(self.ids), -1, dtype=np.int64)
        row_of[aligned.rows] = np.arange(len(aligned))
        test = row_of[self.test]
        if (test < 0).any():
            missing = self.ids[self.test[test < 0]]
            raise InputError(
                f"{source}: has no prediction for {len(missing):,} test examples, such as {str(missing[0])!r}"
            )
        return np.asarray(aligned.final_probs()[test])

    @property
    def floor(self) -> Estimate:
        """The floor of the files: the exact one; for 8-bit files, that plus what rounding costs at most."""
        if self.rounding is None:
            return self.bayes_error
        low, cost = self.bayes_error, self.rounding
        return Estimate(
            low.value + cost.value,
            cost.stderr,
            low.low,
            low.high + cost.high,
            method="exact Bayes error before rounding, and what rounding costs at most",
            n=cost.n,
        )


def synthesize(
    flow: Flow,
    out: str | os.PathLike[str],
    config: SynthesizeConfig | None = None,
    *,
    source: str = "",
    progress: Progress | None = None,
    **changes: Any,
) -> Benchmark:
    """Draw a benchmark from a flow and write it, with its manifest, into a folder.

    The temperature is the one with the chosen exact Bayes error. As it is written, the Bayes-optimal classifier is
    run on the examples: its error count must agree with the exact value (99.99 % Clopper–Pearson interval), else
    nothing is kept. An interrupted call resumes, to the same bytes.

    Args:
        flow: where the examples come from.
        out: the folder; an unfinished benchmark of the same settings in it is finished, a finished one is read.
        config: the settings.
        source: name or folder of the flow, for the manifest and its hash.
        progress: called with a step and the fraction done.
        changes: settings to be changed in ``config``.

    Returns:
        The manifest.
    """
    config = dataclasses.replace(config or SynthesizeConfig(), **changes)
    one_of("format", config.format, FORMATS)
    levels = None if config.format == "npz" else flow.grey_levels
    if config.format != "npz" and levels is None:
        raise InputError("npz8 is for images; this flow draws feature vectors: use npz", argument="format")
    folder = arguments.as_path("out", out)
    settings = dataclasses.asdict(config) | {"flow": weights_hash(source) if source else flow_fingerprint(flow)}
    if (done := _read_finished_benchmark(folder, settings)) is not None:
        return done
    temperature = flow.chosen_temperature(config.bayes_error, config.temperature)
    exact = flow.bayes_error(temperature, rtol=1e-4, seed=config.seed)
    unfinished, report = _benchmark_blocks_folder(folder, settings), progress or no_progress
    try:
        for number in range(count := -(-config.n // BLOCK)):
            report(f"drawing examples {number * BLOCK:,} of {config.n:,}", 0.85 * number / count)
            _draw_sample_block(flow, unfinished, number, temperature, config)
        blocks = [(block["posterior"], block["y"]) for block in _read_benchmark_blocks(unfinished)]
        posterior, labels = (np.concatenate(column) for column in zip(*blocks, strict=True))
        with _discard_broken_benchmark(unfinished):
            observed = check_benchmark_error(posterior, labels, exact)
        cost = None
        if levels is not None:
            report("measuring what rounding costs", 0.87)
            first = next(_read_benchmark_blocks(unfinished))
            cost = benchmark_rounding_cost(
                flow, first["x"], first["posterior"], temperature=temperature, seed=config.seed
            )
        report("writing the files", 0.9)
        n_test = min(max(round(config.test_fraction * config.n), 1), config.n - 1)
        split = np.repeat(["train", "test"], (config.n - n_test, n_test))

        def examples() -> Iterator[NDArray[Any]]:
            for block in _read_benchmark_blocks(unfinished):
                yield block["x"] if levels is None else quantize_to_bytes(block["x"], levels)

        ids = _write_benchmark_npz(folder / DATA, examples, labels, split, flow.class_names)
        name, fitted = Path(source).name or "flow", flow.record.fitted.get("dataset")
        name += f" (fitted to {fitted})" if fitted else ""
        result = Benchmark(
            config, name, settings["flow"], temperature, exact, observed, cost,
            flow.class_names, DATA, ids, labels, split, posterior, {DATA: file_hash(folder / DATA)},
        )  # fmt: skip
        files.save(result, folder / MANIFEST)
        shutil.rmtree(unfinished)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"{folder}: cannot be written ({reason}); repeat the call to resume") from error
    return result


def read_benchmark(folder: str | os.PathLike[str]) -> Benchmark:
    """Read the manifest of a benchmark that :func:`synthesize` wrote."""
    path = arguments.as_path("folder", folder) / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder}: has no {MANIFEST}; create one with: hardpan flow synthesize FLOW --out {folder}"
        )
    result = files.load(path)
    if not isinstance(result, Benchmark):
        raise InputError(f"{path}: is a {type(result).__name__}, not a synthetic benchmark")
    return result


def check_benchmark_error(posterior: NDArray[np.float64], labels: NDArray[np.int64], exact: Estimate) -> Estimate:
    """Compare a sample with its exact Bayes error: the errors of argmax p(y | x) must agree with it.

    Args:
        posterior: (N, K) true posteriors.
        labels: (N,) the classes that were drawn.
        exact: the exact Bayes error.

    Returns:
        The error of the Bayes-optimal classifier on the sample, with its 99.99 % interval.

    Raises:
        HardpanError: they do not agree, so the flow, its sampler or its posterior is broken.
    """
    wrong, n = int((posterior.argmax(axis=1) != labels).sum()), len(labels)
    method = "Bayes-optimal classifier on the examples, Clopper–Pearson"
    result = stats.share(wrong, n, CHECK_CONFIDENCE, method=method)
    if exact.low > result.high or exact.high < result.low:
        raise HardpanError(
            f"the Bayes-optimal classifier is wrong on {wrong:,} of {n:,} examples "
            f"({100 * result.low:.3g} to {100 * result.high:.3g} %, 99.99 % interval), which is not the exact "
            f"Bayes error {100 * exact.value:.3g} %; the flow is numerically broken at this temperature: nothing "
            "was written; choose a smaller error"
        )
    return result


def _read_finished_benchmark(folder: Path, settings: Mapping[str, Any]) -> Benchmark | None:
    """The benchmark of these settings, where it is there already; another one is not written over."""
    if not (folder / MANIFEST).is_file():
        return None
    result = read_benchmark(folder)
    if dataclasses.asdict(result.config) | {"flow": result.flow_sha256} != dict(settings):
        raise InputError(f"{folder}: has another benchmark; choose another folder, or remove this one")
    for name, expected in result.files.items():
        path = folder / name
        if not path.is_file() or file_hash(path) != expected:
            raise InputError(f"{path}: is not what {MANIFEST} says; remove {folder} and make it again")
    return result


def _benchmark_blocks_folder(folder: Path, settings: Mapping[str, Any]) -> Path:
    """The folder of blocks that are drawn already; blocks of other settings are removed."""
    blocks, stored = folder / UNFINISHED, folder / UNFINISHED / "settings.json"
    current = json.dumps(settings, sort_keys=True)
    try:
        if stored.is_file():
            if stored.read_text() == current:
                return blocks
            shutil.rmtree(blocks)
        blocks.mkdir(parents=True, exist_ok=True)
        files.write_text(stored, current)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return blocks


@contextlib.contextmanager
def _discard_broken_benchmark(unfinished: Path) -> Iterator[None]:
    """Remove the blocks if the flow is broken at this temperature: there is nothing to resume."""
    try:
        yield
    except HardpanError:
        shutil.rmtree(unfinished)
        with contextlib.suppress(OSError):  # other files are in the folder
            unfinished.parent.rmdir()
        raise


def _draw_sample_block(
    flow: Flow, unfinished: Path, number: int, temperature: float, config: SynthesizeConfig
) -> None:
    path = unfinished / f"{number:06d}.npz"
    if path.is_file():
        return
    # A seed for each block that no other seed and block have.
    state = np.random.SeedSequence([config.seed, number]).generate_state(1, np.uint64)
    seed, rows = int(state[0] >> np.uint64(1)), min(BLOCK, config.n - number * BLOCK)
    with _discard_broken_benchmark(unfinished):
        sample = flow.sample_with_posterior(rows, temperature=temperature, seed=seed)
    with files.replacing(path) as partial, partial.open("wb") as stream:
        np.savez(stream, x=sample.x, y=sample.y, posterior=sample.posterior)


def _read_benchmark_blocks(unfinished: Path) -> Iterator[dict[str, NDArray[Any]]]:
    for path in sorted(unfinished.glob("[0-9]*[0-9].npz")):
        try:
            stored = read_npz(path)
            block = {name: stored[name] for name in ("x", "y", "posterior")}
        except (InputError, KeyError) as error:
            raise InputError(f"{path}: is damaged; remove it and run the same command again to resume") from error
        yield block


def benchmark_rounding_cost(
    flow: Flow,
    x: NDArray[np.float32],
    posterior: NDArray[np.float64],
    *,
    temperature: float,
    seed: int = 0,
) -> Estimate:
    """How much higher the floor of the rounded files is, at most.

    A classifier of the rounded image x₈ averages the joint density over the cell that was rounded away:
    d(x₈) = argmax_y mean_u π_y p_y(x₈ + u), u uniform. Its error exceeds the exact one by
    mean(max_y p(y | x) − p(d(x₈) | x)) over draws of x. No classifier of x₈ can be better than the best, so the
    floor of the files lies between the exact Bayes error and it plus this number.

    Args:
        flow: where the examples came from.
        x: (N, ...) examples in level units, not rounded.
        posterior: (N, K) their true posteriors.
        temperature: what they were drawn at.
        seed: of the noise.

    Returns:
        The excess, with its standard error over the N examples.
    """
    levels = flow.grey_levels or 1
    rounded = quantize_to_bytes(x, levels).astype(np.float32)
    scale = 256 if levels == 1 else 1
    joint = np.full((len(x), flow.n_classes), -np.inf)
    for number in range(ROUNDING_DRAWS):
        noise = np.random.default_rng([seed, number]).random(x.shape, dtype=np.float32)
        result = flow.log_joint(((rounded + noise) / scale).astype(np.float32), temperature=temperature)
        joint = np.logaddexp(joint, result)
    excess = posterior.max(axis=1) - posterior[np.arange(len(x)), joint.argmax(axis=1)]
    return stats.mean(
        excess,
        least=0.0,
        method=f"excess error of the flow's classifier on rounded images, {ROUNDING_DRAWS} points per cell",
        seed=seed,
    )


def _write_benchmark_npz(
    path: Path,
    blocks: Callable[[], Iterator[NDArray[Any]]],
    labels: NDArray[np.int64],
    split: NDArray[np.str_],
    class_names: tuple[str, ...],
) -> NDArray[np.str_]:
    """Write examples without holding all of them, and give the ids of the examples: train rows come first."""
    ids = np.array([f"s{row:08d}" for row in range(len(labels))])
    with replacing(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:

        def member(name: str) -> IO[bytes]:
            # A fixed date: the same draw gives the same bytes.
            return archive.open(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), "w", force_zip64=True)

        for name in ("train", "test"):
            in_split, start = split == name, 0
            with member(f"x_{name}") as stream:
                for block in blocks():
                    rows = block[in_split[start : start + len(block)]]
                    if in_split[: start + len(block)].sum() == len(rows) > 0:  # the first rows of this split
                        shape = (int(in_split.sum()), *rows.shape[1:])
                        header = {"descr": rows.dtype.str, "fortran_order": False, "shape": shape}
                        np.lib.format.write_array_header_2_0(stream, header)
                    stream.write(np.ascontiguousarray(rows).tobytes())
                    start += len(block)
            with member(f"y_{name}") as stream:
                np.lib.format.write_array(stream, labels[in_split], allow_pickle=False)
        for name, array in {"class_names": np.array(class_names), "ids": ids}.items():
            with member(name) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
    return ids
