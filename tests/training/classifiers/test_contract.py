"""Every classifier through one contract."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from hardpan.errors import InputError
from hardpan.training import classifiers
from hardpan.training.examples import Normalization
from hardpan.training.saved import load_model, save_model

CIFAR, DIGITS, VECTORS = (3, 32, 32), (1, 8, 8), (20,)
# Narrow or shallow where a class only differs in size, so that one core gets through in seconds.
SMALL: list[tuple[str, tuple[int, ...], dict[str, object]]] = [
    ("linear", DIGITS, {}),
    ("linear", VECTORS, {}),
    ("mlp", DIGITS, {}),
    ("mlp", VECTORS, {"depth": 2, "dropout": 0.1}),
    ("convnet", CIFAR, {"width": 8}),
    ("convnet", DIGITS, {}),
    ("alexnet", CIFAR, {"width": 64}),
    ("alexnet", DIGITS, {"width": 64}),
    ("alexnet", (1, 28, 28), {"width": 64}),
    ("vgg11", CIFAR, {"width": 16}),
    ("vgg16", DIGITS, {"width": 16, "dropout": 0.5}),
    ("vgg", (1, 28, 28), {"width": 8}),
    ("resnet18", CIFAR, {"width": 8}),
    ("resnet18", DIGITS, {"width": 8}),
    ("resnet18", (3, 65, 65), {"width": 8}),
    ("resnet50", CIFAR, {"width": 8}),
    ("resnet32", CIFAR, {"width": 4}),
    ("resnet20", DIGITS, {}),
    ("wide-resnet-10-1", CIFAR, {}),
    ("wide-resnet-16-2", DIGITS, {"dropout": 0.3}),
]
FAMILY = pytest.mark.parametrize(
    ("name", "shape", "options"), SMALL, ids=[f"{name}-{len(shape)}d-{shape[-1]}" for name, shape, _ in SMALL]
)


def made(name, shape, options, seed=0, n_classes=7) -> nn.Module:
    return classifiers.build(name, input_shape=shape, n_classes=n_classes, seed=seed, **options)


def batch(shape, n=6, seed=0):
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


@FAMILY
def test_gives_one_row_of_logits_an_example_and_gradients_reach_every_parameter(name, shape, options):
    model = made(name, shape, options)
    logits = model(batch(shape))
    assert logits.shape == (6, 7)
    assert logits.dtype == torch.float32
    nn.functional.cross_entropy(logits, torch.arange(6) % 7).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
    # A single weight may sit behind a dead rectifier; a whole layer may not.
    dead = [key for key, parameter in model.named_parameters() if not parameter.grad.any()]
    # A bias before a batch normalisation is taken out again by it.
    assert all(key.endswith("bias") for key in dead), dead


@FAMILY
def test_what_goes_in_reaches_the_logits_before_any_training(name, shape, options):
    # Weights that are too small at first leave the same logits for every example, and training does not get going.
    with torch.no_grad():
        logits = made(name, shape, options)(batch(shape, n=32))
    assert 0.02 < float(logits.std(dim=0).mean()) < 10


@FAMILY
def test_the_seed_alone_decides_the_weights(name, shape, options):
    torch.manual_seed(5)
    first = made(name, shape, options)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(torch.rand(1), drawn), "building drew from torch's own generator"
    torch.manual_seed(99)
    again, other = made(name, shape, options), made(name, shape, options, seed=1)
    assert first.state_dict().keys() == again.state_dict().keys()
    for key, tensor in first.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[key]), key
    assert all(torch.isfinite(tensor).all() for tensor in first.state_dict().values())
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))


@FAMILY
def test_evaluation_does_not_depend_on_the_rest_of_the_batch(name, shape, options):
    model = made(name, shape, options)
    model(batch(shape))  # so that running statistics are not the initial ones
    model.eval().double()  # a hundred layers with statistics of one batch blow rounding up
    x = batch(shape, seed=1).double()
    with torch.no_grad():
        together = model(x)
        alone = torch.cat([model(x[i : i + 1]) for i in range(len(x))])
    torch.testing.assert_close(together, alone)


@FAMILY
def test_channels_last_gives_the_same_logits(name, shape, options):
    if len(shape) != 3:
        return
    model = made(name, shape, options).eval()
    x = batch(shape)
    with torch.no_grad():
        plain = model(x)
        last = model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last))
    torch.testing.assert_close(plain, last, rtol=1e-3, atol=1e-4)


@FAMILY
def test_weights_survive_the_disk_and_fit_no_other_model(name, shape, options, tmp_path):
    model = made(name, shape, options)
    model(batch(shape))
    description = {"model": name, "model_options": options, "input_shape": shape, "n_classes": 7, "seed": 1}
    save_model(tmp_path, model, Normalization(np.zeros(shape[0], "f4"), np.ones(shape[0], "f4")), description)
    with torch.no_grad():
        assert torch.equal(model.eval()(batch(shape)), load_model(tmp_path).model(batch(shape)))
    path = tmp_path / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"n_classes": 8}))
    with pytest.raises(InputError):
        load_model(tmp_path)


@pytest.mark.parametrize(("name", "shape", "options"), {case[0]: case for case in SMALL}.values())
def test_nothing_in_it_looks_at_the_data_to_decide_what_to_do(name, shape, options):
    # A whole graph, with no break for .item() or a branch on a tensor, is what CUDA graphs need as well.
    model = made(name, shape, options).eval()
    captured = torch.fx.symbolic_trace(model)
    with torch.no_grad():
        torch.testing.assert_close(captured(batch(shape, seed=2)), model(batch(shape, seed=2)))


# Published counts: torchvision's for ResNet, those of the common CIFAR implementations for the thin and
# wide forms (0.46, 1.7 and 36.5 million in the papers), and Keras's summary of the CIFAR-10 VGG16.
@pytest.mark.parametrize(
    ("name", "shape", "n_classes", "published"),
    [
        ("resnet18", (3, 224, 224), 1000, 11_689_512),
        ("resnet34", (3, 224, 224), 1000, 21_797_672),
        ("resnet50", (3, 224, 224), 1000, 25_557_032),
        ("resnet101", (3, 224, 224), 1000, 44_549_160),
        ("resnet152", (3, 224, 224), 1000, 60_192_808),
        ("resnet18", CIFAR, 10, 11_173_962),
        ("resnet32", CIFAR, 10, 464_154),
        ("resnet110", CIFAR, 10, 1_727_962),
        ("wide-resnet-28-10", CIFAR, 10, 36_479_194),
        ("vgg16", CIFAR, 10, 14_991_946),
        ("mlp", (784,), 10, 784 * 500 + 500 + 5010),
    ],
)
def test_parameter_counts_are_the_published_ones(name, shape, n_classes, published):
    model = classifiers.build(name, input_shape=shape, n_classes=n_classes)
    assert classifiers.parameter_count(model) == published


def test_every_name_builds():
    for name in classifiers.classifier_names():
        if name in ("wide-resnet-28-10", "resnet101", "resnet152", "resnet110"):
            continue  # built above, and slow
        assert classifiers.parameter_count(classifiers.build(name, input_shape=CIFAR, n_classes=10)) > 0
    assert classifiers.build("Wide_ResNet-10-1", input_shape=CIFAR, n_classes=10)


def test_a_stem_can_be_chosen():
    small = classifiers.build("resnet18", input_shape=(3, 224, 224), n_classes=10, stem="small", width=8)
    large = classifiers.build("resnet18", input_shape=CIFAR, n_classes=10, stem="imagenet", width=8)
    assert small[0][0].stride == (1, 1)
    assert large[0][0].stride == (2, 2)


def test_the_dropout_scale_keeps_the_ratio_between_layers():
    def chances(scale):
        model = classifiers.build("vgg16", input_shape=CIFAR, n_classes=10, dropout=scale, width=8)
        return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]

    assert chances(1.0) == [0.3, 0.4, *[0.4] * 6, 0.5, 0.5]
    assert chances(1.75) == pytest.approx([1.75 * p for p in chances(1.0)])
    assert chances(0.0) == [0.0] * 10


@pytest.mark.parametrize(
    ("name", "shape", "options", "message"),
    [
        ("resnet19", CIFAR, {}, "model 'resnet19' is not known; did you mean resnet1"),
        ("resnet18", VECTORS, {}, "resnet18 takes images (C, H, W) and input_shape is (20,); use linear or mlp"),
        ("resnet18", (3, 3, 3), {}, "resnet18 needs images of at least 4 × 4 pixels; input_shape is (3, 3, 3)"),
        ("alexnet", (3, 224, 224), {}, "alexnet takes images of at most 96 × 96 pixels"),
        ("wide-resnet-27-10", CIFAR, {}, "wide-resnet-27-10: the depth must be 6n + 4"),
        (
            "vgg16",
            CIFAR,
            {"dropout": 2.0},
            "dropout must",
        ),
        ("mlp", CIFAR, {"dropout": 1.0}, "dropout must"),
        ("mlp", CIFAR, {"width": 0}, "width must"),
        ("mlp", CIFAR, {"layers": 3}, "model mlp has no option 'layers'; its options are width, depth, dropout"),
        ("vgg16", CIFAR, {"layers": 11}, "model vgg16 has no option 'layers'; its options are dropout, width"),
        ("linear", CIFAR, {"width": 3}, "model linear has no option 'width'; it has none"),
        ("resnet18", CIFAR, {"stem": "large"}, "stem of resnet18 must be auto, small or imagenet; got 'large'"),
        ("mlp", (3, 32), {}, "input_shape must"),
        ("mlp", (0,), {}, "input_shape must"),
    ],
)
def test_what_cannot_be_built_is_refused_in_one_sentence(name, shape, options, message):
    with pytest.raises(InputError) as caught:
        made(name, shape, options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_classes", [1, 0, True, 2.0])
def test_the_number_of_classes_is_checked(n_classes):
    with pytest.raises(InputError, match=r"\bn_classes\b"):
        classifiers.build("mlp", input_shape=(3,), n_classes=n_classes)


def test_anybodys_factory_can_be_named(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "import torch\n"
        "def small(input_shape, n_classes, width=3):\n"
        "    d = torch.Size(input_shape).numel()\n"
        "    layers = torch.nn.Linear(d, width), torch.nn.Linear(width, n_classes)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), *layers)\n"
        "def wrong(input_shape, n_classes):\n"
        "    return small(input_shape, n_classes + 1)\n"
        "def nothing(input_shape, n_classes):\n"
        "    return 'no module'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = made("my_nets:small", DIGITS, {"width": 5}, seed=4)
    assert model(batch(DIGITS)).shape == (6, 7)
    again = made("my_nets:small", DIGITS, {"width": 5}, seed=4)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    for name, options in [
        ("my_nets:wrong", {}),
        ("my_nets:nothing", {}),
        ("my_nets:absent", {}),
        ("not_there:net", {}),
        ("my_nets:small", {"depth": 3}),
    ]:
        with pytest.raises(InputError, match=name):
            made(name, DIGITS, options)
