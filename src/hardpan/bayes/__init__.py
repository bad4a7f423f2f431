"""How low can the error go: Bayes errors of Gaussian classes, and brackets for real data.

Shared covariance: ``gaussian`` (any method), ``gaussian_curve`` and ``temperature_for`` (the temperature dial),
``gaussian_detail`` (classes, confusions, top-k), ``posterior`` and ``decide`` (the best possible classifier).
Covariances that differ: ``gaussian(..., covs=...)`` and ``temperatures_for``.
Real data: ``floor`` puts every estimate side by side and says which survive (:mod:`hardpan.bayes.floors`).
"""

from hardpan.bayes.floors import Examples, Floor, floor
from hardpan.bayes.gaussians.classifier import decide, posterior
from hardpan.bayes.gaussians.detail import GaussianDetail, gaussian_detail
from hardpan.bayes.gaussians.methods import METHODS, gaussian
from hardpan.bayes.gaussians.temperature import Curve, gaussian_curve, temperature_for, temperatures_for

__all__ = [
    "METHODS",
    "Curve",
    "Examples",
    "Floor",
    "GaussianDetail",
    "decide",
    "floor",
    "gaussian",
    "gaussian_curve",
    "gaussian_detail",
    "posterior",
    "temperature_for",
    "temperatures_for",
]
