"""Sealed test sets that answer submissions by the Ladder, with a log that cannot be rewritten unseen.

Labels lie encrypted under the owner's key; their salted hash is public. Each submission is told the leaderboard's
error, which moves only by more than a step; the log of all answers is a signed hash chain whose head goes out with
every answer.
"""

from hardpan.ledger.book import Answer, Status, create, status, submit
from hardpan.ledger.holdout import open_holdout, reveal
from hardpan.ledger.inputs import Answers, read_answers
from hardpan.ledger.ladder import climb, leaderboard_bound, parse_step, published_bound, suggested_step
from hardpan.ledger.sealing import new_key, read_key, write_key
from hardpan.ledger.vault import read_predictions
from hardpan.ledger.verification import Check, verify

__all__ = [
    "Answer",
    "Answers",
    "Check",
    "Status",
    "climb",
    "create",
    "leaderboard_bound",
    "new_key",
    "open_holdout",
    "parse_step",
    "published_bound",
    "read_answers",
    "read_key",
    "read_predictions",
    "reveal",
    "status",
    "submit",
    "suggested_step",
    "verify",
    "write_key",
]
