"""hardpan audits classification benchmarks.

Three questions, each answered with a number, its uncertainty and a picture:

- how low can the error go? (:mod:`hardpan.bayes`, :mod:`hardpan.flows`)
- which examples are hard, which labels are wrong? (:mod:`hardpan.confusion`, :mod:`hardpan.training`)
- will the score hold? (:mod:`hardpan.leaderboard`, :mod:`hardpan.testbed`, :mod:`hardpan.replicate`)

:func:`hardpan.audit` answers them for one dataset. Submodules are imported on first use.
"""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan import (
        bayes,
        confusion,
        data,
        errors,
        estimates,
        flows,
        leaderboard,
        learning_curves,
        ledger,
        predictions,
        replicate,
        report,
        stats,
        testbed,
        training,
    )
    from hardpan.auditing import audit
    from hardpan.data.dataset import Dataset
    from hardpan.execution import parallel
    from hardpan.leaderboard.gating import gate
    from hardpan.outcomes import Outcomes
    from hardpan.predictions.predictions import Predictions
    from hardpan.predictions.recorder import Recorder
    from hardpan.recognition import look

__version__ = "0.1.0"

exports(__name__)
