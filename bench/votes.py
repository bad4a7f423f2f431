"""Consensus of annotators' votes on sets whose truth is known, beside crowd-kit and cleanlab.

The votes are made up: skills from a uniform distribution, errors uniform over the other classes or, for half of the
annotators, always to the same one; a model with about 80 % of its predictions right.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from bench import harness

PEERS = ("crowd-kit", "cleanlab")
CORES = 1
SETS = {  # examples, annotators, classes, chance that an annotator votes
    "few votes": (2000, 60, 5, 0.04),
    "many votes": (2000, 20, 10, 0.4),
    "two classes": (3000, 30, 2, 0.12),
    "many annotators": (20_000, 300, 20, 0.015),
}


def prepare(examples: int, annotators: int, classes: int, chance: float) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, classes, examples)
    skill = rng.uniform(0.35, 0.98, annotators)
    other = (truth[:, None] + rng.integers(1, classes, (examples, annotators))) % classes
    usual = (truth[:, None] + 1) % classes
    wrong = np.where(np.arange(annotators) % 2, usual, other)
    answers = np.where(rng.random((examples, annotators)) < skill, truth[:, None], wrong)
    answers[rng.random(answers.shape) > chance] = -1
    kept = (answers >= 0).any(axis=1)
    answers, truth = answers[kept], truth[kept]
    logits = rng.normal(size=(len(truth), classes)) + (1.5 + 0.5 * np.log(classes)) * np.eye(classes)[truth]
    probs = np.exp(logits)
    return {"answers": answers, "truth": truth, "probs": probs / probs.sum(axis=1, keepdims=True)}


def ours(given: dict[str, Any]) -> dict[str, Any]:
    from hardpan.stats import consensus

    found = consensus(given["answers"], probs=given["probs"], n_classes=given["probs"].shape[1])
    return {
        item.method: {
            "right": float((item.labels == given["truth"]).mean()),
            "posterior": item.posterior,
            "held back": item.held_back.value if item.held_back else None,
        }
        for item in found
    }


def crowd_kit(given: dict[str, Any]) -> Any:
    import pandas
    from crowdkit.aggregation import DawidSkene

    rows, who = np.nonzero(given["answers"] >= 0)
    votes = pandas.DataFrame({"task": rows, "worker": who, "label": given["answers"][rows, who]})
    found = DawidSkene(n_iter=200, tol=1e-9).fit(votes).probas_
    k = given["probs"].shape[1]
    return found.reindex(index=range(len(given["answers"])), columns=range(k)).fillna(0.0).to_numpy()


def cleanlab(given: dict[str, Any]) -> tuple[Any, Any]:
    import pandas
    from cleanlab.multiannotator import get_label_quality_multiannotator

    votes = pandas.DataFrame(np.where(given["answers"] < 0, np.nan, given["answers"].astype(float)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = get_label_quality_multiannotator(votes, given["probs"], verbose=False)["label_quality"]
    return found["consensus_label"].to_numpy(), found["consensus_quality_score"].to_numpy()


def run() -> list[dict[str, Any]]:
    accuracy, agreement = [], []
    for name, (examples, annotators, classes, chance) in SETS.items():
        given = prepare(examples, annotators, classes, chance)
        mine, peer, crowdlab = (
            harness.measure(functools.partial(work, given), repeats=1, warmup=1)
            for work in (ours, crowd_kit, cleanlab)
        )
        found = mine.output
        accuracy.append(
            {
                "votes": name,
                "per example": round(float((given["answers"] >= 0).sum(axis=1).mean()), 2),
                **{method: found[method]["right"] for method in found},
                **{f"{method}, held back": found[method]["held back"] for method in found},
                "seconds": mine.best,
            }
        )
        off = float(np.abs(found["Dawid–Skene"]["posterior"] - peer.output).max())
        posterior = found["CROWDLAB"]["posterior"]
        same = float((posterior.argmax(axis=1) == crowdlab.output[0]).mean())
        agreement.append(
            {
                "votes": name,
                "Dawid–Skene, largest difference": off,
                "crowd-kit seconds": peer.best,
                "CROWDLAB, same labels": same,
                "largest difference of confidence": float(np.abs(posterior.max(axis=1) - crowdlab.output[1]).max()),
                "cleanlab seconds": crowdlab.best,
                **harness.against(same, at_least=0.995, unit=""),
            }
        )
    notes = [
        "right: consensus labels that equal the truth; held back: one answer per example of three or more, "
        "predicted without it; seconds: all three methods, each fitted twice"
    ]
    return [
        harness.table("Consensus labels by three methods", accuracy, seed=0, notes=notes),
        harness.table("The same methods of crowd-kit and cleanlab", agreement, seed=0),
    ]
