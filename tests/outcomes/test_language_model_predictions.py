"""Log-probabilities of choices as predictions: confusion scores work on language models."""

from pathlib import Path

import numpy as np
import pytest
from tests.outcomes.logs import choice_row, text_rows, write_lm_eval

from hardpan import Outcomes, Predictions, confusion
from hardpan.errors import InputError


def test_confusion_scores_of_language_models(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    logprobs = rng.normal(-5, 2, size=(3, 20, 4))
    right = rng.integers(0, 4, 20)
    for model in range(3):
        rows = [choice_row(doc, logprobs[model, doc].tolist(), int(right[doc])) for doc in range(20)]
        write_lm_eval(tmp_path / f"m{model}", "quiz", rows)
    weights = np.exp(logprobs)
    expected = weights / weights.sum(axis=2, keepdims=True)
    for source in (tmp_path, Outcomes.open(tmp_path)):
        predictions = Predictions.open(source)
        np.testing.assert_allclose(predictions.to_array()[:, 0], expected, rtol=1e-4)
        np.testing.assert_array_equal(predictions.labels, right)
    assert predictions.models == ("m0", "m1", "m2")
    np.testing.assert_array_equal(predictions.outcomes().scores, Outcomes.open(tmp_path).scores)
    scores = confusion.scores(predictions)
    mean = expected.mean(axis=0)
    entropy = -(mean * np.log(mean)).sum(axis=1)
    assert np.corrcoef(scores.values, entropy)[0, 1] > 0.5


def test_logs_without_choices_are_refused(tmp_path: Path) -> None:
    path = write_lm_eval(tmp_path / "m", "gsm", text_rows(0, "3", "3", {"none": "3"}))
    with pytest.raises(InputError, match="outcomes"):
        Predictions.open(path)
