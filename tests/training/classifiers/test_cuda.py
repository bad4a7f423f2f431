"""On a GPU: a training step of every classifier as a CUDA graph does what the plain step does.

In double precision: in single, a change of one part in a million of the input moves the weights of vgg11 by 0.05
within six steps, on any device, so that other orders of summation would hide what is compared.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from hardpan import engine
from hardpan.training import classifiers, objectives

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
CASES = [
    ("linear", (20,), {}),
    ("mlp", (1, 28, 28), {}),
    ("convnet", (3, 32, 32), {}),
    ("alexnet", (3, 32, 32), {"dropout": 0.0}),
    ("vgg11", (3, 32, 32), {"dropout": 0.0}),
    ("resnet18", (3, 32, 32), {}),
    ("resnet50", (3, 64, 64), {"width": 16}),
    ("resnet32", (3, 32, 32), {}),
    ("wide-resnet-16-4", (3, 32, 32), {}),
]


@pytest.mark.parametrize(("name", "shape", "options"), CASES, ids=[case[0] for case in CASES])
def test_a_captured_step_is_the_plain_step(name, shape, options):
    device = torch.device("cuda")
    model = classifiers.build(name, input_shape=shape, n_classes=10, **options).to(device, torch.float64)
    objective = objectives.build("groupdro", n_rows=64, groups=[0, 1] * 32, step=0.1, adjustment=1.0)
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randn(64, *shape, generator=generator).to(device, torch.float64) for _ in range(5)]
    labels, groups = torch.arange(64, device=device) % 10, torch.arange(64, device=device) % 2
    ends = []
    for enabled in (False, True):
        trained = copy.deepcopy(model)
        state = objective.init(device)
        for parameter in trained.parameters():
            parameter.grad = torch.zeros_like(parameter)

        def step(x, trained=trained, state=state):
            for parameter in trained.parameters():
                parameter.grad.zero_()
            losses = nn.functional.cross_entropy(trained(x), labels, reduction="none")
            loss, after = objective.update(state, losses, groups)
            loss.backward()
            with torch.no_grad():
                for parameter in trained.parameters():
                    parameter -= 0.01 * parameter.grad
                for key, value in after.items():
                    state[key].copy_(value)

        captured = engine.CapturedStep(step, device, warmup=2, enabled=enabled)
        for x in batches:
            captured(x)
        assert captured.captured == enabled
        ends.append([*trained.parameters(), objectives.group_weights(state)])
    for plain, graph in zip(*ends, strict=True):
        torch.testing.assert_close(graph, plain, rtol=1e-6, atol=1e-6)
