"""What the parts of an audit need and cannot make from features alone: predictions, a flow, votes.

Given ones are read and joined by id; missing ones are trained here, in folders that survive a kill: the same audit
started again goes on where it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan import execution
from hardpan.auditing.evidence import Evidence, FlowEvidence, Model
from hardpan.auditing.planning import AuditPlan, flow_config, one_thread, reduced
from hardpan.auditing.progress import between
from hardpan.data.opening import short_name
from hardpan.errors import HardpanError, InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.flows import Flow

POSTERIOR_OF_TRAIN = 20_000  # a larger training set gets no posteriors of the flow: nothing on the page shows them
SAMPLES = 2000
GALLERY_TEMPERATURES = (0.3, 0.7, 1.0, 1.5)
GALLERY_EACH = 16
ASKING = 0.9  # of the work with a flow that is fitted here; from there on it is asked


def with_given(evidence: Evidence, held: Mapping[str, Predictions]) -> Evidence:
    """Add the predictions and votes that were given to the evidence, or refuse them before anything is begun.

    Args:
        evidence: with settings that name predictions and votes.
        held: predictions that are in memory under these names; the others are paths.
    """
    config = evidence.config
    models = [read_model(name, evidence, held.get(name)) for name in config.predictions]
    votes = read_votes(config.votes, evidence) if config.votes else None
    return dataclasses.replace(evidence, models=tuple(models), votes=votes)


def obtain(evidence: Evidence, plan: AuditPlan, work: Path, progress: Progress) -> Evidence:
    """Add what is trained here, and a flow, to the evidence; what cannot be had is a note: the audit goes on."""
    config, notes, models = evidence.config, list(evidence.notes), list(evidence.models)
    if plan.ensemble:
        models.append(_trained(evidence, plan, work / "predictions", between(progress, 0.0, 0.5)))
    flow = None
    if config.flow not in ("auto", "none"):
        from hardpan import flows

        flow = _flow_evidence(
            flows.load(config.flow),
            evidence,
            f"flow {Path(config.flow).name}",
            between(progress, 0.5, 1.0),
            given=config.flow,
        )
    elif plan.flow_epochs:
        try:
            flow = _fitted(evidence, plan, work / "flow", between(progress, 0.5, 1.0))
        except InputError as error:
            notes.append(f"There is no flow of this dataset: {error}.")
    notes += [
        f"{step.name[0].upper()}{step.name[1:]}: {step.why}."
        for step in plan.steps
        if step.why and step.seconds == 0
    ]
    return dataclasses.replace(evidence, models=tuple(_named_apart(models)), flow=flow, notes=tuple(notes))


def read_model(path: str, evidence: Evidence, held: Predictions | None = None) -> Model:
    """Open predictions, or take those that are held, and join them to the examples; or refuse them."""
    by_order = evidence.config.by_order or (held is not None and not held.has_ids)
    found = (Predictions.open(path) if held is None else held).align(
        evidence.dataset, by_order=by_order, split=evidence.split
    )
    found.last_epoch()
    if found.split is not None:
        trained = int(np.isin(found.rows[found.split == "train"], evidence.split.test).sum())
        if trained:
            raise InputError(
                f"--predictions {path}: was trained on {trained:,} examples of the audit's test part; give "
                "the --seed of its own split, or predictions of a model that never saw them"
            )
    return _model(short_name(path), found, evidence)


def read_votes(path: str, evidence: Evidence) -> NDArray[np.float64]:
    """Votes (n, K) of annotators for examples by id, as rows of the dataset; NaN where there are none."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
    except (OSError, ValueError) as error:
        raise InputError(f"--votes {path}: is not an npz file that can be read ({error})") from error
    n, k = len(evidence.dataset), evidence.dataset.n_classes
    votes = np.asarray(arrays.get("votes", np.zeros(0)), dtype=np.float64)
    if votes.ndim != 2 or votes.shape[1] != k or not np.isfinite(votes).all() or (votes < 0).any():
        raise InputError(
            f"--votes {path}: needs an array votes of shape (n, {k}), counts of at least 0; got {votes.shape}"
        )
    whole = np.full((n, k), np.nan)
    if "ids" in arrays:
        whole[_by_id(f"--votes {path}", arrays["ids"].astype(np.str_), evidence)] = votes
    elif len(votes) == n:
        whole[:] = votes
    elif len(votes) == len(evidence.split.test):
        whole[evidence.split.test] = votes
    else:
        raise InputError(
            f"--votes {path}: has {len(votes):,} rows and no ids; give ids, or one row for each of the {n:,} "
            f"examples or {len(evidence.split.test):,} test examples"
        )
    return whole


def _by_id(what: str, ids: NDArray[np.str_], evidence: Evidence) -> NDArray[np.int64]:
    places = {str(name): row for row, name in enumerate(evidence.dataset.ids)}
    missing = [str(name) for name in ids if str(name) not in places]
    if missing:
        raise InputError(
            f"{what}: {len(missing):,} of its {len(ids):,} ids are not of {evidence.dataset.name}, such as "
            f"{missing[0]!r}; give predictions of this dataset"
        )
    rows = np.array([places[str(name)] for name in ids], dtype=np.int64)
    if len(np.unique(rows)) < len(rows):
        raise InputError(f"{what}: names an id twice; give each example once")
    return rows


def _model(name: str, found: Predictions, evidence: Evidence, **more: Any) -> Model:
    probs = np.full((len(evidence.dataset), evidence.dataset.n_classes), np.nan)
    mean = found.final_probs()
    probs[found.rows] = mean / np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)
    return Model(name, found, found.rows, probs, **more)


def _trained(evidence: Evidence, plan: AuditPlan, place: Path, progress: Progress) -> Model:
    from hardpan.training import TrainConfig, train

    config = evidence.config
    settings = TrainConfig(
        model=plan.ensemble,
        seeds=config.seeds,
        epochs=plan.ensemble_epochs,
        device=config.device,
        augment="none" if plan.ensemble == "linear" else "auto",  # a linear model cannot learn that crops are alike
    )
    with execution.parallel("processes" if plan.in_processes else "threads"):
        made = train(
            reduced(evidence.dataset, evidence, plan.ensemble_rows),
            settings,
            out=place,
            progress=progress,
        )
    found = Predictions.open(made.stores[0]).align(evidence.dataset)
    folders = tuple(run.weights for run in made.runs)
    return _model(plan.ensemble, found, evidence, trained_here=True, weights=folders)


def _fitted(evidence: Evidence, plan: AuditPlan, place: Path, progress: Progress) -> FlowEvidence:
    from hardpan import flows

    if not (place / "flow.json").is_file():
        small = reduced(evidence.dataset, evidence, plan.flow_rows, max(plan.flow_rows, 2000))
        with one_thread():
            fitting = between(progress, 0.0, ASKING)
            flows.fit(small, flow_config(evidence.config, plan.flow_epochs), out=place, progress=fitting)
    # Read back in either case: an audit that goes on says to the last bit what one without a stop says.
    return _flow_evidence(flows.load(place), evidence, "small flow", between(progress, ASKING, 1.0))


def _flow_evidence(flow: Flow, evidence: Evidence, name: str, progress: Progress, given: str = "") -> FlowEvidence:
    from hardpan import flows

    dataset, config, split = evidence.dataset, evidence.config, evidence.split
    if flow.n_classes != dataset.n_classes:
        raise InputError(
            f"--flow {given}: has {flow.n_classes} classes, and {dataset.name} has {dataset.n_classes}; give a "
            "flow of this dataset"
        )
    wanted = {"validation": split.validation, "test": split.test}
    if len(split.train) <= POSTERIOR_OF_TRAIN:
        wanted["train"] = split.train
    posterior = np.full((len(dataset), dataset.n_classes), np.nan)
    asked, work = 0, sum(map(len, wanted.values())) + len(split.test) + SAMPLES
    for part, rows in wanted.items():
        progress(f"asking the flow for {len(rows):,} posteriors of the {part} part", asked / work)
        posterior[rows] = flow.posterior(dataset.x[rows], seed=config.seed)
        asked += len(rows)
    progress("asking the flow for the likelihood of the test part", asked / work)
    nll = flow.nll(dataset.x[split.test], evidence.labels[split.test], seed=config.seed)
    progress("asking the flow for its Bayes errors and samples", (asked + len(split.test)) / work)
    curve = flow.bayes_curve(config.temperatures, rtol=max(config.rtol, 1e-2), seed=config.seed)
    factor = flow.bits_per_dimension(1.0)
    bits = Estimate(
        nll.value * factor,
        nll.stderr * factor,
        nll.low * factor,
        nll.high * factor,
        method="bits a dimension",
        n=nll.n,
    )
    error = flow.bayes_error(rtol=config.rtol, seed=config.seed)
    drawn = flow.sample(SAMPLES, seed=config.seed)[0]
    return FlowEvidence(
        name=name,
        error=error,
        curve_estimates=tuple(curve.estimates),
        temperatures=tuple(curve.temperatures),
        posterior=posterior,
        samples=_cropped(drawn, dataset.x.shape[1:]).reshape(len(drawn), -1),
        nll=nll,
        bits=bits,
        floors=flow.record.floors,
        fitted_rows=int(flow.record.fitted.get("train_rows", 0)),
        gallery=_gallery(flow, error, config.seed) if dataset.x.ndim > 2 else (),
        fitted_here=not given,
        sha256=flows.weights_hash(given) if given else "",
    )


def _gallery(flow: Flow, error: Estimate, seed: int) -> tuple[tuple[float, Estimate, NDArray[np.float32]], ...]:
    """Samples at several temperatures, each with the flow's Bayes error there; ``error`` is that at 1."""
    found = []
    for temperature in GALLERY_TEMPERATURES:
        try:
            images = flow.sample(GALLERY_EACH, temperature=temperature, seed=seed)[0]
        except HardpanError:  # a temperature at which this flow draws nothing finite has no picture
            continue
        here = error if temperature == 1 else flow.bayes_error(temperature, rtol=1e-2, seed=seed)
        found.append((temperature, here, images))
    return tuple(found)


def _cropped(images: NDArray[np.float32], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Samples without the padding around them."""
    if images.shape[1:] == shape:
        return images
    starts = [(images.shape[1 + axis] - shape[axis]) // 2 for axis in (0, 1)]
    return images[:, starts[0] : starts[0] + shape[0], starts[1] : starts[1] + shape[1]]


def _named_apart(models: list[Model]) -> list[Model]:
    counts: dict[str, int] = {}
    found = []
    for model in models:
        counts[model.name] = counts.get(model.name, 0) + 1
        again = counts[model.name]
        found.append(model if again == 1 else dataclasses.replace(model, name=f"{model.name} ({again})"))
    return found
