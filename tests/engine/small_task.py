"""A small whole task: least squares with a hidden layer and dropout, one thread, on the CPU."""

import torch
from torch import nn

from hardpan import engine
from hardpan.engine import distributed, optimization, seeds


class Regression(engine.Task):
    """Fits y = x·w by two layers; randomness of an epoch depends on its number alone."""

    def __init__(self, *, optimizer="sgd", rate=0.05, epochs=4, steps=8, poison_epoch=None):
        engine_seed = torch.Generator().manual_seed(0)
        self.x = torch.randn(64, 3, generator=engine_seed)
        self.y = self.x @ torch.tensor([1.0, -2.0, 0.5])
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
        self.steps, self.examples_per_step = steps, 8
        table = optimization.rate_table("cosine", rate=rate, steps=epochs * steps, warmup=3)
        self.optimizer = optimization.ScheduledOptimizer(self.model, optimizer, table, ema=0.9)
        self.captured = engine.CapturedStep(self._step, torch.device("cpu"))
        self.total = torch.zeros(())
        self.done = 0
        self.poison_epoch = poison_epoch

    def begin_epoch(self, epoch):
        torch.manual_seed(seeds.derived_seed(0, "noise", epoch))
        self.rows = seeds.seeded_permutation(64, 0, "rows", epoch)
        self.total.zero_()
        self.done = 0
        if epoch == self.poison_epoch:
            self.x[0] = float("nan")

    def _step(self, x, y):
        self.optimizer.zero_gradients()
        loss = (self.model(x)[:, 0] - y).square().mean()
        loss.backward()
        distributed.average_gradients(self.model.parameters())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.total += loss.detach()

    def step(self, index):
        rows = self.rows[index * 8 : index * 8 + 8]
        rows = rows[distributed.rank() :: distributed.world_size()]
        self.captured(self.x[rows], self.y[rows])
        self.done += 1

    def means(self):
        return {"loss": float(self.total) / max(self.done, 1)}

    def end_epoch(self, epoch):
        self.model.eval()
        with torch.no_grad(), self.optimizer.averaged():
            value = float((self.model(self.x)[:, 0] - self.y).square().mean())
        self.model.train()
        return {"validation_loss": value}

    def tensors(self):
        model = {f"model/{name}": item for name, item in self.model.state_dict().items()}
        return model | self.optimizer.tensors()

    def load_tensors(self, tensors):
        model = {k.removeprefix("model/"): v for k, v in tensors.items() if k.startswith("model/")}
        self.model.load_state_dict(model)
        self.optimizer.load_tensors(tensors)

    def weights(self):
        return self.model.state_dict()
