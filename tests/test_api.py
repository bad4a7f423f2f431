"""The lines a user writes, as the documentation writes them; audits are in tests/auditing."""

import inspect
from dataclasses import is_dataclass
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

import hardpan as hp

RNG = np.random.default_rng(0)
LABELS = np.arange(240) % 3
PROBS = (
    RNG.dirichlet(np.ones(3), 240) * 0.4
    + 0.6 * np.eye(3)[np.where(RNG.random(240) < 0.1, RNG.integers(0, 3, 240), LABELS)]
)


@pytest.fixture(scope="module")
def frame():
    x = RNG.normal(size=(240, 3)) + LABELS[:, None]
    columns = {f"f{k}": x[:, k] for k in range(3)}
    return pd.DataFrame(
        {"id": [f"p{k:03d}" for k in range(240)], **columns, "diagnosis": np.array(["a", "b", "c"])[LABELS]}
    )


@pytest.fixture(scope="module")
def data(frame, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "patients.csv"
    frame.to_csv(path, index=False)
    return hp.Dataset.open(path, label="diagnosis", drop=["id"])


@pytest.fixture(scope="module")
def outcomes():
    skill, difficulty = np.linspace(-1, 2, 8), RNG.normal(size=120)
    right = RNG.random((8, 120)) < 1 / (1 + np.exp(difficulty - skill[:, None]))
    groups = {"task": ["x", "y"] * 60}
    return hp.Outcomes.from_arrays(right, models=[f"model-{name}" for name in "abcdefgh"], groups=groups)


def test_datasets(data):
    assert (data.n_classes, data.class_names) == (3, ("a", "b", "c"))
    again = hp.Dataset.from_arrays(data.x, data.labels)
    assert len(again.splits().test) == 48
    assert len(data.select(np.arange(10))) == 10


def test_predictions(data, tmp_path):
    with hp.Recorder(tmp_path / "run", data) as recorder:
        for seed in range(2):
            recorder.record(PROBS, np.arange(240), seed=seed, epoch=0)
    predictions = hp.Predictions.open(tmp_path / "run")
    assert predictions.seeds == (0, 1)
    assert len(predictions.align(data)) == 240
    by_order = hp.Predictions.from_arrays(PROBS, labels=LABELS).align(data, by_order=True)
    assert by_order.ids.tolist() == data.ids.tolist()


def test_confusion():
    stack = np.stack([PROBS, PROBS[:, [0, 1, 2]] * 0.9 + 0.1 / 3])[:, None]
    predictions = hp.Predictions.from_arrays(stack, labels=LABELS)
    scores = hp.confusion.scores(predictions, stderr=True)
    assert hp.confusion.bands(scores, predictions) is not None
    assert len(hp.confusion.subset(scores, fraction=0.1).ids) == 24
    assert len(hp.confusion.label_issues(predictions)) >= 0
    assert hp.confusion.compare_scores(predictions).headline
    assert hp.confusion.transfer(predictions, predictions) is not None
    with hp.parallel(backend="threads", workers=1):
        assert np.array_equal(hp.confusion.scores(predictions).values, scores.values)


def test_the_floor(data):
    means = RNG.normal(size=(3, 4))
    assert 0 < hp.bayes.gaussian(means, np.eye(4), [0.2, 0.3, 0.5], temperature=0.8).value < 0.7
    votes = RNG.multinomial(5, PROBS)
    config = hp.bayes.FloorConfig(classifiers=())
    floor = hp.bayes.floor(
        data, predictions=[hp.Predictions.from_arrays(PROBS, ids=data.ids)], votes=votes, config=config
    )
    assert floor.headline
    assert 0 <= floor.bracket.high <= 1


def test_one_test_set(outcomes):
    assert hp.leaderboard.rank(outcomes, group="task").headline
    assert hp.leaderboard.compare(outcomes, "model-a", "model-b").headline
    baseline, candidate = (outcomes.select(models=[name]) for name in ("model-a", "model-b"))
    assert hp.gate(baseline, candidate, margin=0.01).verdict in ("pass", "fail", "cannot tell")
    assert hp.leaderboard.items(outcomes, model="2pl").headline
    assert hp.leaderboard.shorten(outcomes, items=20).headline


def test_two_test_sets(tmp_path):
    rows = ["model,dataset,correct,total"]
    for k in range(6):
        rows += [f"m{k},original,{700 + 30 * k},1000", f"m{k},new,{600 + 35 * k},1000"]
    (tmp_path / "counts.csv").write_text("\n".join(rows) + "\n")
    comparison = hp.testbed.compare(tmp_path / "counts.csv", bootstrap=200)
    assert comparison.mean_gap.value > 0
    assert comparison.line("probit").slope.value > 0
    assert len(comparison.rows) == 6


def test_a_sealed_test_set(tmp_path):
    labels = np.arange(1000) % 2
    book = hp.ledger.create(tmp_path / "book", labels, key=tmp_path / "owner.key")
    book.submit(labels, name="baseline")
    assert book.verify().ok


def test_every_interval_is_at_95_percent_and_every_seed_is_0():
    """Unless something else is asked for, in every public function and Config."""
    modules = [value for name in hp.__all__ if isinstance(value := getattr(hp, name), ModuleType)]
    defaults = [
        (f"{module.__name__}.{name}", parameter.name, parameter.default)
        for module in modules
        for name in getattr(module, "__all__", vars(module))
        if inspect.isfunction(value := getattr(module, name)) or is_dataclass(value)
        for parameter in inspect.signature(value).parameters.values()
        if parameter.name in ("confidence", "seed") and parameter.default not in (parameter.empty, None)
    ]
    assert len(defaults) > 60
    assert [one for one in defaults if one[2] != {"confidence": 0.95, "seed": 0}[one[1]]] == []
