"""Training refuses what it cannot use before anything runs, and names the argument."""

import numpy as np
import pytest
from tests.refusals import refused

from hardpan import confusion, files, training
from hardpan.data.dataset import Dataset
from hardpan.errors import InputError
from hardpan.predictions import Predictions
from hardpan.training import TrainConfig, classifiers
from hardpan.training.config import with_defaults


@pytest.mark.parametrize(
    "settings",
    [
        {"model": 5},
        {"model": None},
        {"model": "mlp,mlp"},
        {"model": "wide-resnet,wide-resnet-28-10"},
        {"model_options": 3},
        {"clip": -2.0},
    ],
)
def test_settings(settings):
    with refused(next(iter(settings))):
        TrainConfig(**settings)


def test_arguments_of_train(tmp_path):
    out = tmp_path / "run"
    with refused("dataset"):
        training.train(None, out=out)
    with refused("config"):
        training.train("digits", {"epochs": 3}, out=out)
    with refused("out"):
        training.train("digits", out=None)
    with refused("weights"):
        training.train("digits", out=out, weights=5)
    with refused("weights"):
        training.train("digits", out=out, weights="s3://models")
    with pytest.raises(InputError, match=r"^epoch\b.*epochs"):
        training.train("digits", out=out, epoch=3)
    with pytest.raises(InputError, match=r"\bconfig\b"):
        training.fit_arrays(np.zeros((4, 2)), [0, 1, 0, 1], np.zeros((1, 2)), {"epochs": 3})
    assert not list(tmp_path.iterdir())


def test_manifests_and_scores_need_a_path():
    with pytest.raises(InputError, match=r"\bpath\b.*None"):
        confusion.load_subset(None)
    with pytest.raises(InputError, match="path"):
        confusion.load_scores(None)


@pytest.mark.parametrize("part", ["test", "train"])
def test_a_subset_that_leaves_a_group_without_training_examples(tmp_path, part):
    digits = Dataset.open("digits")
    rows = getattr(digits.splits(), part)
    manifest = confusion.subset_of_ids(digits.ids[rows], examples=len(digits)).save(tmp_path / "some.json")
    with pytest.raises(InputError, match=r"some\.json") as caught:
        training.train("digits", model="linear", objective="groupdro", group=manifest, out=tmp_path / "run")
    assert caught.value.argument == "group"
    assert not (tmp_path / "run").exists()


def test_promised_names_are_known():
    promised = "linear,mlp,convnet,alexnet,vgg,resnet18,resnet34,resnet50,resnet101,resnet152"
    small = "resnet32,resnet110,wide-resnet,wide-resnet-28-10,wide_resnet-16-4"
    for name in f"{promised},{small}".split(","):
        classifiers.classifier_option_names(name)
    assert TrainConfig(model="mlp, ResNet18,wide resnet").models == ("mlp", "resnet18", "wide-resnet-28-10")


@pytest.mark.parametrize(
    ("name", "nearest"), [("resnet-18", "resnet18"), ("vgg-16", "vgg16"), ("lenear", "linear")]
)
def test_an_unknown_name_gets_the_nearest_one(name, nearest):
    with pytest.raises(InputError, match=nearest):
        classifiers.classifier_option_names(name)


def test_a_name_like_no_other_gets_the_list():
    with pytest.raises(InputError, match="linear"):
        classifiers.classifier_option_names("gpt")


def test_clipping_can_be_asked_for_and_old_settings_are_read():
    assert with_defaults(TrainConfig(clip=1.0), "resnet18", (3, 32, 32)).clip == 1.0
    assert with_defaults(TrainConfig(), "resnet18", (3, 32, 32)).clip == 0.0
    old = files.to_json(TrainConfig()) | {"clip": 0.0}
    assert files.from_json(old).clip == 0.0


def planted(value):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    x[7, 1] = value
    return Dataset(name="planted", x=x, labels=np.arange(60) % 2, ids=np.array([f"r{i}" for i in range(60)]),
                   class_names=("a", "b"))  # fmt: skip


def test_values_beyond_single_precision(tmp_path):
    with pytest.raises(InputError, match="planted"):
        training.train(planted(-1e300), model="linear", out=tmp_path / "run")
    with pytest.raises(InputError, match=r"^x\b"):
        training.fit_arrays(planted(-1e300).x, np.arange(60) % 2, np.zeros((1, 3)), model="linear")
    assert not list(tmp_path.iterdir())


def test_a_file_address_is_the_local_path(tmp_path):
    made = training.train(
        planted(1e30), model="linear", seeds=1, epochs=1, device="cpu", out=f"file://{tmp_path}/run"
    )
    assert made.stores == (str(tmp_path / "run"),)
    assert made.runs[0].weights == str(tmp_path / "run-models" / "linear" / "seed-0")
    assert Predictions.open(tmp_path / "run").epochs == (1,)
