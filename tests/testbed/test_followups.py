"""Follow-up hypotheses: answers known by hand, by planting, or by another route."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from typer.testing import CliRunner

from hardpan.cli import testbed_items
from hardpan.errors import InputError
from hardpan.stats import cohen_kappa
from hardpan.testbed import followups, gallery, items, shared_errors

RIGHT = np.random.default_rng(0).random((4, 300)) < np.array([[0.9], [0.8], [0.7], [0.6]])
NAMES = ("a", "b", "c", "d")


# Near-duplicates


@given(st.floats(0.3, 0.95), st.floats(0, 0.3), st.floats(0.5, 1))
def test_true_accuracy_undoes_the_mixture(rest: float, share: float, known: float) -> None:
    whole = (1 - share) * rest + share * known
    assert followups.true_accuracy(whole, share, known) == pytest.approx(rest)


def test_paper_s_example() -> None:
    assert 0.93 - followups.true_accuracy(0.93, 0.08) == pytest.approx(0.006, abs=1e-3)


@pytest.mark.parametrize("arguments", [(0.05, 0.08), (0.9, 1.0), (0.9, 0.1, 1.5), (1.2, 0.0), (0.99, 0.5, 0.0)])
def test_impossible_mixtures_are_refused(arguments: tuple[float, ...]) -> None:
    with pytest.raises(InputError):
        followups.true_accuracy(*arguments)


def test_duplicates_are_taken_out_and_the_drop_is_split() -> None:
    marked = np.arange(300) < 24
    right = RIGHT | marked
    for row, found in zip(right, followups.without_duplicates(NAMES, right, marked, [0.5] * 4), strict=True):
        assert found.on_duplicates.value == 1.0
        assert found.without.value == row[24:].mean()
        assert found.without.value == pytest.approx(followups.true_accuracy(row.mean(), 0.08))
        assert found.explained + found.left == pytest.approx(found.drop)
        exact = binomtest(int(row[24:].sum()), 276).proportion_ci(method="exact")
        assert (found.without.low, found.without.high) == pytest.approx((exact.low, exact.high))
    assert np.isnan(followups.without_duplicates(NAMES, right, marked)[0].drop)
    with pytest.raises(InputError, match="every example"):
        followups.without_duplicates(NAMES, right, np.ones(300))


# Classes, parts, bins


def test_balanced_accuracy_covers_the_truth() -> None:
    rng = np.random.default_rng(1)
    labels, chance = np.repeat([0, 1, 2], [500, 100, 20]), np.array([0.9, 0.6, 0.5])
    inside = 0
    for _ in range(300):
        right = rng.random((1, 620)) < chance[labels]
        found = followups.class_balanced(["m"], right, labels)[0].balanced
        inside += found.low <= chance.mean() <= found.high
    assert inside >= 273  # 95 % of 300, less four standard errors


def test_balanced_equals_plain_where_classes_are_balanced() -> None:
    for found in followups.class_balanced(NAMES, RIGHT, np.arange(300) % 10):
        assert found.balanced.value == pytest.approx(found.accuracy.value)


def test_parts_add_up() -> None:
    parts = np.array(["x", "y", "z"])[np.arange(300) % 3]
    found = followups.by_part(NAMES, RIGHT, parts)
    for model, row in zip(NAMES, RIGHT, strict=True):
        own = [item.accuracy for item in found if item.model == model]
        assert sum(item.n for item in own) == 300
        assert sum(item.value * item.n for item in own) == pytest.approx(row.sum())


def test_frequency_bins_find_a_planted_slope() -> None:
    rng = np.random.default_rng(2)
    frequency = rng.integers(0, 11, 6000) / 10
    right = rng.random((1, 6000)) < 0.3 + 0.6 * frequency
    found = followups.by_frequency(["m"], right, frequency)
    assert [item.part for item in found] == ["[0, 0.2)", "[0.2, 0.4)", "[0.4, 0.6)", "[0.6, 0.8)", "[0.8, 1]"]
    assert [item.accuracy.n for item in found] == [
        int(((frequency * 10).round() // 2 == i).sum()) + (int((frequency == 1).sum()) if i == 4 else 0)
        for i in range(5)
    ]
    for item, middle in zip(found, (0.05, 0.25, 0.45, 0.65, 0.9), strict=True):
        assert item.accuracy.value == pytest.approx(0.3 + 0.6 * middle, abs=0.05)
    with pytest.raises(InputError, match=r"0\.\.1"):
        followups.by_frequency(["m"], right, frequency * 10)


def test_attribute_bins_hold_equal_shares_and_survive_ties() -> None:
    values = np.random.default_rng(0).permutation(300).astype(float)
    assert {item.accuracy.n for item in followups.by_attribute(NAMES, RIGHT, values, bins=5)} == {60}
    assert len(followups.by_attribute(NAMES, RIGHT, np.zeros(300))) == 4


def test_image_attributes_by_hand() -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 255
    half = np.zeros((4, 4), np.float64)
    half[:2] = 1
    found = followups.image_attributes([red, half])
    assert found["brightness"].tolist() == pytest.approx([0.299, 0.5])
    assert found["contrast"].tolist() == pytest.approx([0, 0.5])
    assert found["grey"].tolist() == pytest.approx([0, 1])
    assert found["size"].tolist() == [4, 16]
    for bad in ([np.zeros(3)], [np.full((2, 2), 7.0)], []):
        with pytest.raises(InputError, match="images"):
            followups.image_attributes(bad)


# Shared errors


def test_kappa_of_all_pairs_is_that_of_each() -> None:
    for pair, (i, j) in zip(
        shared_errors.shared_errors(NAMES, RIGHT), itertools.combinations(range(4), 2), strict=True
    ):
        expected = cohen_kappa(RIGHT[i], RIGHT[j])
        assert pair.kappa.value == pytest.approx(expected.value)
        assert pair.kappa.stderr == pytest.approx(expected.stderr)
        assert pair.both == (~RIGHT[i] & ~RIGHT[j]).sum()
        assert abs(pair.kappa.value) < 4 * pair.kappa.stderr  # these models err independently


def test_same_wrong_answers_are_counted() -> None:
    labels = np.zeros(6, int)
    predictions = np.array([[0, 1, 2, 1, 0, 0], [0, 1, 1, 0, 2, 0]])
    pair = shared_errors.shared_errors(["a", "b"], predictions == labels, predictions)[0]
    assert (pair.both, pair.same_answer) == (2, 0.5)


def test_never_right_finds_what_was_planted() -> None:
    right = RIGHT.copy()
    right[0] = True
    right[:, [3, 77]] = False
    assert shared_errors.never_right(right).tolist() == [3, 77]


@pytest.mark.parametrize("right", [np.zeros(3), np.full((4, 2), 2), np.zeros((3, 5))])
def test_bad_right_is_refused(right: np.ndarray) -> None:
    with pytest.raises(InputError, match="right must"):
        followups.by_part(NAMES, right, ["x"] * right.shape[-1])


def test_sheet_holds_every_image_and_the_png_its_pixels() -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 3)).astype(np.uint8)
    sheet = gallery.contact_sheet(images, columns=2)
    for i, image in enumerate(images):
        top, left = 2 + i // 2 * 5, 2 + i % 2 * 6
        np.testing.assert_array_equal(sheet[top : top + 3, left : left + 4], image)
    content = gallery.png(sheet)
    at, found = 8, {}
    while at < len(content):
        size, name = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + size]
        assert struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0] == zlib.crc32(name + body)
        found[name], at = body, at + 12 + size
    assert struct.unpack(">II", found[b"IHDR"][:8]) == (sheet.shape[1], sheet.shape[0])
    lines = np.frombuffer(zlib.decompress(found[b"IDAT"]), np.uint8).reshape(sheet.shape[0], -1)
    np.testing.assert_array_equal(lines[:, 1:].reshape(sheet.shape), sheet)
    grey = gallery.contact_sheet(np.full((1, 2, 2), 0.5), scale=3)
    assert grey.shape == (10, 10, 3)
    assert grey[2, 2].tolist() == [128, 128, 128]
    for bad in (np.zeros(3), np.full((1, 2, 2), 2.0), np.zeros((0, 2, 2))):
        with pytest.raises(InputError, match="images must"):
            gallery.contact_sheet(bad)


# The commands


@pytest.fixture
def files(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    skills, hard = np.linspace(-0.7, 0.9, 6), rng.normal(-0.5, 1, 400)
    for name, extra in (("original", 0.0), ("new", 0.5)):
        right = skills[:, None] - hard - extra + rng.standard_normal((6, 400)) > 0
        np.savez(tmp_path / f"{name}.npz", right=right, models=[f"m{i}" for i in range(6)])
        with (tmp_path / f"{name}.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", *(f"m{i}" for i in range(6))])
            writer.writerows([f"e{n}", *column] for n, column in enumerate(right.T.astype(int).tolist()))
    with (tmp_path / "examples.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "duplicate", "label", "frequency", "source"])
        writer.writerows([f"e{n}", int(n % 10 == 0), n % 4, n % 11 / 10, "xy"[n % 2]] for n in reversed(range(400)))
    np.savez(tmp_path / "images.npz", x=rng.random((400, 4, 4)), y=np.arange(400) % 4)
    np.savez(tmp_path / "others.npz", x=rng.random((400, 4, 4)) ** 2, y=np.arange(400) % 4)
    return tmp_path


def run(files: Path, line: str) -> object:
    app = typer.Typer()
    testbed_items.register(app)
    words = [str(files / word) if (files / word).exists() or word == "out" else word for word in line.split()]
    plain = CliRunner().invoke(app, words, catch_exceptions=False)
    assert plain.exit_code == 0, plain.output
    assert plain.output.strip()
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_items_command_reads_both_forms_and_writes_a_page(files: Path) -> None:
    one, other = run(files, "items original.npz"), run(files, "items original.csv --out out")
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert one["skills"] == other["skills"]
    assert one["kind"] == "ItemSummary"
    rows = list(csv.DictReader((files / "out" / "items.csv").read_text().splitlines()))
    assert len(rows) == 400
    assert rows[0]["id"] == "e0"
    assert "Item analysis" in (files / "out" / "index.html").read_text()
    assert json.loads((files / "out" / "report.json").read_text())["examples"] == 400


def test_parquet_and_long_tables_give_the_same(files: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    with np.load(files / "original.npz") as stored:
        right = stored["right"]
    table = pyarrow.table({"model": [f"m{i}" for i in range(6)], **{f"e{n}": right[:, n] for n in range(400)}})
    parquet.write_table(table, files / "matrix.parquet")
    long = "model,id,correct\n" + "".join(f"m{i},e{n},{int(right[i, n])}\n" for i in range(6) for n in range(400))
    (files / "long.csv").write_text(long)
    skills = [run(files, f"items {name}")["skills"] for name in ("original.npz", "matrix.parquet", "long.csv")]  # type: ignore[index]
    for other in skills[1:]:
        for a, b in zip(skills[0], other, strict=True):
            assert a[0] == b[0]
            assert a[1:] == pytest.approx(b[1:], abs=1e-6)


def test_other_commands_answer(files: Path) -> None:
    assert run(files, "scale original.npz new.npz")["p_value"] > 1e-4  # type: ignore[index]
    assert run(files, "discriminate images.npz others.npz")["p_value"] < 0.01  # type: ignore[index]
    found = run(files, "duplicates original.csv --examples examples.csv --new new.csv")
    assert len(found) == 6  # type: ignore[arg-type]
    assert found[0]["on_duplicates"]["n"] == 40  # type: ignore[index]
    assert len(run(files, "balanced original.csv --examples examples.csv")) == 6  # type: ignore[arg-type]
    assert len(run(files, "breakdown original.csv --examples examples.csv --by source")) == 12  # type: ignore[arg-type]
    assert len(run(files, "breakdown original.csv --examples examples.csv --by frequency")) == 30  # type: ignore[arg-type]
    assert len(run(files, "breakdown original.csv --images images.npz --by contrast")) == 30  # type: ignore[arg-type]
    assert run(files, "shared-errors original.csv")["kind"] == "Section"  # type: ignore[index]
    run(files, f"shared-errors original.csv --images images.npz --gallery {files / 'hard.png'}")
    assert (files / "hard.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "line",
    [
        "items nothing.npz",
        "items images.npz",
        "items original.npz --model 3pl",
        "breakdown original.csv",
        "shared-errors original.csv --gallery hard.png",
        "breakdown original.csv --images images.npz --by smell",
        "duplicates original.csv --examples examples.csv --column none",
        "discriminate images.npz others.npz --classifier tree",
    ],
)
def test_bad_commands_are_refused_in_one_sentence(files: Path, line: str) -> None:
    app = typer.Typer()
    testbed_items.register(app)
    words = [str(files / word) if (files / word).exists() else word for word in line.split()]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, InputError)


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".npz", ".csv", ".json", ".parquet", ".x"]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_matrix_file_is_read_or_refused(tmp_path: Path, content: bytes, suffix: str) -> None:
    path = tmp_path / f"matrix{suffix}"
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        items.read_matrix(path)


@given(text=st.text(alphabet="model,id correct\n01a.-", max_size=80))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_table_is_read_or_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with contextlib.suppress(InputError):
        items.read_matrix(path)


def test_shared_errors_are_counted_and_kappa_is_that_of_the_errors() -> None:
    rng = np.random.default_rng(0)
    right = rng.random((4, 300)) < np.array([[0.9], [0.8], [0.5], [1.1]])
    names = ["a", "b", "c", "always"]
    rows = shared_errors.shared_errors(names, right, confidence=0.9)
    assert len(rows) == 6
    for row in rows:
        first, second = (~right[names.index(name)] for name in (row.first, row.second))
        assert row.both == (first & second).sum()
        assert row.expected == pytest.approx(first.sum() * second.sum() / 300)
        expected = cohen_kappa(first, second, 0.9)
        for ours, theirs in ((row.kappa.value, expected.value), (row.kappa.low, expected.low),
                             (row.kappa.high, expected.high)):  # fmt: skip
            assert ours == pytest.approx(theirs, nan_ok=True)
