import numpy as np
import pytest
from tests.refusals import refused

from hardpan.stats import CROWDLAB, DAWID_SKENE, MAJORITY, consensus, count_answers


def drawn(n=400, k=4, annotators=9, answers=0.5, seed=0):
    """Truth, answers of annotators with known skill, the skills, and a model's probabilities."""
    rng = np.random.default_rng(seed)
    truth, skill = rng.integers(0, k, n), np.linspace(0.45, 0.95, annotators)
    given = np.where(rng.random((n, annotators)) < skill, truth[:, None], rng.integers(0, k, (n, annotators)))
    given[rng.random(given.shape) > answers] = -1
    logits = rng.normal(size=(n, k)) + 2.0 * np.eye(k)[truth]
    probs = np.exp(logits)
    return truth, given, skill + (1 - skill) / k, probs / probs.sum(axis=1, keepdims=True)


def by_name(answers, **options):
    return {item.method: item for item in consensus(answers, **options)}


def test_the_majority_is_counted_and_annotators_are_compared_with_the_others():
    _, answers, _, _ = drawn(60)
    found = by_name(answers, n_classes=4)[MAJORITY]
    right = [[] for _ in range(answers.shape[1])]
    for row, votes in enumerate(answers.tolist()):
        cast = [vote for vote in votes if vote >= 0]
        expected = [cast.count(c) / len(cast) if cast else 0.25 for c in range(4)]
        np.testing.assert_allclose(found.posterior[row], expected)
        for who, vote in enumerate(votes):
            others = [other for a, other in enumerate(votes) if a != who and other >= 0]
            if vote >= 0 and others:
                top = [c for c in range(4) if others.count(c) == max(map(others.count, range(4)))]
                right[who].append((vote in top) / len(top))
    np.testing.assert_allclose(found.quality, [np.mean(each) for each in right])


def test_dawid_and_skene_is_a_fixed_point_of_its_own_equations():
    _, answers, _, _ = drawn()
    posterior = by_name(answers, n_classes=4)[DAWID_SKENE].posterior
    prior, confusion = posterior.mean(axis=0), np.zeros((9, 4, 4))
    for a in range(9):
        for k in range(4):
            mass = posterior[answers[:, a] >= 0, k].sum()
            for label in range(4):
                confusion[a, k, label] = posterior[answers[:, a] == label, k].sum() / mass
    again = np.tile(prior, (len(answers), 1))
    for row, votes in enumerate(answers.tolist()):
        for a, vote in enumerate(votes):
            if vote >= 0:
                again[row] *= confusion[a, :, vote]
    np.testing.assert_allclose(again / again.sum(axis=1, keepdims=True), posterior, atol=1e-6)


def plain_dawid_skene(answers, k, steps=4000):
    """The same estimate by as many plain steps as it takes, with a dense (n, A, K) array of answers."""
    cast = (answers[:, :, None] == np.arange(k)).astype(float)
    posterior = cast.sum(axis=1) / cast.sum(axis=(1, 2))[:, None]
    for _ in range(steps):
        mass = np.tensordot(posterior, cast, (0, 0)).transpose(1, 0, 2)  # annotator, class, answer
        logs = np.log(np.maximum(mass, 1e-300)) - np.log(np.maximum(mass.sum(axis=2, keepdims=True), 1e-300))
        sums = np.log(posterior.mean(axis=0)) + np.tensordot(cast, logs, ((1, 2), (0, 2)))
        new = np.exp(sums - sums.max(axis=1, keepdims=True))
        new /= new.sum(axis=1, keepdims=True)
        if np.abs(new - posterior).max() < 1e-9:
            break
        posterior = new
    return new


def test_dawid_and_skene_of_many_annotators_is_that_of_as_many_steps_as_it_takes():
    rng = np.random.default_rng(5)
    truth, skill = rng.integers(0, 4, 250), rng.uniform(0.4, 0.95, 40)
    given = np.where(rng.random((250, 40)) < skill, truth[:, None], rng.integers(0, 4, (250, 40)))
    given[rng.random(given.shape) > 0.12] = -1
    given = given[(given >= 0).any(axis=1)]
    found, expected = by_name(given, n_classes=4)[DAWID_SKENE].posterior, plain_dawid_skene(given, 4)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.abs(plain_dawid_skene(given, 4, steps=100) - expected).max() > 0.01  # so few do not converge


def test_crowdlab_follows_its_formulas():
    _, answers, _, probs = drawn(80)
    found = by_name(answers, probs=probs)[CROWDLAB]
    cast = [[(a, vote) for a, vote in enumerate(votes) if vote >= 0] for votes in answers.tolist()]
    counts = [np.bincount([vote for _, vote in votes], minlength=4) for votes in cast]
    majority = [
        max(np.flatnonzero(c == c.max()), key=lambda k, p=p: p[k]) for c, p in zip(counts, probs, strict=True)
    ]
    several = [row for row, votes in enumerate(cast) if len(votes) > 1]
    p = np.mean([counts[row][majority[row]] / len(cast[row]) for row in several])
    frequent = np.argmax(np.sum(counts, axis=0))
    error = np.mean([majority[row] != frequent for row in several])
    pairs = [[] for _ in range(9)]
    for row in several:
        for a, vote in cast[row]:
            pairs[a] += [vote == other for b, other in cast[row] if b != a]
    weights = [1 - (1 - np.mean(each)) / error for each in pairs]
    wrong = np.mean([probs[row].argmax() != majority[row] for row in several])
    of_model = (1 - wrong / error) * np.sqrt(np.mean([len(votes) for votes in cast]))
    for row, votes in enumerate(cast):
        total, sums = of_model, of_model * probs[row]
        for a, vote in votes:
            total, sums = total + weights[a], sums + weights[a] * np.where(np.arange(4) == vote, p, (1 - p) / 3)
        np.testing.assert_allclose(found.posterior[row], sums / total)


def test_planted_truth_and_skill_are_found():
    truth, answers, skill, probs = drawn(4000, annotators=12, answers=0.3)
    found = by_name(answers, probs=probs)
    accuracy = {name: float((item.labels == truth).mean()) for name, item in found.items()}
    assert accuracy[CROWDLAB] > accuracy[DAWID_SKENE] > accuracy[MAJORITY]
    np.testing.assert_allclose(found[DAWID_SKENE].quality, skill, atol=0.06)
    for item in found.values():
        assert np.all(np.diff(item.quality[[0, 4, 8, 11]]) > 0)
        assert item.held_back.n == int(((answers >= 0).sum(axis=1) >= 3).sum())


def test_names_of_classes_and_annotators_do_not_matter():
    _, answers, _, probs = drawn(200)
    order, people = np.array([2, 0, 3, 1]), np.random.default_rng(0).permutation(9)
    renamed = np.where(answers >= 0, np.argsort(order)[answers], -1)[:, people]
    for first, second in zip(
        consensus(answers, probs=probs), consensus(renamed, probs=probs[:, order]), strict=True
    ):
        np.testing.assert_allclose(first.posterior[:, order], second.posterior, atol=1e-6)
        np.testing.assert_allclose(first.quality[people], second.quality, atol=1e-6)


def test_unanimous_answers_and_examples_without_any():
    answers = np.array([[0, 0, -1], [1, 1, -1], [-1, -1, -1], [1, -1, -1]])
    for item in consensus(answers, probs=np.array([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.5, 0.5]])):
        assert item.labels[[0, 1, 3]].tolist() == [0, 1, 1]
        assert np.isfinite(item.posterior).all()
        assert np.isnan(item.quality[2])
        assert item.held_back is None
    assert count_answers(answers, 2).tolist() == [[2, 0], [0, 2], [0, 0], [0, 1]]


@pytest.mark.parametrize(
    "answers",
    [np.zeros(3, dtype=int), np.full((3, 2), -1), [[0.5, 1.0]], [[0, -2]], [["a"]], np.zeros((0, 2), int)],
)
def test_other_answers_are_refused(answers):
    with refused("answers"):
        consensus(answers)


def test_probabilities_of_another_shape_are_refused():
    with refused("probs"):
        consensus([[0, 1], [1, 1]], probs=[[0.5, 0.5]])
    with refused("answers"):
        consensus([[0, 3], [1, 1]], n_classes=2)
