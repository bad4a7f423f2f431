"""What people decide: selection, review, possible duplicates; and what waits for a decision.

A decision is never altered: a later one on the same subject replaces it, and "open" withdraws it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from hardpan.arguments import one_of
from hardpan.errors import InputError
from hardpan.replicate.database.connection import (
    Decision,
    Image,
    Pair,
    Quota,
    SampleRow,
    check_database_text,
    in_database_order,
)
from hardpan.replicate.database.events import log_event
from hardpan.replicate.database.people import check_person_admitted
from hardpan.replicate.folder import ProjectFolder

STEPS: Mapping[str, tuple[str, ...]] = {
    "first-selection": ("select", "skip", "open"),
    "second-review": ("keep", "remove", "open"),
    "duplicate": ("keep", "remove", "open"),
    "final-review": ("keep", "remove", "open"),
}


@dataclass(frozen=True, slots=True)
class KeywordState:
    """The state of one keyword: quota, selected, removed by the reviewer, missing."""

    class_index: int
    keyword: str
    originals: int
    quota: int
    candidates: int
    selected: int
    removed: int
    short: int

    @property
    def came_back(self) -> bool:
        """Whether the second reviewer's removals have left the keyword short."""
        return self.short > 0 and self.removed > 0


@dataclass(frozen=True, slots=True)
class KeywordCandidates:
    """The first selector's page for one keyword: its originals, and candidates with what was decided on them."""

    state: KeywordState
    originals: tuple[str, ...]
    candidates: tuple[str, ...]
    verdicts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UndecidedPair:
    """Two images that may be near-duplicates; ``other_split`` is that of the other: "new", "train" or "test"."""

    image_id: str
    other_id: str
    other_split: str
    l2: float
    ssim: float

    @property
    def subject(self) -> str:
        """What decisions call the pair."""
        return f"{self.image_id}|{self.other_id}"


def record_decision(
    project: ProjectFolder,
    step: str,
    subject: str,
    verdict: str,
    *,
    by: str,
    submission_key: str = "",
) -> bool:
    """Record a decision, once for each ``submission_key``.

    Args:
        project: an open project.
        step: one of ``STEPS``.
        subject: an image id, or a pair's ``subject``.
        verdict: one of the step's verdicts; "open" withdraws an earlier one.
        by: the worker's id, or "owner".
        submission_key: the page's random name for this decision; the same again changes nothing.

    Returns:
        Whether it was new.
    """
    one_of("step", step, STEPS)
    one_of(f"verdict of {step}", verdict, STEPS[step])
    check_database_text("submission_key", submission_key, 200)
    check_database_text("subject", subject)
    now = project.clock()
    try:
        with project.database.write() as connection:
            _check_decision_subject(connection, step, subject)
            if submission_key and connection.scalar(
                select(Decision.id).where(Decision.submission_key == submission_key)
            ):
                return False
            check_person_admitted(connection, by, now)
            row = {"step": step, "subject": subject, "verdict": verdict, "worker_id": by, "at": now}
            connection.execute(insert(Decision), row | {"submission_key": submission_key or None})
            log_event(connection, now, by, "decided", step=step, subject=subject, verdict=verdict)
            return True
    except IntegrityError:  # on PostgreSQL the same key may come twice at the same moment; the other one was first
        if not submission_key:
            raise
        return False


def decision_verdicts(project: ProjectFolder, step: str) -> dict[str, str]:
    """The verdict that counts on every subject of a step; withdrawn ones are left out."""
    with project.database.read() as connection:
        return _decision_verdicts(connection, step)


def keyword_states(project: ProjectFolder) -> list[KeywordState]:
    """Every keyword with a quota: quota, selected and missing."""
    with project.database.read() as connection:
        return _keyword_states(connection)


def first_selection_page(
    project: ProjectFolder, class_index: int, keyword: str, *, start: int = 0, most: int = 200
) -> KeywordCandidates:
    """A keyword's originals beside its candidates; exact copies of originals are not in the pool."""
    with project.database.read() as connection:
        states = [s for s in _keyword_states(connection) if (s.class_index, s.keyword) == (class_index, keyword)]
        if not states:
            raise InputError(f"class {class_index} has no keyword {keyword!r} with a quota; run subclasses first")
        where = (Image.class_index == class_index, Image.keyword == keyword, Image.split != "aside")
        lists = [
            tuple(
                connection.scalars(
                    select(Image.id)
                    .where(*where, Image.kind == kind)
                    .order_by(in_database_order(Image.id))
                    .offset(first)
                    .limit(most)
                )
            )
            for kind, first in (("original", 0), ("candidate", start))
        ]
        decided = _decision_verdicts(connection, "first-selection")
    return KeywordCandidates(states[0], lists[0], lists[1], {i: decided[i] for i in lists[1] if i in decided})


def undecided_images(project: ProjectFolder, step: str) -> list[Any]:
    """Images (image_id, class_index, keyword) that wait for a review.

    For "second-review" those that the first selector chose, in the order of ids; for "final-review" those of the
    current sample, in the order of class and id.
    """
    index, keyword = func.coalesce(Image.class_index, 0), func.coalesce(Image.keyword, "")
    query = select(Image.id.label("image_id"), index.label("class_index"), keyword.label("keyword"))
    with project.database.read() as connection:
        decided = _decision_verdicts(connection, step)
        if step == "final-review":
            query = query.join(SampleRow, SampleRow.image_id == Image.id).where(SampleRow.removed_round.is_(None))
            query = query.order_by(SampleRow.class_index, in_database_order(Image.id))
        else:
            first = _decision_verdicts(connection, "first-selection").items()
            waiting = [name for name, verdict in first if verdict == "select" and name not in decided]
            query = query.where(Image.id.in_(waiting)).order_by(in_database_order(Image.id))
        return [row for row in connection.execute(query) if row.image_id not in decided]


def removed_by_decisions(project: ProjectFolder) -> set[str]:
    """Images that a person removed, at any step; they are never drawn."""
    return {
        subject.partition("|")[0]  # of a pair, the candidate
        for step in ("second-review", "final-review", "duplicate")
        for subject, verdict in decision_verdicts(project, step).items()
        if verdict == "remove"
    }


def undecided_pairs(project: ProjectFolder) -> list[UndecidedPair]:
    """Pairs of the current sample that nobody has decided on, most similar first."""
    with project.database.read() as connection:
        decided = _decision_verdicts(connection, "duplicate")
        rows = connection.execute(
            select(Pair.__table__)
            .join(SampleRow, SampleRow.image_id == Pair.image_id)
            .where(SampleRow.removed_round.is_(None))
            .order_by(Pair.ssim.desc(), Pair.l2, Pair.id)
        ).all()
        gone = set(connection.scalars(select(SampleRow.image_id).where(SampleRow.removed_round.is_not(None))))
    pairs = [UndecidedPair(r.image_id, r.other_id, r.other_split, r.l2, r.ssim) for r in rows]
    return [pair for pair in pairs if pair.other_id not in gone and pair.subject not in decided]


def _decision_verdicts(connection: Connection, step: str) -> dict[str, str]:
    latest = select(func.max(Decision.id)).where(Decision.step == step).group_by(Decision.subject)
    rows = connection.execute(select(Decision.subject, Decision.verdict).where(Decision.id.in_(latest)))
    return {row.subject: row.verdict for row in rows if row.verdict != "open"}


def _keyword_states(connection: Connection) -> list[KeywordState]:
    first, second = (_decision_verdicts(connection, step) for step in ("first-selection", "second-review"))
    counts: dict[tuple[int, str], list[int]] = {}
    rows = connection.execute(
        select(Image.id, Image.class_index, Image.keyword).where(
            Image.kind == "candidate",
            Image.class_index.is_not(None),
            Image.keyword.is_not(None),
            Image.split != "aside",
        )
    )
    for row in rows:
        count = counts.setdefault((row.class_index, row.keyword), [0, 0, 0])
        count[0] += 1
        if first.get(row.id) == "select":
            count[1] += 1
            count[2] += second.get(row.id) == "remove"
    states = []
    quotas = connection.execute(
        select(Quota.__table__).order_by(
            Quota.class_index, Quota.originals.desc(), in_database_order(Quota.keyword)
        )
    )
    for row in quotas:
        key = (row.class_index, row.keyword)
        have, selected, removed = counts.get(key, [0, 0, 0])
        short = max(0, row.quota - (selected - removed))
        states.append(KeywordState(*key, row.originals, row.quota, have, selected, removed, short))
    return states


def _check_decision_subject(connection: Connection, step: str, subject: str) -> None:
    if step == "duplicate":
        first, _, other = subject.partition("|")
        known = connection.scalar(select(func.count()).where(Pair.image_id == first, Pair.other_id == other))
    else:
        known = connection.scalar(select(func.count()).where(Image.id == subject, Image.kind == "candidate"))
    if not known:
        raise InputError(f"{subject[:80]!r} is no subject of {step}")


def queue_duplicates_for_review(project: ProjectFolder, rows: Sequence[Mapping[str, Any]]) -> int:
    """Put pairs in that are not there yet; give how many were new."""
    with project.database.write(alone=True) as connection:
        known = {(r.image_id, r.other_id) for r in connection.execute(select(Pair.image_id, Pair.other_id))}
        fresh = {
            (row["image_id"], row["other_id"]): dict(row)
            for row in rows
            if (row["image_id"], row["other_id"]) not in known and (row["other_id"], row["image_id"]) not in known
        }
        if fresh:
            connection.execute(insert(Pair), list(fresh.values()))
            log_event(connection, project.clock(), "owner", "pairs", count=len(fresh))
        return len(fresh)


def count_duplicate_decisions(project: ProjectFolder) -> tuple[int, int]:
    """How many pairs were ever queued, and on how many somebody has decided."""
    with project.database.read() as connection:
        pairs = connection.scalar(select(func.count()).select_from(Pair))
        return int(pairs or 0), len(_decision_verdicts(connection, "duplicate"))
