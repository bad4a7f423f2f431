"""The verdict: what all parts say together, in one sentence, ten lines and a list of what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hardpan.audit.evidence import Evidence, Finding
from hardpan.records import Estimate
from hardpan.report import numbers

SATURATED = 0.5  # where the best error is less than this above its own interval's width, the test set is too small
MANY_COPIES = 0.005
HEAVY_TAIL = 0.4


@dataclass(frozen=True, slots=True)
class Told:
    """The words at the top of a report."""

    headline: str
    lede: tuple[str, ...]
    findings: tuple[str, ...]
    next_steps: tuple[str, ...]


def tell(evidence: Evidence, findings: Sequence[Finding], measures: Mapping[str, Estimate]) -> Told:
    """Put the parts' findings into words."""
    headline = " ".join(finding.headline for finding in findings if finding.headline)
    lede = tuple(sentence for finding in findings for sentence in finding.lede)
    return Told(headline, lede, tuple(_findings(evidence, measures)), tuple(_next_steps(evidence, measures)))


def _findings(evidence: Evidence, measures: Mapping[str, Estimate]) -> list[str]:
    """Each measure in plain words, with its interval."""
    said = []
    if "ceiling" in measures:
        most = numbers.percent(measures["ceiling"].value, measures["ceiling"].value / 20)
        said.append(f"Floor: no more than {most} of errors are unavoidable.")
    if "flow_floor" in measures and evidence.flow is not None:
        flow = numbers.estimate(measures["flow_floor"])
        said.append(f"Floor by the flow: {flow}; {measures['bits'].value:.2f} bits a dimension on test data.")
    if "best_error" in measures:
        said.append(f"Best model: {numbers.estimate(measures['best_error'])} of the test part wrong.")
    if "headroom" in measures:
        most = numbers.percent(measures["headroom"].high, measures["headroom"].high / 20)
        said.append(f"Headroom: at most {most.replace(' %', ' points')} are left to win.")
    if "mean_confusion" in measures:
        said.append(f"Mean confusion of the test part: {measures['mean_confusion'].value:.3f} bits.")
    if "tail_share" in measures:
        said.append(f"Errors in the most confusing tenth: {numbers.estimate(measures['tail_share'])}.")
    if "drop" in measures:
        said.append(f"Drop on fresh data: {numbers.estimate(measures['drop']).replace(' %', ' points')}.")
    if "duplicated" in measures:
        said.append(f"Test examples with an exact copy in train: {numbers.estimate(measures['duplicated'])}.")
    return said


def _next_steps(evidence: Evidence, measures: Mapping[str, Estimate]) -> list[str]:
    """What the numbers advise, most pressing first."""
    steps = []
    copies = measures.get("duplicated")
    if copies is not None and copies.value > MANY_COPIES:
        steps.append("Remove test examples that have a copy in train: their score says nothing of new data.")
    best = measures.get("best_error")
    if best is not None and best.n and best.value < SATURATED * (best.high - best.low):
        more = 4 * best.n
        steps.append(
            "The test part is too small to rank models this good: the interval is wider than the error itself. "
            f"About {more:,} examples would halve it."
        )
    tail = measures.get("tail_share")
    if tail is not None and tail.low > HEAVY_TAIL:
        steps.append("Report the hard subset beside the whole: that is where models differ (hard-subset.json).")
    if not evidence.models:
        steps.append("Record predictions of several seeds to see which examples are hard.")
    elif all(model.trained_here for model in evidence.models):
        steps.append("Give the predictions of your own models (--predictions) in place of the small ensemble.")
    if "drop" not in measures:
        steps.append("Try the models on a fresh test set, collected like the first (hardpan replicate, --testbed).")
    return steps
