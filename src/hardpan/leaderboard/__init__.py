"""Which models are better on one test set? Ranks, paired tests, items, answer keys, short tests, a gate for CI."""

from typing import TYPE_CHECKING

from hardpan.lazy import exports

if TYPE_CHECKING:
    from hardpan.leaderboard.bradley_terry import battles
    from hardpan.leaderboard.costs import amounts
    from hardpan.leaderboard.gating import assert_not_worse, gate
    from hardpan.leaderboard.item_analysis import items
    from hardpan.leaderboard.judges import judge
    from hardpan.leaderboard.keys import correct_keys, suspect_keys
    from hardpan.leaderboard.pairs import compare
    from hardpan.leaderboard.prediction import agreement, inflation, predict
    from hardpan.leaderboard.ranking import rank
    from hardpan.leaderboard.repeated_runs import pass_at_k, runs
    from hardpan.leaderboard.short_tests import shorten
    from hardpan.leaderboard.suites import suite
    from hardpan.leaderboard.summary import summarize

exports(__name__)
