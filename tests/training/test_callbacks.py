"""The callbacks inside the real trainers, on models small enough to train in a moment."""

import logging

import numpy as np
import pytest
import torch

from hardpan.predictions import Predictions
from hardpan.predictions.recorder import Recorder
from hardpan.training.callbacks import lightning_callback, trainer_callback

N, D, C, EPOCHS = 60, 4, 3, 3
X = torch.from_numpy(np.random.default_rng(0).normal(size=(N, D)).astype(np.float32))
Y = torch.from_numpy(np.random.default_rng(1).integers(0, C, N))


def recorder(path):
    return Recorder(path, ids=[f"row {row}" for row in range(N)], n_classes=C, labels=Y, split=["train"] * N)


def check(path, after_each_epoch):
    found = Predictions.open(path)
    assert found.epochs == tuple(range(EPOCHS))
    for epoch, probs in enumerate(after_each_epoch):
        assert np.allclose(found.read(0, epoch), probs, atol=1e-3)
    assert not np.allclose(found.read(0, 0), found.read(0, EPOCHS - 1), atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_lightning_records_every_epoch_in_evaluation_mode(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seen = []

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.Sequential(torch.nn.Linear(D, C), torch.nn.Dropout(0.5))

        def forward(self, x):
            return self.layers(x)

        def training_step(self, batch, _):
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.5)

        def on_train_epoch_end(self):
            with torch.no_grad():
                seen.append(torch.softmax(self.layers[0](X), dim=1).numpy())

    data = torch.utils.data.TensorDataset(X, Y)
    first = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(40)), batch_size=16)
    second = torch.utils.data.DataLoader(torch.utils.data.Subset(data, range(40, N)), batch_size=16)
    model = Model()
    with recorder(tmp_path / "run") as out:
        trainer = lightning.Trainer(
            max_epochs=EPOCHS,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
            callbacks=[lightning_callback(out, [first, second])],
        )
        trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=16, shuffle=True))
    assert model.layers[1].training
    check(tmp_path / "run", seen)


@pytest.mark.filterwarnings("ignore")
def test_the_hugging_face_trainer_records_every_epoch(tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.setenv("WANDB_DISABLED", "true")
    seen = []

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.Sequential(torch.nn.Linear(D, C), torch.nn.Dropout(0.5))

        def forward(self, x, labels=None):
            out = self.layers(x)
            loss = None if labels is None else torch.nn.functional.cross_entropy(out, labels)
            return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=out)

    class Watch(transformers.TrainerCallback):
        def on_epoch_end(self, args, state, control, model=None, **_):
            with torch.no_grad():
                seen.append(torch.softmax(model.layers[0](X), dim=1).numpy())

    data = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
    settings = transformers.TrainingArguments(
        str(tmp_path / "out"),
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=16,
        learning_rate=0.1,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        logging_strategy="no",
    )
    with recorder(tmp_path / "run") as out:
        watching = [trainer_callback(out, data, batch_size=16), Watch()]
        transformers.Trainer(Model(), settings, train_dataset=data, callbacks=watching).train()
    check(tmp_path / "run", seen)
