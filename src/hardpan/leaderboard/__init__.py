"""One test set: who is ahead, which items work, which answer keys look wrong, how short the test could be."""

from hardpan.leaderboard.pairs import compare
from hardpan.leaderboard.ranking import rank

__all__ = ["compare", "rank"]


def __dir__() -> list[str]:
    return __all__
