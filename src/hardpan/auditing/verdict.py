"""The verdict: what all parts say together, in one sentence, ten lines and a list of what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardpan import numbers
from hardpan.auditing.evidence import Evidence, Finding
from hardpan.auditing.measures import in_words, limit_in_points
from hardpan.bayes.floors import Entry
from hardpan.confusion.banding import FEWEST_ERRORS
from hardpan.estimates import Estimate

SATURATED = 0.5  # an error below this part of its own interval's width cannot be told from that of a better model
MANY_COPIES = 0.005
HEAVY_TAIL = 0.4


@dataclass(frozen=True, slots=True)
class Told:
    """The words at the top of a report."""

    headline: str
    lede: tuple[str, ...]
    findings: tuple[str, ...]
    next_steps: tuple[str, ...]


def tell(evidence: Evidence, findings: Sequence[Finding]) -> Told:
    """Put the parts' findings into words."""
    measures = {name: item for finding in findings for name, item in finding.measures.items()}
    verdicts = {name: entry for finding in findings for name, entry in finding.verdicts.items()}
    headline = " ".join(finding.headline for finding in findings if finding.headline)
    lede = tuple(sentence for finding in findings for sentence in finding.lede)
    return Told(headline, lede, tuple(_findings(measures, verdicts)), tuple(_next_steps(evidence, measures)))


def _findings(measures: Mapping[str, Estimate], verdicts: Mapping[str, Entry]) -> list[str]:
    """Each measure in plain words, with its interval, and what is against it."""
    shown = {name: in_words(name, item) for name, item in measures.items()}
    said = []
    if "bracket" in measures:
        most = numbers.limit(measures["bracket"].high)
        said.append(f"Floor: an error of at most {most} is unavoidable.")
    if "flow_floor" in verdicts:
        bits = f"{shown['bits'].partition(' (')[0]} bits a dimension on test data"
        said.append(f"Floor by the flow: {shown['flow_floor']}, {bits}. {verdicts['flow_floor'].reason}")
    if "best_error" in measures:
        said.append(f"Best model: {shown['best_error']} of the test part wrong.")
    if "headroom" in measures:
        most = limit_in_points(measures["headroom"].high)
        condition = "".join(f", if {assumption}" for assumption in measures["headroom"].notes)
        said.append(f"Headroom: at most {most} are left to win{condition}.")
    if "mean_confusion" in measures:
        said.append(f"Mean confusion of the test part, in bits: {shown['mean_confusion']}.")
    if "tail_share" in measures:
        said.append(f"Errors in the most confusing tenth: {shown['tail_share']}.")
    if "drop" in measures:
        said.append(f"Drop on fresh data: {shown['drop']}.")
    if "duplicated" in measures:
        said.append(f"Test examples with an exact copy outside the test part: {shown['duplicated']}.")
    return said


def _next_steps(evidence: Evidence, measures: Mapping[str, Estimate]) -> list[str]:
    """What the numbers advise, most pressing first."""
    steps = []
    copies = measures.get("duplicated")
    if copies is not None and copies.value > MANY_COPIES:
        steps.append(
            "Remove test examples that have a copy outside the test part: their score says nothing of new data."
        )
    best = measures.get("best_error")
    if best is not None and best.n and best.value < SATURATED * (best.high - best.low):
        more = 4 * best.n
        steps.append(
            "The test part is too small to rank models this good: the interval is more than twice as wide as the "
            f"error. About {more:,} examples would halve it."
        )
    tail = measures.get("tail_share")
    if tail is not None and tail.n >= FEWEST_ERRORS and tail.low > HEAVY_TAIL:
        steps.append("Report the hard subset beside the whole: that is where models differ (hard-subset.json).")
    if not evidence.models:
        steps.append("Record predictions of several seeds to see which examples are hard.")
    elif all(model.trained_here for model in evidence.models):
        steps.append("Give the predictions of your own models (--predictions) in place of the small ensemble.")
    if "drop" not in measures:
        steps.append("Try the models on a fresh test set, collected like the first (hardpan replicate, --testbed).")
    return steps
