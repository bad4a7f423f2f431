import json

import numpy as np
import pytest

from hardpan import auditing, files
from hardpan.auditing import evidence
from hardpan.data.dataset import Dataset, content_ids
from hardpan.errors import InputError

BARE = {"ensemble": "none", "flow": "none"}  # nothing is trained: what is left needs features alone


def made(x, labels, split=None, k=None):
    labels = None if labels is None else np.asarray(labels, dtype=np.int64)
    names = () if labels is None else tuple(map(str, range(k or int(labels.max()) + 1)))
    return Dataset("made", x, content_ids(x), labels, names, split)


def blobs(n=300, d=4, k=3, distance=4.0, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    means = distance * np.eye(max(k, d))[:k, :d]
    return made(means[labels] + rng.normal(size=(n, d)), labels)


@pytest.fixture(scope="module")
def digits():
    return auditing.audit("digits", **BARE)


@pytest.fixture(scope="module")
def digits_page(digits):
    return digits.to_html()


@pytest.fixture(scope="module")
def audit_of_blobs():
    return auditing.audit(blobs(), **BARE)


def test_the_audit_of_digits(digits):
    titles = ["The floor", "Which examples are hard?", "Data quality", "What is in it"]
    assert [section.title for section in digits.sections] == titles
    found = digits.sections[0].estimates
    model, bound = found["Gaussian model"], found["Nearest-neighbour bound"]
    plug_in, neighbour = found["Gaussian classifier"], found["Nearest neighbour"]
    assert 0 < bound.value < neighbour.value < 0.05
    assert 0 < model.value < plug_in.value < 0.1
    assert plug_in.n == neighbour.n == 359
    assert [tile.title for tile in digits.tiles] == [
        "Floor",
        "Best model",
        "Headroom",
        "Errors in the confusing tenth",
        "Drop on fresh data",
    ]
    assert all(tile.detail for tile in digits.tiles)
    assert digits.headline.startswith("On digits the lowest possible error is")
    assert digits.measures["best_error"].value == min(
        found[name].value for name in ("Nearest neighbour", "3 nearest neighbours", "Gaussian classifier")
    )
    assert "needs the predictions of several seeds" in digits.sections[1].sentences[0]


def test_the_report_is_read_back_and_is_the_same_every_time(digits, digits_page):
    assert files.from_json(json.loads(digits.to_json())) == digits
    again = auditing.audit("digits", **BARE)
    assert again == digits
    assert again.to_html() == digits_page


def test_a_dataset_may_be_given_in_place_of_its_name(audit_of_blobs):
    data, found = blobs(), audit_of_blobs
    assert found.dataset == "made"
    assert found.provenance.command == ""
    assert found.provenance.hashes["Examples, sha256"] == files.array_hash(data.x)


def test_numbers_are_those_of_a_linear_discriminant_and_a_neighbour_by_scikit_learn(digits):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.neighbors import KNeighborsClassifier

    data = Dataset.open("digits")
    parts, x, y = data.splits(), data.features(), data.labels
    found = digits.sections[0].estimates
    for name, model in {
        "Gaussian classifier": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.0292),
        "Nearest neighbour": KNeighborsClassifier(1),
    }.items():
        wrong = model.fit(x[parts.train], y[parts.train]).predict(x[parts.test]) != y[parts.test]
        assert found[name].value == pytest.approx(wrong.mean(), abs=0.5 / len(wrong) * 3)


def test_gaussian_data_keep_their_known_floor():
    from scipy.stats import norm

    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, 6000)
    x = rng.normal(size=(6000, 3))
    x[:, 0] += 2 * labels
    section = auditing.audit(made(x, labels), **BARE).sections[0]
    known = norm.cdf(-1)
    # 0.0042 is the standard deviation of the fitted model's floor over samples of 3,600 training examples.
    assert section.estimates["Gaussian model"].value == pytest.approx(known, abs=4 * 0.0042)
    assert section.estimates["Gaussian classifier"].low < known
    low, high = section.charts[0].options["bracket"]
    assert low < known < high
    verdicts = {row[0]: row[3] for row in section.tables[0].rows}
    assert verdicts["Gaussian model"] == "stands"


def test_a_model_that_is_wrong_is_refuted():
    # Three clusters on a line, the outer two of one class: a Gaussian model sees nothing, a neighbour everything.
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, 900)
    x = np.column_stack([10.0 * place, np.zeros(900)]) + rng.normal(size=(900, 2))
    found = auditing.audit(made(x, (place == 1).astype(int)), **BARE)
    roles = {row["name"]: row["role"] for row in found.sections[0].charts[0].rows}
    assert roles["Gaussian model"] == "refuted"
    assert roles["Nearest-neighbour bound"] == "floor"
    assert "refuted by that limit: Gaussian model" in found.sections[0].sentences[0]
    assert found.verdicts["gaussian_floor"].status == "refuted"
    assert found.verdicts["gaussian_floor"].against == found.measures["bracket"].method.removeprefix(
        "upper limit of "
    )


def test_the_lede_counts_the_estimates_and_leaves_the_long_sentence_to_its_section(digits, digits_page):
    claims = [row for row in digits.sections[0].tables[0].rows if row[1] in ("estimate", "lower end")]
    standing = [row[0] for row in claims if row[3] == "stands"]
    assert digits.lede[0].startswith(
        f"Of {len(claims)} estimates of the floor {len(standing)} stand: {standing[0]}"
    )
    assert digits.sections[0].sentences[0] not in digits_page.partition("<main")[0]
    assert len(digits.lede[0]) < 250


def test_a_set_without_near_duplicates_is_told_so():
    grid = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), axis=-1).reshape(-1, 2)
    labels = (grid[:, 0] > 9).astype(int)
    quality = auditing.audit(made(grid, labels), **BARE).sections[2].sentences
    assert any(
        sentence.startswith("No test example has a near-duplicate in the training part") for sentence in quality
    )
    close, again = np.vstack([grid, grid[::10] + 1e-3]), np.concatenate([labels, labels[::10]])
    found = auditing.audit(made(close, again), **BARE).sections[2].sentences
    assert any(sentence.endswith("a model may know the answer by heart.") for sentence in found)


def test_the_table_of_classes_has_bars_and_numbers_to_sort_by(digits, digits_page):
    table = digits.sections[-1].tables[0]
    assert table.bars == ("examples",)
    html = digits_page
    assert html.count('class="bar"') == 10
    largest = max(row[1] for row in table.rows)
    for row in table.rows:
        assert (
            f'data-value="{row[1]}">{row[1]}<i class="bar" style="--length: {100 * row[1] / largest:.1f}%"' in html
        )


def test_features_of_any_scale_and_offset_give_the_same_audit(audit_of_blobs):
    data = blobs()
    other = made(data.x * np.array([1e-200, 1e200, 1.0, 50.0]) + np.array([0.0, 0.0, 1e6, -3.0]), data.labels)
    kept = Dataset("made", other.x, data.ids, data.labels, data.class_names)
    first, second = audit_of_blobs.sections[0].estimates, auditing.audit(kept, **BARE).sections[0].estimates
    for name, item in first.items():
        assert second[name].value == pytest.approx(item.value, rel=1e-5)


@pytest.mark.parametrize(
    ("x", "labels", "message"),
    [
        (np.eye(20), None, "has no labels"),
        (np.eye(20), np.zeros(20), "all examples are of one class"),
        (np.eye(2), [0, 1], "has 2 examples"),
        (np.full((20, 2), np.nan), np.arange(20) % 2, "row 0 holds NaN"),
        (np.eye(20), np.arange(19) % 2, r"must have shape \(20,\)"),
        (np.arange(20.0), np.arange(20) % 2, "reshape"),
        (np.ones((30, 3)), np.arange(30) % 2, "copies of one another"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_sentence(x, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        auditing.audit(made(x, labels), **BARE)
    assert "\n" not in str(caught.value)


def test_a_training_part_of_one_class_is_refused():
    split = np.repeat(["train", "test"], [20, 5])
    data = made(np.arange(25.0)[:, None], np.repeat([0, 1], [20, 5]), split)
    with pytest.raises(InputError, match="the training part holds one class only"):
        auditing.audit(data, **BARE)


@pytest.mark.parametrize(
    "data",
    [
        made(np.hstack([blobs().x, np.ones((300, 2))]), blobs().labels),
        made(np.hstack([blobs().x, blobs().x]), blobs().labels),
        blobs(n=40, d=200),
        blobs(n=12, d=2, k=2),
        made(np.random.default_rng(0).integers(0, 255, (60, 5, 5, 3), dtype=np.uint8), np.arange(60) % 2),
        made(np.repeat(np.eye(10), 3, axis=0), np.repeat(np.arange(10), 3) % 2),
        made(np.arange(100.0)[:, None], np.arange(100)),
    ],
    ids=["constant features", "singular", "d > n", "few", "images", "copies", "one of each"],
)
def test_hard_cases_give_a_report(data, tmp_path):
    found = auditing.audit(data, **BARE)
    found.save(tmp_path)
    assert files.load(tmp_path / "report.json") == found


def test_ten_thousand_classes(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10_000), 3)
    data = made(rng.normal(size=(10_000, 8))[labels] + 0.01 * rng.normal(size=(30_000, 8)), labels)
    found = auditing.audit(data, **BARE)
    path = found.save(tmp_path)
    assert path.stat().st_size < 5_000_000
    assert any("at most 2,000 classes; got" in warning for warning in found.sections[0].warnings)
    assert len(found.sections[-1].charts[0].rows) == 60


def test_a_class_without_training_examples_is_named():
    data = blobs(n=200)
    split = np.where(data.labels == 2, "test", np.where(np.arange(200) % 3 == 0, "test", "train"))
    found = auditing.audit(Dataset("made", data.x, data.ids, data.labels, data.class_names, split), **BARE)
    assert "1 of 3 classes have no training example" in found.sections[-1].warnings[0]
    assert found.sections[0].estimates["Nearest neighbour"].value > 0.3


def test_progress_rises_and_names_every_part():
    told = []
    auditing.audit(blobs(), **BARE, progress=lambda step, fraction: told.append((step, fraction)))
    wanted = [part.step for part in auditing.PARTS if part.wanted(auditing.AuditConfig())]
    assert [step for step, _ in told if step in wanted] == wanted
    assert [fraction for _, fraction in told] == sorted(fraction for _, fraction in told)


def test_a_notebook_shows_the_page_in_a_frame(audit_of_blobs):
    shown = audit_of_blobs._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert shown.count("<") == 2


def test_every_part_sees_the_same_split():
    gathered = evidence.gather(Dataset.open("digits"), auditing.AuditConfig(seed=2))
    assert gathered.split.test.tolist() == gathered.dataset.splits(2).test.tolist()


def test_a_table_of_models_fills_the_tile_of_fresh_data(tmp_path):
    table = tmp_path / "counts.csv"
    rows = [(900 + 10 * k, 1000, 800 + 12 * k, 1000) for k in range(6)]
    lines = ["model,original_correct,original_total,new_correct,new_total"]
    lines += [f"m{k},{a},{b},{c},{d}" for k, (a, b, c, d) in enumerate(rows)]
    table.write_text("\n".join(lines) + "\n")
    found = auditing.audit("digits", testbed=(str(table),), **BARE)
    assert "Will the score hold?" in [section.title for section in found.sections]
    tile = next(tile for tile in found.tiles if tile.title == "Drop on fresh data")
    assert tile.value.startswith("9.5")  # the planted mean drop: 10 points less 0.2 a model
    assert f"--testbed {table}" in found.provenance.command
    assert "counts.csv, sha256" in found.provenance.hashes
    assert "9.5 points" in found.to_html()


def test_a_lower_end_of_pixels_near_the_ceiling_is_not_built_on():
    rng = np.random.default_rng(0)
    labels = np.arange(3000) % 3
    x = rng.normal(size=(3000, 4, 4)) + 0.2 * (np.arange(16).reshape(4, 4) % 3 == labels[:, None, None])
    found = auditing.audit(made(x, labels), **BARE)
    flat = auditing.audit(made(x.reshape(3000, 16), labels), **BARE)
    bracket, headroom, best = (found.measures[name] for name in ("bracket", "headroom", "best_error"))
    assert bracket.low >= 0.5 * bracket.high > 0
    assert (headroom.high, headroom.notes) == (best.high, ())
    assert "at most" in found.headline
    assert "single pixels" in next(tile for tile in found.tiles if tile.title == "Headroom").detail
    # The same numbers as feature vectors: there the assumption is the reader's to judge, and it is named.
    assert flat.measures["headroom"].high < flat.measures["best_error"].high
    assert any("Headroom" in line and ", if " in line for line in flat.findings)


def test_the_level_that_was_asked_for_is_that_of_every_interval():
    found = auditing.audit(blobs(), confidence=0.8, **BARE)
    for name in ("best_error", "duplicated", "headroom"):
        assert found.measures[name].confidence == 0.8
    with pytest.raises(InputError, match="confidence must lie"):
        auditing.AuditConfig(confidence=95.0)


def test_a_testbed_of_another_test_set_is_told(tmp_path):
    rows = ["model,original_correct,original_total,new_correct,new_total"]
    for total in (60, 1000):
        table = tmp_path / f"{total}.csv"
        counts = [f"m{k},{int(0.1 * k * total)},{total},{10 * k},100" for k in range(4, 9)]
        table.write_text("\n".join([*rows, *counts]))
        data = blobs()
        test = len(data.splits().test)
        found = auditing.audit(data, testbed=(str(table),), **BARE)
        section = next(part for part in found.sections if part.title == "Will the score hold?")
        told = any("original set of" in warning for warning in section.warnings)
        assert told == (total != test)
