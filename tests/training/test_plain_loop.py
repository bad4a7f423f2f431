"""Training against a loop of a few lines in plain PyTorch that sees the same examples in the same order."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from hardpan.training import TrainConfig, classifiers, fit_arrays
from hardpan.training.examples import choose_augmentation, crop_draws, examples_on, normalization
from hardpan.training.objectives import AppliedObjective

RATE, DECAY, MOMENTUM, WARMUP, EPOCHS, BATCH = 0.05, 0.02, 0.8, 0.25, 2, 32
SIDE = 16
PAD = 4


def planted(n, seed):
    """Small colour images, a blob a class, under much noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    x = rng.integers(0, 120, (n, SIDE, SIDE, 3), dtype=np.uint8)
    for row, label in enumerate(labels):
        x[row, 4:12, 4:12, label] += 60
    return x, labels


def shifted(image, down, across, mirrored):
    """One image, mirrored or not, cut out of a black frame."""
    moved = image[:, ::-1] if mirrored else image
    framed = np.pad(moved, ((PAD, PAD), (PAD, PAD), (0, 0)))
    # A shift is told in the coordinates of the image as it is stored, so a mirrored one moves the other way.
    left = PAD - across if mirrored else PAD + across
    return framed[PAD + down : PAD + down + SIDE, left : left + SIDE]


@pytest.fixture(autouse=True)
def _one_thread():
    """As training itself has it: two threads sum in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def plain_loop(model, x, labels, wanted, smoothing):
    network = classifiers.build(model, input_shape=(3, SIDE, SIDE), n_classes=3, seed=0)
    network = network.to(memory_format=torch.channels_last)  # else a CPU may sum in another order
    examples = examples_on(x, normalization(x), torch.device("cpu"))

    def seen(images):
        """What the network sees, to the last bit: rectifiers near 0 make a large thing of a small difference."""
        return examples.normalize(torch.from_numpy(images))

    matrices = [item for item in network.parameters() if item.ndim > 1]
    vectors = [item for item in network.parameters() if item.ndim <= 1]
    optimizer = torch.optim.SGD(
        [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=RATE, momentum=MOMENTUM, nesterov=True,
    )  # fmt: skip
    steps = len(x) // BATCH
    rising, total = round(WARMUP * EPOCHS * steps), EPOCHS * steps
    goal = AppliedObjective(TrainConfig(), None, torch.arange(len(x)), seed=0)
    augmentation = choose_augmentation("auto", (3, SIDE, SIDE))
    done = 0
    for epoch in range(EPOCHS):
        network.train()
        order = goal.order(epoch)[: steps * BATCH].numpy()
        drawn = crop_draws(augmentation, len(order), 0, epoch).numpy()
        for start in range(0, len(order), BATCH):
            rows, moves = order[start : start + BATCH], drawn[start : start + BATCH]
            batch = np.stack([shifted(x[row], *move) for row, move in zip(rows, moves, strict=True)])
            after = (done - rising) / (total - rising)
            rate = RATE * (done + 1) / (rising + 1) if done < rising else RATE * (1 + math.cos(math.pi * after)) / 2
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            told = nn.functional.cross_entropy(
                network(seen(batch)), torch.from_numpy(labels[rows]), label_smoothing=smoothing
            )
            told.backward()
            optimizer.step()
            done += 1
    network.eval()
    with torch.no_grad():
        return network(seen(wanted)).softmax(dim=1).numpy()


@pytest.mark.parametrize(("model", "smoothing"), [("convnet", 0.0), ("convnet", 0.1), ("resnet20", 0.0)])
def test_training_is_what_a_plain_loop_does(model, smoothing):
    x, labels = planted(200, seed=0)
    wanted, truth = planted(300, seed=1)
    fit = fit_arrays(
        x, labels, wanted, model=model, seeds=1, epochs=EPOCHS, batch=BATCH, rate=RATE, momentum=MOMENTUM,
        weight_decay=DECAY, warmup=WARMUP, smoothing=smoothing, device="cpu", precision="float32",
    )  # fmt: skip
    expected = plain_loop(model, x, labels, wanted, smoothing)
    assert np.abs(fit.probs[0, -1] - expected).max() < 1e-5
    assert (expected.argmax(axis=1) == truth).mean() > 0.5  # it has learnt something: chance is a third
