"""Scores of models on the items of a test set, and the readers of files that hold them."""

from hardpan.outcomes.outcomes import Choices, Outcomes

__all__ = ["Choices", "Outcomes"]


def __dir__() -> list[str]:
    return sorted(__all__)
