"""Scores of models on the items of a test set, and the readers of files that hold them."""

from hardpan.lazy import exports
from hardpan.outcomes.outcomes import Choices, Outcomes

exports(__name__)
