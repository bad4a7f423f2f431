"""What a training run minimises: plain risk, the worst group's, or the fair baselines with the same groups.

Example:
    >>> import torch
    >>> from hardpan.training import objectives
    >>> objective = objectives.build("reweight", n_rows=4, groups=[0, 0, 0, 1])
    >>> state = objective.init(torch.device("cpu"))
    >>> loss, state = objective.update(state, torch.tensor([3.0, 1.0]), torch.tensor([0, 1]))
    >>> float(loss)
    2.0
"""

from hardpan.training.objectives.pairs import Objective, State, weights
from hardpan.training.objectives.registry import build, names
from hardpan.training.objectives.samplers import shuffled, subsampled, upsampled

__all__ = ["Objective", "State", "build", "names", "shuffled", "subsampled", "upsampled", "weights"]
