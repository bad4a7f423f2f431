"""Studies that need several parts of hardpan: learning curves, re-tuning, training on part."""

from hardpan.lazy import exports
from hardpan.studies.crossval import CrossvalConfig, cross_validate
from hardpan.studies.partial import PartialConfig, train_on_part
from hardpan.studies.retune import RetuneConfig, search_settings

exports(__name__)
