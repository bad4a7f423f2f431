"""Follow-up studies that train models: other hyperparameters, folds, part of the new test set, learning curves."""

from hardpan.lazy import exports
from hardpan.studies.settings_search import RetuneConfig, search_settings
from hardpan.studies.training_sets import CrossvalConfig, PartialConfig, cross_validate, train_on_part

exports(__name__)
