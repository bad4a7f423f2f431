"""How low can the error go: Bayes errors of Gaussian classes, and brackets for real data.

Shared covariance: ``gaussian`` (any method), ``gaussian_curve`` and ``temperature_for`` (error against temperature,
and its inverse), ``gaussian_detail`` (classes, confusions, top-k), and ``posterior``.
Different covariances: ``covs=`` of these functions.
Real data: ``floor`` brackets the lowest possible error of a dataset (:mod:`hardpan.bayes.floors`).
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.bayes.floors.dataset_floor import FloorConfig, floor
    from hardpan.bayes.gaussians.detail import gaussian_detail
    from hardpan.bayes.gaussians.methods import METHODS, gaussian, posterior
    from hardpan.bayes.gaussians.temperature import gaussian_curve, temperature_for

exports(__name__)
