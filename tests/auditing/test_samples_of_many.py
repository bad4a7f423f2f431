"""Datasets too large for models: these use a sample, copies are searched everywhere, images are not copied."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hardpan.auditing import networks, running
from hardpan.auditing.evidence import AuditConfig
from hardpan.auditing.near_copies import turned_copies
from hardpan.bayes.floors.repeats import equal_inputs
from hardpan.data.dataset import Dataset


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (900, 6, 6)).astype(np.uint8)
    labels = np.arange(900) % 3
    labels[:2] = 3, 3  # a class of two examples, both in train
    x[880:885] = x[:5]  # copies of training images
    x[885:890] = np.rot90(x[5:10], axes=(1, 2))
    split = np.array(["train"] * 600 + ["validation"] * 100 + ["test"] * 200)
    return Dataset.from_arrays(x, labels, split=split, class_names=("a", "b", "c", "d"))


def test_models_get_a_sample_and_copies_are_searched_in_all(images, monkeypatch):
    whole = running._gather_evidence(images, AuditConfig())
    monkeypatch.setattr(running, "MOST_IMAGES", 90)
    evidence = running._gather_evidence(images, AuditConfig())
    assert [len(rows) for rows in evidence.parts.values()] == [600, 100, 200]
    sample = evidence.modelled
    assert len(sample.train) in (60, 61, 62, 63, 64)
    assert (len(sample.validation), len(sample.test)) == (10, 20)
    for part, rows in evidence.parts.items():
        assert np.isin(getattr(sample, part), rows).all()
    assert set(images.labels[sample.train]) == {0, 1, 2, 3}
    assert np.isin(evidence.inputs.test, sample.test).all()
    assert evidence.inputs.copied.tolist() == whole.inputs.copied.tolist() == list(range(880, 885))
    assert turned_copies(evidence).tolist() == list(range(885, 890))
    assert whole.notes == []
    assert [(note.code, note.details) for note in evidence.notes] == [("sampled", {"rows": 90, "of": 900})]


def test_the_budget_decides_how_many_rows_of_a_table_models_get():
    rng = np.random.default_rng(0)
    table = Dataset.from_arrays(rng.normal(size=(6000, 4)), np.arange(6000) % 2)
    short = running._gather_evidence(table, AuditConfig(budget=0.5))
    assert [(note.code, note.details) for note in short.notes] == [("sampled", {"rows": 5000, "of": 6000})]
    assert len(short.modelled.train) + len(short.modelled.validation) + len(short.modelled.test) in (
        5000,
        5001,
        5002,
    )
    assert running._gather_evidence(table, AuditConfig(budget=60)).notes == []


def test_equal_images_are_those_with_equal_pixels(images):
    flat = images.x.reshape(len(images), -1)
    _, expected = np.unique(flat, axis=0, return_inverse=True)
    group = equal_inputs(images.x).group
    assert (group[:, None] == group).tolist() == (expected[:, None] == expected).tolist()


@pytest.mark.parametrize("shape", [(50, 6, 6), (50, 6, 6, 3), (50, 4)])
def test_examples_scaled_when_needed_are_those_scaled_ahead(shape, monkeypatch):
    x = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    labels, train, rows = np.arange(50) % 2, np.arange(30), np.array([7, 3, 49])

    def examples() -> torch.Tensor:
        made = networks.NetworkData
        data = made.of_images(x, labels, 2, train) if len(shape) > 2 else made.of_features(x, labels, 2)
        return networks._Examples(data, torch.device("cpu"))[rows]

    ahead = examples()
    monkeypatch.setattr(networks, "SCALED_AHEAD", 10)
    torch.testing.assert_close(examples(), ahead, rtol=0, atol=0)
    if len(shape) > 2:
        scaled = (x - x[:30].mean()) / x[:30].std()
        expected = torch.from_numpy(scaled.reshape(50, 6, 6, -1)[rows]).permute(0, 3, 1, 2).float()
        torch.testing.assert_close(ahead, expected)
