"""Audits, training and flows on vectors of an encoder: images that only name a row of a table of vectors."""

import numpy as np
import pytest

import hardpan
from hardpan import Dataset

N, D, K = 500, 12, 3
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, K, N)
VECTORS = 4 * np.eye(K, D)[TRUTH] + RNG.normal(size=(N, D))
TEST = np.arange(400, N)
COPIED = TEST[:12]
VECTORS[COPIED] = VECTORS[:12] + 1e-3
TRUTH[COPIED] = TRUTH[:12]
WRONG = np.arange(100, 110)


def look_up(images):
    """The vector of the row that the first two pixels name."""
    return VECTORS[256 * images[:, 0, 0].astype(int) + images[:, 0, 1]]


def named_rows():
    x = RNG.integers(0, 255, (N, 8, 8), dtype=np.uint8)
    x[:, 0, 0], x[:, 0, 1] = np.divmod(np.arange(N), 256)
    labels = TRUTH.copy()
    labels[WRONG] = (labels[WRONG] + 1) % K
    split = np.where(np.arange(N) < 400, "train", "test")
    return Dataset.from_arrays(x, labels, split=split, name="named rows")


@pytest.fixture(scope="module")
def report():
    return hardpan.audit(named_rows(), encoder=look_up, budget=60, ensemble_epochs=3, flow="none")


def test_models_are_trained_on_the_vectors(report):
    names = {entry.name for entry in report.floor.entries if entry.role == "classifier"}
    assert {"linear model", "1-NN"} <= names
    assert any("perceptron" in name for name in names)
    assert report.encoder == "look_up"
    assert report.measures["best_error"].value < 0.1  # guessing errs on two thirds, and pixels know no more


def test_labels_are_checked_by_the_vectors(report):
    first = report.evidence.issues.row[: 2 * len(WRONG)]
    assert np.isin(WRONG, first).all()


def test_copies_are_found_by_meaning_beside_the_pixels(report):
    found = [p for p in report.problems if p.kind == "near-copies" and p.details.get("encoder") == "look_up"]
    assert len(found) == 1
    assert set(COPIED.tolist()) <= set(found[0].rows)
    assert found[0].details["nearest"] < 0.01
    assert found[0].p_value is not None


def test_the_sections_name_the_encoder_and_what_it_may_have_seen(report):
    said = " ".join(sentence for section in report.sections() for sentence in section.sentences)
    assert "look_up" in said
    assert "may contain these test examples" in said


def test_training_and_flows_take_the_vectors(tmp_path):
    from hardpan import flows, training

    data = named_rows().encoded(look_up)
    trained = training.train(data, model="mlp", seeds=1, epochs=1, device="cpu", out=tmp_path / "run")
    probs = training.predict(trained.runs[0].weights, data, device="cpu")
    assert probs.shape == (N, K)
    flow = flows.fit(data, flows.FlowConfig(preset="tiny", epochs=1, device="cpu"))
    assert tuple(flow.input_shape) == (D,)
    assert hardpan.bayes.floor(data, flow=flow, classifiers=()).entries


def test_an_estimator_gets_vectors_and_a_function_gets_images():
    from sklearn.linear_model import LogisticRegression

    from hardpan.predictions.models import estimator_predictions

    data = named_rows().encoded(look_up)
    shapes = []

    def model(images):
        shapes.append(images.shape)
        return np.full((len(images), K), 1 / K)

    settings = {"folds": 0, "group": None, "held_out": False, "seed": 0}
    estimator_predictions(model, data, name="function", **settings)
    assert {shape[1:] for shape in shapes} == {(8, 8)}
    fitted = LogisticRegression().fit(VECTORS[:400], TRUTH[:400])
    predicted = estimator_predictions(fitted, data, name="estimator", **settings)
    assert np.mean(predicted.read(0, predicted.epochs[-1]).argmax(axis=1) == TRUTH) > 0.9
