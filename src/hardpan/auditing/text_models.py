"""The ensemble of cheap text models of an audit: linear models of words and of characters, and naive Bayes."""

from __future__ import annotations

import time
import warnings

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hardpan.auditing.evidence import AuditNote, Evidence
from hardpan.bayes.floors.classifiers import fit_text_model
from hardpan.bayes.floors.model_predictions import model_of
from hardpan.execution.mapping import machine_is_busy
from hardpan.predictions import Predictions

VIEWS = ("words", "characters", "naive Bayes")


def train_text_models(evidence: Evidence, seconds: float) -> None:
    """Fit one model per seed of the settings, each another view of the texts, and predict all examples.

    From the fourth on a view is fitted again, on a bootstrap sample of the training rows.
    """
    config, inputs = evidence.config, evidence.inputs
    assert inputs is not None
    split, rows = evidence.modelled, np.arange(len(evidence.dataset))
    if len(evidence.split.test) > len(split.test):  # a sample is modelled
        rows = np.sort(np.concatenate([split.train, split.validation, split.test]))
    tuned_on = split.validation if len(split.validation) else split.train
    end = time.monotonic() + seconds
    probs: list[NDArray[np.float32]] = []
    for number in range(config.seeds):
        if probs and time.monotonic() > end:
            evidence.notes.append(AuditNote("fewer-networks", {"trained": len(probs), "planned": config.seeds}))
            break
        train, seed = split.train, config.seed + number
        if number >= len(VIEWS):
            first = train[np.unique(evidence.labels[train], return_index=True)[1]]
            drawn = np.random.default_rng([seed, 41]).choice(train, len(train) - len(first))
            train = np.concatenate([first, drawn])
        left = max(1.0, (end - time.monotonic()) / (config.seeds - number))
        with warnings.catch_warnings(), threadpool_limits(limits=1 if machine_is_busy() else None):
            warnings.simplefilter("ignore")  # scikit-learn warns of few iterations
            view = VIEWS[number % len(VIEWS)]
            predict, _ = fit_text_model(inputs.table, train, tuned_on, left, seed, view)
            probs.append(predict(rows).astype(np.float32))
    name = f"ensemble of {len(probs)} text models" if len(probs) > 1 else "text model of words"
    model = model_of(
        name,
        Predictions.from_arrays(np.stack(probs)[:, None], name=name, held_out=False),
        rows,
        len(evidence.dataset),
        evidence.dataset.n_classes,
        evidence.labels,
        trained_here=True,
        held_out=True,
    )
    evidence.models = (*evidence.models, model)
