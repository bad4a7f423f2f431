"""Ablation: the whole is the whole, parts are scores of parts, and the paper's peaks."""

import numpy as np
import pytest
from tests.confusion.planted import random_probs

from hardpan import confusion
from hardpan.confusion.reports import AblationReport
from hardpan.errors import InputError
from hardpan.pages.confusion import ablation_section


def test_ablation_of_everything_is_everything():
    probs = random_probs(3, 20, 60, 4, dtype=np.float16)
    found = confusion.ablate(probs, correct=np.arange(60) % 3 > 0)
    last = found.variants[-1]
    assert (last.seeds, len(last.epochs)) == (3, 20)
    assert last.tau.value == pytest.approx(1)
    assert last.mean == pytest.approx(confusion.scores(probs).values.mean())
    one = next(item for item in found.variants if item.seeds == 1 and len(item.epochs) == 4)
    direct = confusion.scores(probs, seeds=[0], epochs=[0, 5, 10, 15]).values
    assert one.epochs == (0, 5, 10, 15)
    assert one.mean == pytest.approx(direct.mean())
    assert all(item.counts.sum() == 60 for item in found.variants)
    with pytest.raises(InputError) as caught:
        confusion.ablate(probs, fractions=[0.0])
    assert caught.value.argument == "fractions"
    with pytest.raises(InputError) as caught:
        confusion.ablate(probs, seeds=[4])
    assert caught.value.argument == "seeds"


def test_few_epochs_peak_at_the_first_epochs_entropy_over_their_number():
    # The first epoch knows nothing, later ones all: k epochs give log2(C)/k, the paper's peaks at 2 and 1 bits.
    probs = np.zeros((2, 100, 3, 1000), dtype=np.float16)
    probs[:, 0] = 1 / 1000
    probs[:, 1:, :, 0] = 1
    found = confusion.ablate(probs, fractions=[0.05, 0.1], seeds=[2])
    assert [round(item.mean, 2) for item in found.variants] == [1.99, 1.0]


def test_an_ablation_says_when_nothing_smaller_is_enough():
    alone = ablation_section(AblationReport("p", confusion.ablate(random_probs(1, 1, 40, 4)))).sentences[0]
    assert "1 seed and 1 epoch give" in alone
    assert "no fewer are enough" in alone
    steady = np.repeat(random_probs(1, 1, 40, 4), 6, axis=1)
    assert "1 × 1 are enough" in ablation_section(AblationReport("p", confusion.ablate(steady))).sentences[0]
