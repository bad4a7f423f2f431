"""The time of an audit: which steps it trains, and how many seconds each may take."""

from __future__ import annotations

import time
from collections.abc import Mapping

from hardpan.auditing.evidence import AuditStep, Evidence

OVERRUN, OVERRUN_SECONDS = 0.1, 10.0  # so much over the budget, optional steps are left out
AFTERWARDS = 0.25  # of the budget, for what follows the training: the floor, copies, a bundled flow, the page
# Weights of the steps in the budget; what a step leaves is shared by the later ones.
IMAGE_WEIGHTS = {"linear model": 0.5, "networks": 7.0, "out-of-fold": 1.5, "learning curve": 1.0}
TEXT_WEIGHTS = {"linear model": 2.0, "text models": 2.0, "out-of-fold": 3.0, "learning curve": 1.5}
TABLE_WEIGHTS = {
    "linear model": 0.5,
    "boosted trees": 2.5,
    "networks": 3.0,
    "out-of-fold": 2.0,
    "learning curve": 1.5,
}


class Budget:
    """Wall-clock seconds shared by steps: each gets its weight's part of what is left when it begins."""

    def __init__(self, seconds: float, weights: Mapping[str, float]) -> None:
        self._end = time.monotonic() + seconds
        self._latest = self._end + max(OVERRUN_SECONDS, OVERRUN * seconds / (1 - AFTERWARDS))
        self._weights = dict(weights)
        self.planned = {name: seconds * weight / sum(weights.values()) for name, weight in weights.items()}

    def allot(self, name: str) -> float:
        """Seconds for a step that begins now."""
        total = sum(self._weights.values())
        weight = self._weights.pop(name)
        return max(1.0, (self._end - time.monotonic()) * weight / total)

    def is_overrun(self) -> bool:
        """Whether the steps so far took far longer than the budget: optional work is then left out."""
        return time.monotonic() > self._latest


def plan_budget(evidence: Evidence) -> tuple[Budget, tuple[AuditStep, ...]]:
    """What will be trained, and how many seconds each step may take."""
    config, images = evidence.config, evidence.is_images
    weights = dict(IMAGE_WEIGHTS if images else TABLE_WEIGHTS)
    ensemble = "networks"
    if evidence.dataset.is_texts:
        weights, ensemble = dict(TEXT_WEIGHTS), "text models"
        if evidence.dataset.x.shape[1]:  # columns beside the texts
            weights["boosted trees"] = TABLE_WEIGHTS["boosted trees"]
    skipped = {}
    usable = evidence.inputs is not None and len(evidence.inputs.test) > 0
    if config.ensemble == "none" or not usable:
        skipped = dict.fromkeys(weights, "not-requested" if usable else "no-test")
        weights = {}
    elif config.predictions or evidence.models:
        skipped[ensemble] = "predictions"
        weights.pop(ensemble)
    elif not evidence.has_torch and "networks" in weights:
        skipped["networks"] = "no-torch"
        weights.pop("networks")
        if images:
            weights["extra trees"] = 3.0
    if config.flow == "auto":
        evidence.dataset.require_vectors("a flow")
        if evidence.has_torch and usable:
            weights["flow"] = max(2.0, 0.5 * sum(weights.values()))
        else:
            skipped["flow"] = "no-torch" if usable else "no-test"
    budget = Budget((1 - AFTERWARDS) * config.budget, weights)
    steps = [AuditStep(name, seconds) for name, seconds in budget.planned.items()]
    return budget, (*steps, *(AuditStep(name, 0.0, skipped=why) for name, why in skipped.items()))
