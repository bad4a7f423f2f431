"""Sealed test sets that answer submissions by the Ladder, with a log in which later changes are detected.

Labels are encrypted under the owner's key; their salted hash is public. The answer to a submission is the
leaderboard's error, which moves only by more than a step; the log of all answers is a signed hash chain whose head
is published with every answer.

>>> import tempfile, numpy
>>> book = create(tempfile.mkdtemp() + "/book", numpy.arange(1000) % 10, bytes(32))
>>> answer = book.submit(numpy.zeros(1000, int), name="always 0")
>>> round(answer.error, 2), book.verify().ok
(0.93, True)
"""

from hardpan.lazy import exports
from hardpan.ledger.ladder import leaderboard_bound, submission_limit, suggested_step
from hardpan.ledger.ledger import Ledger, create, open

exports(__name__)
