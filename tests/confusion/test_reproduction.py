"""The paper's figures from saved scores: what a device keeps gives scores back, planted findings are found."""

import dataclasses

import numpy as np
import pytest
import torch
from reproductions import confusion_device, confusion_figures, objectives
from tests.confusion.planted import trained_on_digits

from hardpan import confusion, files


def collected(width: int):
    data, labels, split, probs = trained_on_digits(width)
    collector = confusion_device.Collector(labels, split == "train", 10)
    for epoch in range(probs.shape[1]):
        collector.add(torch.from_numpy(probs[:, epoch]))
    return data, probs, collector.arrays()


def test_what_is_kept_gives_the_scores_back():
    _, probs, kept = collected(24)
    assert np.abs(kept["scores"] - confusion.scores(probs).values).max() < 1e-5
    bits = kept["entropy"] * np.log2(10) / confusion_device.STEPS
    assert np.abs(bits[0].mean(axis=0) - confusion.scores(probs).values).max() < 5e-5
    alone = confusion.scores(probs, seeds=[1], epochs=[3]).values
    assert np.abs(bits[2, 3] - alone).max() < 5e-5
    assert np.array_equal(kept["correct"], probs[:, -1].argmax(axis=-1) == kept["labels"])
    assert kept["accuracy"].shape == (3, 8, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("npz")
    for name, width in (("resnet18", 24), ("resnet50", 64), ("vgg16", 48)):
        data, _, kept = collected(width)
        about = {"name": name, "ids": data.ids, "seeds": np.arange(3), "epochs": np.arange(1, 9), "finished": True}
        np.savez(place / f"{name}.npz", **about, **kept, seconds=np.ones(3), config="{}", data="digits")
    _, _, kept = collected(24)
    scores = kept["scores"]
    cut = float(np.quantile(scores, 0.8))
    hard = scores >= cut
    rng = np.random.default_rng(0)
    # Planted: GroupDRO errs more on the easy and less on the hard.
    rates = {"erm": np.where(hard, 0.6, 0.1), "groupdro": np.where(hard, 0.3, 0.3)}
    runs = [(name, seed) for seed in range(2) for name in rates]
    np.savez(
        place / "mitigation.npz",
        name="resnet18",
        ids=data.ids,
        labels=kept["labels"],
        train=kept["train"],
        n_classes=10,
        scores=scores,
        cut=cut,
        objectives=np.array([name for name, _ in runs]),
        seeds=np.array([seed for _, seed in runs]),
        correct=np.stack([rng.random(len(scores)) > rates[name] for name, _ in runs]),
        epochs=np.full(len(runs), 8),
        batches=np.full(len(runs), 64),
        rates=np.full(len(runs), 0.1),
        config="{}",
        command="",
        device="CPU",
        torch="2",
        finished=True,
    )
    return place


def test_figures_tables_and_verdicts(folder, tmp_path):
    models = confusion_figures.load_models(folder)
    assert next(iter(models)) == "resnet18"
    found, drawn = confusion_figures.reproduce(models)
    verdicts = {claim: verdict for claim, _, verdict in found.findings}
    assert verdicts["Score and error go together"] == "as the paper"
    # Three models give a correlation over models no interval, so nothing is stated.
    assert "Models with higher mean confusion have lower accuracy" not in verdicts
    rho = dataclasses.replace(found.confused.rho, value=-0.975)
    ten = dataclasses.replace(found.confused, models=found.confused.models[:1] * 10, rho=rho)
    told = {
        claim: words for claim, words, _ in confusion_figures.findings(dataclasses.replace(found, confused=ten))
    }
    assert "[-0.994, -0.894]" in told["Models with higher mean confusion have lower accuracy"]  # Fisher's z, n = 10
    for figure in (
        "fig2_left",
        "fig2_right",
        "fig3_resnet50",
        "fig4",
        "fig5_1",
        "fig5_3",
        "fig6_1",
        "fig6_3",
    ):
        assert f"confusion_{figure}" in drawn
    text = confusion_figures.page(found)
    assert "objectives.md" in text
    back = files.load(files.save(found, tmp_path / "f.json"))
    assert back.findings == found.findings
    assert confusion_figures._svg(drawn["confusion_fig4"]).startswith("<svg")


def test_objectives_recover_the_planted_changes(folder):
    record = objectives.summarize(folder)
    assert list(record["objectives"]) == ["erm", "groupdro"]
    change = record["objectives"]["groupdro"]["change"]
    assert change["easy"][1] < 0.2 < change["easy"][2]
    assert change["hard"][1] < -0.3 < change["hard"][2]
    assert "GroupDRO lowers the error of the hard band" in objectives.page([record])


def test_models_of_other_examples_are_refused(folder, tmp_path):
    data, _, kept = collected(24)
    for name, ids in (("a", data.ids), ("b", data.ids[::-1])):
        about = {"name": name, "ids": ids, "seeds": np.arange(3), "epochs": np.arange(8), "finished": True}
        np.savez(tmp_path / f"{name}.npz", **about, **kept)
    with pytest.raises(SystemExit, match="examples"):
        confusion_figures.load_models(tmp_path)
    with pytest.raises(SystemExit, match="npz"):
        confusion_figures.load_models(tmp_path / "none")
