"""What the results of :mod:`hardpan.leaderboard` say and show."""

from hardpan.leaderboard.report import items, models, page, scores  # each registers its views
from hardpan.leaderboard.report.common import view

__all__ = ["items", "models", "page", "scores", "view"]
