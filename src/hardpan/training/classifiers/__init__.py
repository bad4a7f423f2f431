"""Classifiers by name, from logistic regression to wide residual nets, with weights decided by a seed.

Example:
    >>> from hardpan.training import classifiers
    >>> model = classifiers.build("mlp", input_shape=(1, 8, 8), n_classes=10, seed=0)
    >>> classifiers.parameter_count(model)
    37510
"""

from __future__ import annotations

import difflib
import inspect
import re
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from hardpan.arguments import whole_number
from hardpan.errors import InputError
from hardpan.lazy import imported, is_import_name
from hardpan.training.classifiers import plain, residual
from hardpan.training.classifiers.plain import InputShape, draw_initial_weights
from hardpan.training.config import TrainConfig

__all__ = ["build", "classifier_names", "classifier_option_names", "parameter_count"]

_Maker = Callable[..., nn.Module]  # (shape, n_classes, *, options)

_MAKERS: dict[str, _Maker] = {
    "linear": plain.linear,
    "mlp": plain.mlp,
    "convnet": plain.convnet,
    "alexnet": plain.alexnet,
    "vgg": partial(plain.vgg, layers=16),
    **{f"vgg{layers}": partial(plain.vgg, layers=layers) for layers in plain.VGG_BLOCKS},
    **{
        f"resnet{layers}": partial(residual.resnet, layers=layers)
        for layers in (*residual.BASIC, *residual.BOTTLENECK)
    },
    **{f"resnet{layers}": partial(residual.thin_resnet, layers=layers) for layers in residual.THIN},
    "wide-resnet-16-4": partial(residual.wide_resnet, depth=16, widening=4),
    "wide-resnet-28-10": partial(residual.wide_resnet, depth=28, widening=10),
}
_WIDE = re.compile(r"wide-resnet-(\d{1,3})-(\d{1,3})")
_BUILDING = threading.Lock()  # a foreign factory draws from torch's one generator


def classifier_names() -> tuple[str, ...]:
    """The names that :func:`build` knows, besides ``wide-resnet-D-W`` and ``module:factory``.

    Example:
        >>> "resnet18" in classifier_names()
        True
    """
    return tuple(_MAKERS)


def build(name: str, *, input_shape: Sequence[int], n_classes: int, seed: int = 0, **options: Any) -> nn.Module:
    """A classifier with initial weights, from images or vectors to logits.

    Args:
        name: one of :func:`classifier_names`, ``wide-resnet-D-W``, or ``module:factory`` for a function on the
            import path that takes ``input_shape``, ``n_classes`` and the options, and returns a module.
        input_shape: (C, H, W) of images or (d,) of vectors.
        n_classes: C, the number of logits.
        seed: decides the weights; torch's own generators are left as they are.
        options: what the classifier lets one choose, such as ``dropout`` or ``width``.

    Returns:
        A module in training mode: (B, C, H, W) or (B, d) float32, already normalised, to logits (B, n_classes).

    Example:
        >>> model = build("resnet18", input_shape=(3, 32, 32), n_classes=10)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
        >>> parameter_count(build("resnet18", input_shape=(3, 224, 224), n_classes=1000))
        11689512
    """
    sizes = tuple(input_shape)
    if len(sizes) not in (1, 3) or not all(type(size) is int and size > 0 for size in sizes):
        raise InputError(
            f"must be (C, H, W) of images or (d,) of vectors, whole numbers above 0; got {sizes}",
            argument="input_shape",
        )
    whole_number("n_classes", n_classes, 2)
    whole_number("seed", seed)
    if is_import_name(name):
        return _build_from_factory(name, sizes, n_classes, seed, options)
    known = classifier_option_names(name)
    for option in options:
        if option not in known:
            offered = f"its options are {', '.join(known)}" if known else "it has none"
            raise InputError(f"model {name} has no option {option!r}; {offered}")
    with torch.device("meta"):
        model = _find_maker(name)(InputShape(*sizes), n_classes, **options)
    with torch.no_grad():
        draw_initial_weights(model, torch.Generator().manual_seed(seed))
    return model


def parameter_count(model: nn.Module) -> int:
    """How many trained numbers a model has."""
    return sum(parameter.numel() for parameter in model.parameters())


def _find_maker(name: str) -> _Maker:
    plain_name = TrainConfig.canonical_model(name)
    if plain_name in _MAKERS:
        return _MAKERS[plain_name]
    wide = _WIDE.fullmatch(plain_name)
    if wide:
        return partial(residual.wide_resnet, depth=int(wide[1]), widening=int(wide[2]))
    nearest = difflib.get_close_matches(plain_name, _MAKERS, n=1)
    meant = f"did you mean {nearest[0]}? Or " if nearest else ""
    raise InputError(f"model {name!r} is not known; {meant}give one of {', '.join(_MAKERS)}, or module:factory")


def classifier_option_names(name: str) -> tuple[str, ...]:
    """The options that :func:`build` takes for a classifier; none are known of a ``module:factory``.

    Example:
        >>> classifier_option_names("vgg16")
        ('dropout', 'width')
    """
    if is_import_name(name):
        return ()
    make = _find_maker(name)
    fixed = set(make.keywords) if isinstance(make, partial) else set()
    return tuple(
        option.name
        for option in inspect.signature(make).parameters.values()
        if option.kind is option.KEYWORD_ONLY and option.name not in fixed
    )


def _build_from_factory(
    name: str, input_shape: tuple[int, ...], n_classes: int, seed: int, options: dict[str, Any]
) -> nn.Module:
    factory = imported("model", name)
    with _BUILDING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            model = factory(input_shape=input_shape, n_classes=n_classes, **options)
        except TypeError as error:
            raise InputError(
                f"model {name!r} could not be made ({error}); the factory must take input_shape, n_classes "
                "and the options as keywords"
            ) from error
    if not isinstance(model, nn.Module):
        raise InputError(f"model {name!r} gave a {type(model).__name__}; it must give a torch.nn.Module")
    training = model.training
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        result = tuple(model.eval()(torch.zeros(2, *input_shape)).shape)
    model.train(training)
    if result != (2, n_classes):
        raise InputError(f"model {name!r} gives logits of shape {result} for 2 examples, not (2, {n_classes})")
    return model
