"""The loop: a resumed run is the uninterrupted one to the last bit; it stops where it should and says why."""

import pytest
import torch
from tests.engine.small_task import Regression
from tests.refusals import refused

from hardpan import engine
from hardpan.errors import InputError


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Interrupted(Exception):
    """Stands for whatever ends a process between two lines of code."""


class Dying(Regression):
    def __init__(self, dies_at, **settings):
        super().__init__(**settings)
        self.dies_at, self.counted = dies_at, 0

    def step(self, index):
        if self.counted == self.dies_at:
            raise Interrupted
        self.counted += 1
        super().step(index)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "adam"])
def test_a_run_resumed_after_every_interruption_equals_the_uninterrupted_one(tmp_path, optimizer):
    whole = Regression(optimizer=optimizer)
    expected = engine.run_epochs(whole, 4)
    for dies_at in (11, 5, 0, 12, 8):
        with pytest.raises(Interrupted):
            engine.run_epochs(Dying(dies_at, optimizer=optimizer), 4, folder=tmp_path)
    resumed = Regression(optimizer=optimizer)
    history = engine.run_epochs(resumed, 4, folder=tmp_path)
    assert history.resumed_at == 3
    assert history.epochs == expected.epochs
    assert same(resumed.tensors(), whole.tensors())


def test_a_finished_run_is_given_back_and_not_run_again(tmp_path):
    first = engine.run_epochs(Regression(), 4, folder=tmp_path)
    second = engine.run_epochs(Dying(0), 4, folder=tmp_path)
    assert second.epochs == first.epochs
    assert second.resumed_at == 4


def test_training_learns():
    history = engine.run_epochs(Regression(epochs=30), 30)
    assert history.epochs[-1]["validation_loss"] < 0.1 * history.epochs[0]["validation_loss"]


def test_nan_stops_with_the_last_good_checkpoint(tmp_path):
    told = []
    with pytest.raises(engine.Diverged, match=r"\bnan\b\D*3\b"):
        engine.run_epochs(
            Regression(poison_epoch=2),
            4,
            folder=tmp_path,
            progress=lambda line, share: told.append(line),
        )
    # The message counts as progress does: the last epoch that was told of as done is the one before.
    assert "epoch 2/4" in told[-1]
    kept = engine.load_checkpoint(tmp_path)
    assert len(kept.state["history"]) == 2
    assert all(torch.isfinite(item).all() for item in kept.tensors.values())


class Worsening(Regression):
    def end_epoch(self, epoch):
        return {"validation_loss": [3.0, 1.0, 2.0, 1.0, 4.0, 0.0][epoch]}


@pytest.mark.parametrize("cut", [None, 1, 2, 3])
def test_early_stop_keeps_the_best_epoch_also_when_interrupted(tmp_path, cut):
    config = {"epochs": 6, "monitor": "validation_loss", "patience": 3}
    if cut is not None:

        class Cut(Worsening):
            def begin_epoch(self, epoch):
                if epoch == cut + 1:
                    raise Interrupted
                super().begin_epoch(epoch)

        with pytest.raises(Interrupted):
            engine.run_epochs(Cut(epochs=6), **config, folder=tmp_path)
    task = Worsening(epochs=6)
    history = engine.run_epochs(task, **config, folder=tmp_path)
    assert (history.best_epoch, len(history.epochs), history.stopped) == (1, 5, "patience")
    two_epochs = Worsening(epochs=6)
    engine.run_epochs(two_epochs, 2)
    assert same(history.best_weights, two_epochs.weights())
    again = engine.run_epochs(Dying(0), **config, folder=tmp_path)
    assert (again.best_epoch, len(again.epochs), again.stopped) == (1, 5, "patience")


def test_other_settings_are_refused(tmp_path):
    settings = {"rate": 0.1, "drops": (0.5, 0.75)}
    engine.run_epochs(Regression(), 1, folder=tmp_path, settings=settings)
    engine.run_epochs(Regression(), 1, folder=tmp_path, settings=settings)
    with pytest.raises(InputError, match=r"rate\W+0\.1\b"):
        engine.run_epochs(Regression(), 1, folder=tmp_path, settings=settings | {"rate": 0.2})


def test_progress_rises_to_one_and_names_what_a_person_wants():
    told = []
    engine.run_epochs(Regression(), 4, progress=lambda text, share: told.append((text, share)), label="a: ")
    assert [share for _, share in told] == [0.25, 0.5, 0.75, 1.0]
    assert told[-1][0].startswith("a: epoch 4/4, ")
    assert all(word in told[0][0] for word in ("examples/s", "loss ", "validation loss ", " left"))


@pytest.mark.parametrize("bad", [{"epochs": 0}, {"epochs": 1, "patience": -1}])
def test_impossible_lengths_are_refused(bad):
    with refused(list(bad)[-1]):
        engine.run_epochs(Regression(), **bad)


def test_an_unknown_monitor_is_refused():
    with refused("monitor"):
        engine.run_epochs(Regression(), 1, monitor="nll")


class Counted(engine.Task):
    """Takes no time of its own; monitors its number of steps from the second half of its budget on."""

    steps, examples_per_step = 4, 1

    def __init__(self, steps, seconds=0.0):
        self.budget = engine.LoopBudget(steps, seconds)

    def step(self, index):
        self.budget.step += 1

    def end_epoch(self, epoch):
        return {"loss": self.budget.step} if self.budget.fraction > 0.5 else {}

    def weights(self):
        return {"step": torch.tensor(self.budget.step)}


def test_a_budget_of_steps_ends_a_run_within_an_epoch():
    task = Counted(10)
    history = engine.run_epochs(task, 100, monitor="loss")
    assert (task.budget.step, history.stopped) == (10, "time")
    assert history.epochs == [{}, {"loss": 8}, {"loss": 10}]
    assert (history.best_epoch, int(history.best_weights["step"])) == (1, 8)


def test_a_budget_of_seconds_ends_a_run_that_has_steps_left(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr("hardpan.engine.loop.time.monotonic", lambda: next(now))
    task = Counted(10**6, seconds=30.0)
    history = engine.run_epochs(task, 100)
    assert history.stopped == "time"
    assert 0 < task.budget.step < 30
