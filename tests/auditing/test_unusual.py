"""Unusual images and rows far from all others: planted ones are listed, and as many others as is said."""

import numpy as np
import pytest
from PIL import Image

from hardpan import Dataset, auditing
from hardpan.auditing.unusual import LIMIT, image_properties, robust_scores, unusual_images

BARE = {"ensemble": "none", "flow": "none"}


def photographs(n=300, side=24, seed=0):
    """Smooth random images with noise, of many brightnesses."""
    rng = np.random.default_rng(seed)
    waves = np.sin(np.arange(side) * rng.uniform(0.3, 0.5, (n, 1)) + rng.uniform(0, 6, (n, 1)))
    images = 120 + rng.normal(0, 15, (n, 1, 1)) + 45 * waves[:, :, None] * waves[:, None, :]
    return np.clip(images + rng.normal(0, 6, images.shape), 0, 255).astype(np.uint8)


def blurred(image):
    for axis in (0, 1):
        for _ in range(4):
            image = (image + np.roll(image, 1, axis) + np.roll(image, -1, axis)) / 3
    return image


def test_planted_images_are_listed_by_what_they_are():
    images = photographs()
    assert unusual_images(images) == {}
    images[7] = 90
    images[8] = images[8] // 7
    images[9] = 255 - images[9] // 7
    images[10] = 120 + (images[10].astype(int) - 120) // 7
    images[11] = blurred(images[11].astype(float)).astype(np.uint8)
    found = {word: set(rows.tolist()) for word, (rows, _) in unusual_images(images).items()}
    assert found["one colour"] == {7}
    assert found["dark"] == {8}
    assert found["bright"] == {9}
    assert {8, 9, 10} <= found["low contrast"] <= {8, 9, 10, 11}
    assert 11 in found["blurred"]
    assert found["blurred"] <= {8, 9, 10, 11}


def test_properties_do_not_depend_on_the_unit_of_the_pixels_or_on_grey_in_three_channels():
    images = photographs(30)
    expected = image_properties(images)
    for other in (np.repeat(images[..., None], 3, axis=3), (images / 255.0 * 7 - 2).astype(np.float32)):
        for name, values in image_properties(other).items():
            if other.dtype == np.uint8:
                np.testing.assert_allclose(values, expected[name], rtol=1e-5)
            else:  # the range is that of these pixels
                assert np.corrcoef(values, expected[name])[0, 1] > 0.9999


def test_as_many_normal_values_are_beyond_the_limit_as_is_said():
    values = np.random.default_rng(0).normal(3.0, 2.0, 1_000_000)
    assert abs((robust_scores(values) > LIMIT).sum() - 31.7) < 20
    assert robust_scores(np.array([5.0] * 99 + [6.0]))[-1] > LIMIT
    assert robust_scores(np.ones(4)).tolist() == [0.0] * 4


def test_an_audit_of_files_lists_unusual_images_with_pictures(tmp_path):
    rng = np.random.default_rng(1)
    for row, image in enumerate(photographs(70)):
        name = tmp_path / "data" / ("round" if row % 2 else "square") / f"{row:03}.png"
        name.parent.mkdir(parents=True, exist_ok=True)
        shape = rng.integers(21, 26, 2)
        shape = {5: (9, 9), 6: (10, 90)}.get(row, shape)
        image = image if row != 9 else np.zeros_like(image)
        Image.fromarray(image).resize((int(shape[1]), int(shape[0]))).save(name)
    data = Dataset.open(tmp_path / "data")
    assert sorted(data.metadata["height"])[:2] == [9, 10]
    report = auditing.audit(data, **BARE, out=tmp_path / "audit")
    item = next(problem for problem in report.problems if problem.kind == "image-quality")
    by_file = dict(zip((data.metadata["path"][row] for row in item.rows), item.details["words"], strict=True))
    assert by_file["round/005.png"] == "small"
    assert by_file["square/006.png"] == "wide"
    assert by_file["round/009.png"] == "one colour"
    assert item.severity == "note"
    assert "order" not in {problem.kind for problem in report.problems}  # files of a class follow one another
    charts = [chart for part in report.sections() if part.key == "unusual" for chart in part.charts]
    assert charts[0].drawing == "gallery"
    assert {"width", "height", "brightness"} <= set(
        auditing.slices._slicing_columns(report.evidence, report.evidence.inputs.test)
    )


@pytest.mark.parametrize("official", [False, True])
def test_planted_rows_are_far_from_all_others(official):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(500, 4)), rng.integers(0, 2, 500)
    x[::10] = x[0]  # equal rows are not far from each other, and one of them is searched
    x[[17, 203]] = [[25.0, 0, 0, 0], [0, -25.0, 0, 0]]
    split = np.where(np.arange(500) < 400, "train", "test") if official else None
    report = auditing.audit(Dataset.from_arrays(x, y, split=split), **BARE)
    item = next(problem for problem in report.problems if problem.kind == "outliers")
    assert {17, 203} <= set(item.rows[:3])
    assert item.count.n == 451
    assert item.details["expected"] < 0.1
    assert len(item.rows) < 8
    assert list(item.details["distances"]) == sorted(item.details["distances"], reverse=True)
