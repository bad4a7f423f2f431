"""What a ledger's results say."""

from __future__ import annotations

from hardpan.errors import counted
from hardpan.ledger.ledger import HoldoutScores, LedgerAnswer, LedgerStatus
from hardpan.ledger.verification import LedgerCheck
from hardpan.pages.field_views import view, view_of_fields
from hardpan.pages.sections import Section, Table, View

_NO_LIMIT = 10**12


@view.register
def _ledger_answer_view(result: LedgerAnswer) -> View:
    verdict = "new best" if result.improved else "not better than the best by more than the step"
    counted = (
        f"Already submitted; recorded answer: {verdict}"
        if result.repeated
        else f"Submission {result.submissions:,}: {verdict}"
    )
    error = (
        f"Leaderboard error {100 * result.error:.4g} % ± {100 * result.bound:.1f} points "
        f"({100 * (1 - result.delta):g} % confidence)."
    )
    section = Section("Answer", (error, f"Head {result.head}"))
    columns = {"name": [result.name], "error": [result.error], "bound": [result.bound]}
    return View("Ledger", f"{counted}.", (section,), columns=columns)


@view.register
def _ledger_status_view(result: LedgerStatus) -> View:
    best = f"{100 * result.error:.4g} % ({result.best})" if result.submissions else "no submissions yet"
    opened = f"opened {counted(result.openings, 'time')}" if result.openings else "never opened"
    limit = "more than 10¹²" if result.limit >= _NO_LIMIT else f"{result.limit:,} in the worst case"
    limit += f" (bound at most {100 * min(result.bound_limit, 1):.1f} points)"
    holdout = f"{result.holdout_examples:,} examples, {opened}" if result.holdout_examples else "none"
    rows = (
        ("submissions", f"{result.submissions:,}, of which {result.improvements:,} improved the best"),
        ("leaderboard error", best),
        ("bound on its error", f"{100 * result.bound:.1f} points ({100 * (1 - result.delta):g} % confidence)"),
        ("submission limit", "none" if result.unsafe else limit),
        ("examples", f"{result.examples:,}, step {100 * result.step:.3g} points"),
        ("super hold-out", holdout),
        ("labels", "revealed" if result.revealed else "sealed"),
        ("log", counted(result.entries, "entry", "entries")),
    )
    warnings = []
    if result.unsafe:
        warnings.append("created with --unsafe: answers may reveal single labels, or the bound may exclude nothing")
    if result.interrupted:
        warnings.append("a submission was interrupted; the next one completes its record")
    if result.after_opening:
        warnings.append(f"{result.after_opening} submissions were made after the super hold-out was first opened")
    section = Section(
        "State",
        (f"Commitment {result.commitment}", f"Head {result.head}"),
        tables=(Table("", ("quantity", "value"), rows),),
        warnings=tuple(warnings),
    )
    headline = f"{result.name}: {result.examples:,} sealed labels, no submissions yet."
    if result.submissions:
        headline = f"{result.name}: leaderboard error {best}, {counted(result.submissions, 'submission')}."
    return View(
        f"Ledger {result.name}", headline, (section,), columns={"name": [result.name], "error": [result.error]}
    )


@view.register
def _ledger_check_view(result: LedgerCheck) -> View:
    replay = ", every answer replayed" if result.replayed else ""
    state = "Verified" if result.ok else "NOT verified"
    lines = tuple(f"Problem: {item}" for item in result.problems)
    section = Section("Verification", (*lines, f"Head {result.head}"), warnings=result.warnings)
    headline = f"{state}: {counted(result.entries, 'entry', 'entries')}{replay}."
    return View("Ledger", headline, (section,), columns={"problem": list(result.problems)})


@view.register
def _holdout_scores_view(result: HoldoutScores) -> View:
    scored = counted(len(result.scores), "submission")
    earlier = counted(result.earlier_openings, "time")
    warning = f"the hold-out was opened {earlier} before: later submissions may have used its scores"
    return view_of_fields(
        result,
        f"{scored} scored on the super hold-out; the log records it.",
        title="Super hold-out",
        warnings=(warning,) if result.earlier_openings else (),
    )
