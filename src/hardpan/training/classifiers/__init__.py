"""Classifiers by name, from logistic regression to transformers, with weights decided by a seed.

Example:
    >>> from hardpan.training import classifiers
    >>> model = classifiers.build("mlp", input_shape=(1, 8, 8), n_classes=10, seed=0)
    >>> classifiers.parameter_count(model)
    37510
"""

from hardpan.training.classifiers.registry import build, names, option_names, parameter_count

__all__ = ["build", "names", "option_names", "parameter_count"]
