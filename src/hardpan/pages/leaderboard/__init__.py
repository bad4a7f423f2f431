"""What the results of :mod:`hardpan.leaderboard` say and show."""

from hardpan.pages.leaderboard import items, models, page, scores  # each registers its views
from hardpan.report.generic import view

__all__ = ["items", "models", "page", "scores", "view"]
