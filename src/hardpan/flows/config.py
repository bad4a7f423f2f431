"""What a flow is made of and how it is fitted: every setting in one place, with presets."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hardpan.arguments import one_of, real_number, whole_number
from hardpan.files import record

PRESETS: dict[str, dict[str, Any]] = {
    # Seconds on one core: small images (digits), or vectors.
    "tiny": {
        "steps": 4, "levels": 2, "width": 32, "epochs": 36, "batch_size": 64, "learning_rate": 4e-3,
        "transforms": 3, "hidden": 64,
    },
    # Minutes on a GPU: the sweep over the classification weight is made here.
    "small": {
        "steps": 8, "levels": 3, "width": 128, "epochs": 40, "batch_size": 256, "learning_rate": 2e-3,
        "transforms": 4, "hidden": 128,
    },
    # The paper's setting (Theisen et al. 2021, section 4.1): K = 16, L = 3, C = 512.
    "paper": {
        "steps": 16, "levels": 3, "width": 512, "epochs": 100, "batch_size": 256, "learning_rate": 1e-3,
        "transforms": 6, "hidden": 256,
    },
}  # fmt: skip
FORMATS = ("npz", "npz8")


@record(dropped=("family", "jitter", "checkpoint_every"))
class FlowConfig:
    """Settings of a flow; None takes the value of the preset.

    Attributes:
        preset: "tiny" (seconds on a CPU), "small" (minutes on a GPU) or "paper" (K=16, L=3, C=512).
        steps: K, flow steps per level (glow); default: by preset.
        levels: L, levels with a split between them (glow), fewer if the image is too small; default: by preset.
        width: C, channels in the hidden layers of the coupling networks (glow); default: by preset.
        least_scale: smallest scale of a coupling layer, from data to latents (glow).
        most_scale: largest scale of a coupling layer, from data to latents (glow).
        reach: soft limit of the inputs z of coupling networks and split priors, z/√(1 + (z/reach)²), against values
            far outside the training data (glow); 0: no limit.
        dropout: dropout probability of the hidden units of coupling networks (glow).
        dequantization: noise added to integer data: "uniform", or "variational" (glow; Ho et al. 2019), which is
            learned and gives a tighter bound of the discrete likelihood.
        transforms: number of coupling layers (spline).
        hidden: width of the coupling networks (spline).
        bins: number of knots of each spline (spline).
        class_weight: weight λ of the classification loss.
        class_loss: classification loss: the cross-entropy of "head", a linear classifier of the features before the
            last step (Theisen et al. 2021), or of "posterior", the flow's own posterior (information bottleneck,
            Ardizzone et al. 2020), −log p(x) − β log p(y | x), with β = 1 + λ · (dimension · log 2).
        class_covariances: one diagonal covariance per class instead of one for all.
        pad_to: pad images with zeros to this height and width; default: 32 for the preset "paper", else none.
        grey_levels: number of levels of integer data; default: 256, or the largest value + 1 if that is below 128.
        epochs: largest number of epochs; default: by preset.
        batch_size: examples per step; default: by preset.
        learning_rate: peak learning rate of Adam; default: by preset.
        warmup: fraction of the steps in which the learning rate rises; then a cosine lowers it to 1 %.
        clip: largest norm of the gradient.
        ema: decay of an exponential moving average of the weights, which is saved; 0: none.
        patience: stop after this many epochs without a lower validation NLL; 0: never.
        precision: "float32", or "bf16" for the coupling networks during training.
        seed: of everything random.
        device: "auto", "cpu", "cuda" or "cuda:N".
    """

    preset: str = "small"
    steps: int | None = None
    levels: int | None = None
    width: int | None = None
    least_scale: float = 1 / 3
    most_scale: float = 3.0
    reach: float = 2.5
    dropout: float = 0.0
    dequantization: str = "uniform"
    transforms: int | None = None
    hidden: int | None = None
    bins: int = 8
    class_weight: float = 0.01
    class_loss: str = "head"
    class_covariances: bool = False
    pad_to: int | None = None
    grey_levels: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    warmup: float = 0.05
    clip: float = 50.0
    ema: float = 0.99
    patience: int = 0
    precision: str = "float32"
    seed: int = 0
    device: str = "auto"

    def filled(self) -> FlowConfig:
        """The same settings, checked, with the preset's values instead of None.

        Example:
            >>> FlowConfig(preset="paper", width=64).filled().steps
            16
            >>> FlowConfig(preset="huge").filled()
            Traceback (most recent call last):
                ...
            hardpan.errors.InputError: preset must be one of tiny, small, paper; got 'huge'
        """
        one_of("preset", self.preset, PRESETS)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        preset = PRESETS[self.preset] | {"pad_to": 32 if self.preset == "paper" else 0}
        whole = replace(self, **{name: value for name, value in preset.items() if values[name] is None})
        for name, least in _WHOLE.items():
            if name != "grey_levels" or whole.grey_levels is not None:
                object.__setattr__(whole, name, whole_number(name, getattr(whole, name), least))
        for name, interval in _INTERVALS.items():
            if name != "reach" or whole.reach != 0:
                object.__setattr__(whole, name, real_number(name, getattr(whole, name), interval))
        for name, allowed in _CHOICES.items():
            one_of(name, getattr(whole, name), allowed)
        return whole


_WHOLE = {
    **dict.fromkeys(("steps", "levels", "width", "transforms", "hidden", "bins"), 1),
    **dict.fromkeys(("epochs", "batch_size"), 1),
    **dict.fromkeys(("seed", "patience", "pad_to"), 0),
    "grey_levels": 2,
}
_INTERVALS = {
    "class_weight": "[0, inf)",
    **dict.fromkeys(("learning_rate", "clip"), "(0, inf)"),
    **dict.fromkeys(("warmup", "ema", "dropout"), "[0, 1)"),
    "most_scale": "[1, 10]",
    "least_scale": "[0.001, 0.9]",
    "reach": "[0.5, 1000]",
}
_CHOICES = {
    "class_loss": ("head", "posterior"),
    "dequantization": ("uniform", "variational"),
    "precision": ("float32", "bf16"),
}


@record
class SynthesizeConfig:
    """Settings of ``hardpan flow synthesize``.

    Attributes:
        bayes_error: Bayes error of the examples, 0..1; None: use ``temperature``.
        temperature: of the examples, if ``bayes_error`` is None.
        n: number of examples, train and test together.
        test_fraction: fraction of the examples that are test examples.
        seed: of the draws.
        format: ``npz`` (float32, for which the posteriors are exact) or ``npz8`` (8 bits).
    """

    bayes_error: float | None = None
    temperature: float = 1.0
    n: int = 70_000
    test_fraction: float = 1 / 7
    seed: int = 0
    format: str = "npz"

    def __post_init__(self) -> None:
        if self.bayes_error is not None:
            real_number("bayes_error", self.bayes_error, "(0, 1)")
        whole_number("n", self.n, 20)
        real_number("test_fraction", self.test_fraction, "(0, 1)")
