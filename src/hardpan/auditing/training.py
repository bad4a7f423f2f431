"""What an audit trains within its budget: classifiers, out-of-fold predictions, a learning curve, a flow."""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardpan.auditing.evidence import USABLE, AuditNote, AuditStep, Evidence, FlowView
from hardpan.bayes.floors.classifiers import CLASSIFIERS, fit_classifier
from hardpan.bayes.floors.error_estimates import Floats, Labels
from hardpan.bayes.floors.flow import FlowEvidence, flow_evidence, flow_fits_dataset
from hardpan.bayes.floors.inputs import FloorInputs, standardised
from hardpan.bayes.floors.model_predictions import model_of
from hardpan.bayes.floors.neighbours import k_nearest
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.execution import Progress
from hardpan.execution.mapping import between
from hardpan.predictions import Predictions

if TYPE_CHECKING:
    from hardpan.auditing.networks import NetworkData, TrainedNetwork

FOLDS = 3
FLIP_QUERIES, FLIP_REFERENCES = 300, 3000
FLIP_LOSS = 0.1  # accuracy that 1-NN may lose on mirrored images before mirroring counts as changing the class
TREE_SHARE = 0.25  # of the time of a fold, for extra trees beside the network
SIZES = (8, 4, 2)  # the learning curve has n/8, n/4, n/2 and n
ALL_ROWS = 20_000  # up to so many examples the ensemble predicts all of them, beyond only validation and test
MOMENTS = 6  # at which an ensemble's predictions are recorded
BUNDLED_SHARE = 0.05  # of the budget that evaluating a bundled flow may take
FLOW_PASSES = 6  # over its rows: validation, test, likelihood, and room for the samples on the page
FEWEST_FLOW_ROWS = 100
FLOW_EPOCHS = 36
OPTIONAL = ("out-of-fold", "learning curve", "flow")  # steps that are left out when earlier ones took far too long
OVERRUN, OVERRUN_SECONDS = 0.1, 10.0  # so much over the time for training
AFTERWARDS = 0.25  # of the budget, for what follows the training: the floor, copies, a bundled flow, the page
# Weights of the steps in the budget; what a step leaves is shared by the later ones.
IMAGE_WEIGHTS = {"linear model": 0.5, "networks": 7.0, "out-of-fold": 1.5, "learning curve": 1.0}
TABLE_WEIGHTS = {
    "linear model": 0.5,
    "boosted trees": 2.5,
    "networks": 3.0,
    "out-of-fold": 2.0,
    "learning curve": 1.5,
}


class Budget:
    """Wall-clock seconds shared by steps: each gets its weight's part of what is left when it begins."""

    def __init__(self, seconds: float, weights: dict[str, float]) -> None:
        self._end = time.monotonic() + seconds
        self._weights = dict(weights)
        self.planned = {name: seconds * weight / sum(weights.values()) for name, weight in weights.items()}

    def allot(self, name: str) -> float:
        """Seconds for a step that begins now."""
        total = sum(self._weights.values())
        weight = self._weights.pop(name)
        return max(1.0, (self._end - time.monotonic()) * weight / total)

    def overrun(self) -> float:
        """Seconds beyond the end of the budget; negative before it."""
        return time.monotonic() - self._end


def plan(evidence: Evidence) -> tuple[Budget, tuple[AuditStep, ...]]:
    """What will be trained, and how many seconds each step may take."""
    config, images = evidence.config, evidence.is_images
    weights = dict(IMAGE_WEIGHTS if images else TABLE_WEIGHTS)
    skipped = {}
    usable = evidence.inputs is not None and len(evidence.inputs.test) > 0
    if config.ensemble == "none" or not usable:
        skipped = dict.fromkeys(weights, "not-requested" if usable else "no-test")
        weights = {}
    elif config.predictions or evidence.models:
        skipped["networks"] = "predictions"
        weights.pop("networks")
    elif not torch_installed():
        skipped["networks"] = "no-torch"
        weights.pop("networks")
        if images:
            weights["extra trees"] = 3.0
    if config.flow == "auto":
        if torch_installed() and usable:
            weights["flow"] = max(2.0, 0.5 * sum(weights.values()))
        else:
            skipped["flow"] = "no-torch" if usable else "no-test"
    budget = Budget((1 - AFTERWARDS) * config.budget, weights)
    steps = [AuditStep(name, seconds) for name, seconds in budget.planned.items()]
    return budget, (*steps, *(AuditStep(name, 0.0, skipped=why) for name, why in skipped.items()))


def _late(evidence: Evidence, budget: Budget) -> bool:
    """Whether the steps so far took far longer than the budget: optional work is then left out."""
    return budget.overrun() > max(OVERRUN_SECONDS, OVERRUN * evidence.config.budget)


def _train_all(evidence: Evidence, budget: Budget, work: Path, progress: Progress) -> FlowEvidence | None:
    """Run the planned steps in order; the evidence gets models, out-of-fold predictions and the learning curve."""
    inputs = evidence.inputs
    flow = None
    names = list(budget.planned)
    for number, name in enumerate(names):
        assert inputs is not None
        if name in OPTIONAL and _late(evidence, budget):
            evidence.steps.append(AuditStep(name, budget.planned[name], skipped="no-time"))
            evidence.notes.append(AuditNote("skipped", {"step": name, "why": "no-time"}))
            continue
        seconds = budget.allot(name)
        progress(f"{name} (up to {seconds:.0f} s)", number / len(names))
        start = time.monotonic()
        if name in CLASSIFIERS:
            split = inputs.split
            item = fit_classifier(
                name,
                inputs.table,
                split.train,
                split.validation,
                inputs.test,
                seconds=seconds,
                seed=evidence.config.seed,
            )
            evidence.fitted = (*evidence.fitted, item)
        elif name == "networks":
            _ensemble(evidence, inputs, seconds, work)
        elif name == "out-of-fold":
            _out_of_fold(evidence, inputs, seconds)
        elif name == "learning curve":
            _learning_curve(evidence, inputs, seconds)
        elif name == "flow":
            flow = _fitted_flow(evidence, seconds, work / "flow", progress)
        took = time.monotonic() - start
        evidence.steps.append(AuditStep(name, budget.planned[name], took))
    return flow


def train(
    evidence: Evidence, work: Path, tell: Progress, on_plan: Callable[[tuple[AuditStep, ...]], None] | None
) -> tuple[FlowEvidence | None, FlowView | None]:
    """Plan and train; what the flow says that was passed, is bundled or was fitted, if there is one."""
    budget, steps = plan(evidence)
    if on_plan is not None:
        on_plan(steps)
    evidence.steps = [step for step in steps if step.skipped]
    evidence.notes += [
        AuditNote("skipped", {"step": step.name, "why": step.skipped})
        for step in evidence.steps
        if step.skipped == "no-torch"
    ]
    # A flow that cannot be read is refused before anything is trained.
    passed = None if evidence.config.flow in ("none", "auto", "bundled") else _passed_flow(evidence)
    flow = _train_all(evidence, budget, work, between(tell, 0.02, 0.7))
    passed = passed or _passed_flow(evidence)
    if passed is not None and evidence.config.flow == "bundled" and _late(evidence, budget):
        evidence.notes.append(AuditNote("skipped", {"step": "bundled flow", "why": "no-time"}))
        passed = None
    if passed is None and flow is None:
        return None, None
    from hardpan import flows
    from hardpan.engine.devices import torch_threads_for_load

    with torch_threads_for_load():
        if passed is None:
            return flow, _flow_view(evidence, flows.load(work / "flow"), "", None)
        model, source, rows = passed
        flow = flow_evidence(
            model,
            evidence.dataset,
            evidence.labels,
            evidence.modelled,
            name=f"flow {Path(source).name}",
            most_rows=rows,
            seed=evidence.config.seed,
            progress=between(tell, 0.7, 0.75),
        )
        return flow, _flow_view(evidence, *passed)


def torch_installed() -> bool:
    """Whether networks and flows can be trained."""
    return importlib.util.find_spec("torch") is not None


def keeps_class_when_mirrored(x: NDArray[Any], labels: Labels, train: Labels, validation: Labels) -> bool:
    """Whether mirrored images are still nearest to images of their class: then training may mirror them.

    Compares 1-NN accuracy on 300 validation images as they are and mirrored, against 3,000 training images.
    """
    if x.ndim < 3 or len(validation) < 20:
        return False
    references, queries = train[:FLIP_REFERENCES], validation[:FLIP_QUERIES]
    flat = x[references].reshape(len(references), -1).astype(np.float32)
    accuracy = []
    for images in (x[queries], x[queries][:, :, ::-1]):
        nearest = k_nearest(flat, images.reshape(len(queries), -1).astype(np.float32), 1)[0][:, 0]
        accuracy.append(float((labels[references][nearest] == labels[queries]).mean()))
    return accuracy[1] >= accuracy[0] - FLIP_LOSS


def network_data(evidence: Evidence, inputs: FloorInputs) -> NetworkData:
    """Images, or standardised features, scaled once; mirrored images only where that keeps the class."""
    from hardpan.auditing import networks

    if evidence.network_data is None:
        x, split, k = evidence.dataset.x, inputs.split, evidence.dataset.n_classes
        if evidence.is_images:
            flip = keeps_class_when_mirrored(x, evidence.labels, split.train, split.validation)
            evidence.network_data = networks.of_images(x, evidence.labels, k, split.train, flip=flip)
        else:
            evidence.network_data = networks.of_features(inputs.table.scaled, evidence.labels, k)
    return evidence.network_data


def _ensemble(evidence: Evidence, inputs: FloorInputs, seconds: float, work: Path) -> None:
    """Networks of several seeds, each with an equal part of the time that is left; finished ones are read back."""
    from hardpan.auditing import networks

    config, split = evidence.config, inputs.split
    data = network_data(evidence, inputs)
    rows = np.sort(np.concatenate([split.validation, split.test]))
    if len(evidence.dataset) <= ALL_ROWS:
        rows = np.arange(len(evidence.dataset))
    networks.start_up()
    end = time.monotonic() + seconds
    trained: list[TrainedNetwork] = []
    for number in range(config.seeds):
        path = work / f"network-{number}"
        if trained and time.monotonic() > end and not config.ensemble_epochs:
            evidence.notes.append(AuditNote("fewer-networks", {"trained": len(trained), "planned": config.seeds}))
            break
        one = networks.load_state(path)
        if one is None or one.probs.shape[1] != len(rows):
            left = max(1.0, (end - time.monotonic()) / (config.seeds - number))
            seed = config.seed + 1000 * number
            one = _trained_network(
                evidence, data, split.train, rows, left, validation=split.validation, moments=MOMENTS, seed=seed
            )
            networks.save_state(one, path)
        trained.append(one)
    probs = np.stack([one.probs for one in trained])
    kind = "convolutional networks" if data.is_images else "perceptrons"
    name = f"ensemble of {len(trained)} {kind}" if len(trained) > 1 else kind[:-1]
    recorded = Predictions.from_arrays(probs, name=name, held_out=False)
    model = model_of(
        name,
        recorded,
        rows,
        len(evidence.dataset),
        evidence.dataset.n_classes,
        evidence.labels,
        trained_here=True,
        held_out=True,
        weights=tuple(str(work / f"network-{number}") for number in range(len(trained))),
    )
    evidence.models = (*evidence.models, model)
    epochs = [one.epochs for one in trained]
    if not config.ensemble_epochs and max(epochs) < networks.MOST_EPOCHS - 1:
        evidence.notes.append(AuditNote("epochs", {"low": min(epochs), "high": max(epochs)}))


def _trained_network(
    evidence: Evidence,
    data: NetworkData,
    train: Labels,
    rows: Labels,
    seconds: float,
    *,
    validation: Labels,
    **options: int,
) -> TrainedNetwork:
    from hardpan.auditing import networks
    from hardpan.engine.devices import torch_threads_for_load

    config = evidence.config
    with torch_threads_for_load(fixed=bool(config.ensemble_epochs)):
        return networks.train_network(
            data,
            train,
            validation,
            rows,
            seconds=seconds,
            epochs=config.ensemble_epochs,
            device=config.device,
            **options,
        )


def _quick_model(evidence: Evidence) -> str:
    """The classifier that is fitted again and again: of a table the one with the lowest validation error."""
    if evidence.is_images or not evidence.fitted:
        return "extra trees" if evidence.is_images else "boosted trees"
    return min(evidence.fitted, key=lambda item: item.validation_error).name


def _fold_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the audit's quick model, trained on ``train`` and tuned on ``validation``."""
    seed = evidence.config.seed
    if evidence.is_images and torch_installed():
        data = network_data(evidence, inputs)
        one = _trained_network(evidence, data, train, rows, seconds, validation=validation, seed=seed)
        return np.asarray(one.probs[-1], dtype=np.float64)
    name = _quick_model(evidence)
    return fit_classifier(name, inputs.table, train, validation, rows, seconds=seconds, seed=seed).probs


def _out_of_fold(evidence: Evidence, inputs: FloorInputs, seconds: float) -> None:
    """Predictions of every training and validation example by a model that was not fitted or tuned on it.

    Equal inputs, or groups that the user names, are kept in one fold: a copy would reveal the label of an example.
    """
    train, validation, labels = inputs.split.train, inputs.split.validation, evidence.labels
    order = np.random.default_rng([evidence.config.seed, 51]).permutation(int(inputs.group.max()) + 1)
    fold = order[inputs.group] % FOLDS
    probs = np.zeros((len(evidence.dataset), evidence.dataset.n_classes))
    end = time.monotonic() + seconds
    for number in range(FOLDS):
        left = max(1.0, (end - time.monotonic()) / (FOLDS - number))
        fitted, tuned = (rows[fold[rows] != number] for rows in (train, validation))
        rows = np.concatenate([part[fold[part] == number] for part in (train, validation)])
        if len(rows) and len(np.unique(labels[fitted])) > 1:
            probs[rows] = _mean_probs(evidence, inputs, fitted, tuned, rows, left)
    evidence.out_of_fold = probs


def _mean_probs(
    evidence: Evidence, inputs: FloorInputs, train: Labels, validation: Labels, rows: Labels, seconds: float
) -> Floats:
    """Predictions of ``rows`` by the quick model; of images the mean with extra trees, of those that are good.

    A network that had too little time is left out: it differs from every label, or from none.
    """
    if not evidence.is_images or not torch_installed():
        return _fold_probs(evidence, inputs, train, validation, rows, seconds)
    n, both, seed = len(rows), np.concatenate([rows, validation]), evidence.config.seed
    trees = fit_classifier(
        "extra trees", inputs.table, train, validation, both, seconds=TREE_SHARE * seconds, seed=seed
    )
    network = _fold_probs(evidence, inputs, train, validation, both, (1 - TREE_SHARE) * seconds)
    candidates, truth = [trees.probs, network], evidence.labels[validation]
    errors = [float((p[n:].argmax(axis=1) != truth).mean()) if len(truth) else 0.0 for p in candidates]
    usable = [p[:n] for p, error in zip(candidates, errors, strict=True) if error <= USABLE * min(errors) + 1e-9]
    return np.asarray(np.mean(usable, axis=0))


def _learning_curve(evidence: Evidence, inputs: FloorInputs, seconds: float) -> None:
    """Which test examples the quick model gets right after training on n/8, n/4, n/2 and n examples."""
    train, test = inputs.split.train, inputs.test
    order = np.random.default_rng([evidence.config.seed, 61]).permutation(train)
    truth = evidence.labels[test]
    sizes = [size for divisor in SIZES if (size := len(train) // divisor) >= 2 * evidence.dataset.n_classes]
    if not len(test) or not sizes:
        return
    correct: dict[int, NDArray[np.bool_]] = {}
    end = time.monotonic() + seconds
    total = sum(sizes) + len(train)
    for size in (*sizes, len(train)):
        rows = order[:size]
        if len(np.unique(evidence.labels[rows])) < 2:
            continue
        left = max(1.0, (end - time.monotonic()) * size / total)
        total -= size
        validation = inputs.split.validation
        correct[size] = _fold_probs(evidence, inputs, rows, validation, test, left).argmax(axis=1) == truth
    evidence.correct_by_size = correct
    network = evidence.is_images and torch_installed()
    evidence.curve_model = "one convolutional network" if network else _quick_model(evidence)


def _fitted_flow(evidence: Evidence, seconds: float, folder: Path, progress: Progress) -> FlowEvidence | None:
    from hardpan import flows
    from hardpan.flows import FlowConfig

    config, inputs = evidence.config, evidence.inputs
    assert inputs is not None
    try:
        if not (folder / "flow.json").is_file():
            epochs, rows = _flow_size(evidence, seconds)
            settings = FlowConfig(preset="tiny", epochs=epochs, seed=config.seed, device=config.device)
            flows.fit(_reduced(evidence, rows), settings, out=folder, progress=progress)
        return flow_evidence(
            flows.load(folder),
            evidence.dataset,
            evidence.labels,
            evidence.modelled,
            name="small flow",
            seed=config.seed,
        )
    except InputError as error:
        evidence.notes.append(AuditNote("no-flow", {"reason": str(error)}))
        return None


def _flow_size(evidence: Evidence, seconds: float) -> tuple[int, int]:
    """Epochs and training rows that about fill the time, from the time of one epoch on 256 rows."""
    from hardpan import flows
    from hardpan.flows import FlowConfig

    config, n = evidence.config, len(evidence.modelled.train)
    if config.flow_epochs:
        return config.flow_epochs, n
    trial = min(256, n)
    start = time.monotonic()
    flows.fit(
        _reduced(evidence, trial), FlowConfig(preset="tiny", epochs=1, seed=config.seed, device=config.device)
    )
    per_row = max(1e-5, (time.monotonic() - start) / trial / 2)  # half of a first epoch is start-up
    rows = int(np.clip(0.8 * seconds / (per_row * FLOW_EPOCHS), min(n, 500), n))
    return int(np.clip(0.8 * seconds / (per_row * rows), 3, FLOW_EPOCHS)), rows


def _reduced(evidence: Evidence, rows: int) -> Any:
    """The dataset with at most so many training rows, every class kept."""
    split = evidence.modelled
    names = np.full(len(evidence.dataset), "validation")
    names[split.train], names[split.test] = "train", "test"
    mixed = np.random.default_rng([evidence.config.seed, 7]).permutation(split.train)
    first = np.unique(evidence.labels[mixed], return_index=True)[1]
    rest = np.setdiff1d(np.arange(len(mixed)), first)
    train = mixed[np.concatenate([first, rest[: max(0, rows - len(first))]])]
    subset = np.sort(np.concatenate([train, split.validation[: max(rows, 2000)], split.test]))
    return dataclasses.replace(evidence.dataset.select(subset), split=names[subset], labels=evidence.labels[subset])


def _passed_flow(evidence: Evidence) -> tuple[Any, str, int | None] | None:
    """The flow that the settings name, or a bundled flow of this dataset: flow, source, rows to evaluate."""
    config, dataset = evidence.config, evidence.dataset
    if config.flow in ("none", "auto") or evidence.inputs is None or not len(evidence.inputs.test):
        return None
    if config.flow != "bundled":
        from hardpan import flows

        return flows.load(config.flow), config.flow, None
    if not torch_installed() or not evidence.is_images:
        return None
    from hardpan import flows
    from hardpan.engine.devices import torch_threads_for_load
    from hardpan.flows import zoo

    if dataset.name not in zoo.bundled_flow_names():
        return None
    flow = flows.load(dataset.name)
    if not flow_fits_dataset(flow, dataset):
        return None
    some = evidence.split.test[:32]
    with torch_threads_for_load():
        flow.posterior(dataset.x[some[:4]])
        start = time.monotonic()
        flow.posterior(dataset.x[some])
        per_row = (time.monotonic() - start) / len(some)
    most = int(BUNDLED_SHARE * config.budget / max(per_row, 1e-6) / FLOW_PASSES)
    if len(dataset) <= most:
        return flow, dataset.name, None
    if most < FEWEST_FLOW_ROWS:
        evidence.notes.append(AuditNote("skipped", {"step": "bundled flow", "why": "no-time"}))
        return None
    return flow, dataset.name, most


def _flow_view(evidence: Evidence, flow: Any, source: str, rows: int | None) -> FlowView:
    """The Bayes error of a flow against temperature, and its likelihood."""
    from hardpan import flows

    config, dataset, test = evidence.config, evidence.dataset, evidence.modelled.test[:rows]
    curve = flow.bayes_curve(config.temperatures, rtol=1e-2, seed=config.seed)
    nll = flow.nll(dataset.x[test], evidence.labels[test], seed=config.seed)
    factor = flow.bits_per_dimension(1.0)
    ends = (nll.value * factor, nll.stderr * factor, nll.low * factor, nll.high * factor)
    bits = Estimate(*ends, method="bits per dimension", n=nll.n)
    sha256 = flows.weights_hash(source) if source else ""
    return FlowView(tuple(curve.temperatures), tuple(curve.estimates), bits, sha256)


def predictor(evidence: Evidence, number: int) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """A function from new examples to probabilities, by network ``number`` of the trained ensemble."""
    from hardpan.auditing import networks

    inputs = evidence.inputs
    model = next((item for item in evidence.models if item.weights), None)
    assert inputs is not None
    assert model is not None
    one = networks.load_state(Path(model.weights[number]))
    assert one is not None
    data, train, own = network_data(evidence, inputs), inputs.split.train, evidence.dataset.x

    def predict(x: NDArray[Any]) -> NDArray[np.float32]:
        if own.ndim == 2:  # features of new examples are standardised with the old ones
            x = standardised(np.concatenate([own, x]), train)[len(own) :]
        return networks.predict(data, one.state, x)

    return predict
