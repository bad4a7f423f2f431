"""Every kind of chart at three widths, light and dark, against reference pictures.

Fonts differ between machines, so axes and text, which are grey, are compared at low resolution only. Marks are
coloured: their pixels are counted by hue and by position. ``HARDPAN_WRITE_REFERENCES=1`` writes the references
again; look at them before they are committed.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from tests.pages.samples import EVERY

from hardpan.pages.html_page import view_page
from hardpan.pages.sections import Section, View

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore::ResourceWarning")]
FOLDER = Path(__file__).parent / "references"
WIDTHS = (320, 768, 1280)
SMALL = 48  # pixels: width at which pictures are compared
MOST_DIFFERENT = 5.0  # mean difference of grey levels, 0..255
MOST_TALLER = 0.12
COLOURED = 50  # least difference between the largest and the smallest of red, green and blue
MOST_REPAINTED = 0.3  # coloured pixels, more or fewer
MOST_MOVED = 0.3  # of the coloured pixels: another hue, or in another cell of a grid of CELLS
CELLS = (6, 8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("charts") / "index.html"
    section = Section("Charts", charts=tuple(EVERY.values()))
    path.write_text(view_page(View("Every kind", "Charts.", (section,))), encoding="utf-8")
    return path


def pictures(browser, path, width, scheme):
    """A picture of each chart, by kind, in half of its size."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.live:has(svg .mark-group)').length >= {len(EVERY)}")
    page.wait_for_timeout(300)
    shots = {}
    for number, kind in enumerate(EVERY, 1):
        target = path.parent / f"{kind}.png"
        page.locator(f"#chart-{number}").screenshot(path=target)
        image = Image.open(target).convert("RGB")
        half = image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
        shots[kind] = ImageOps.posterize(half, 5)  # small files; a palette would change the hues
    context.close()
    return shots


def small(image):
    size = (SMALL, max(1, round(SMALL * image.height / image.width)))
    return np.asarray(image.convert("L").resize(size, Image.Resampling.BOX), dtype=np.float64)


def marks(image):
    """Coloured pixels by hue (red, green or blue is the largest) and cell of a grid."""
    pixels = np.asarray(image.convert("RGB")).astype(int)
    coloured = pixels.max(axis=2) - pixels.min(axis=2) >= COLOURED
    hue = pixels.argmax(axis=2)
    rows, columns = (np.arange(n) * cells // n for n, cells in zip(coloured.shape, CELLS, strict=True))
    count = np.zeros((3, *CELLS))
    y, x = np.nonzero(coloured)
    np.add.at(count, (hue[y, x], rows[y], columns[x]), 1)
    return count


def difference(now, reference):
    """What differs between two pictures of one chart, in words; empty if they look alike."""
    if abs(now.height - reference.height) > MOST_TALLER * reference.height + 4:
        return "another height"
    now = now.resize(reference.size)
    if np.abs(small(now) - small(reference)).mean() >= MOST_DIFFERENT:
        return "other shades"
    new, old = marks(now), marks(reference)
    if abs(new.sum() - old.sum()) > MOST_REPAINTED * old.sum():
        return "more or fewer marks"
    moved = np.abs(new / max(new.sum(), 1.0) - old / max(old.sum(), 1.0)).sum() / 2
    return "marks moved or have other colours" if moved > MOST_MOVED else ""


def references(sheet):
    """The reference pictures of a sheet, by kind."""
    with Image.open(sheet) as opened:
        heights = [int(height) for height in opened.text["heights"].split()]
        widths = [int(width) for width in opened.text["widths"].split()]
        whole = opened.convert("RGB")
    assert len(heights) == len(EVERY), "a kind was added or removed: write the references again"
    tops = np.cumsum([0, *heights])
    return {
        kind: whole.crop((0, int(top), width, int(top) + height))
        for kind, top, height, width in zip(EVERY, tops[:-1], heights, widths, strict=True)
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_charts_look_like_their_reference_pictures(browser, path, width, scheme):
    shots = pictures(browser, path, width, scheme)
    sheet = FOLDER / f"charts-{width}-{scheme}.png"
    if os.environ.get("HARDPAN_WRITE_REFERENCES"):
        FOLDER.mkdir(exist_ok=True)
        write(shots, sheet)
    different = {kind: difference(shots[kind], image) for kind, image in references(sheet).items()}
    assert not {kind: words for kind, words in different.items() if words}


def changed(image, change):
    """A picture whose coloured pixels are erased, or have red and blue exchanged."""
    pixels = np.asarray(image).copy()
    coloured = pixels.max(axis=2).astype(int) - pixels.min(axis=2) >= COLOURED
    pixels[coloured] = pixels[0, 0] if change == "erased" else pixels[coloured][:, ::-1]
    return Image.fromarray(pixels)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_chart_that_changes_differs_from_its_reference(width, scheme):
    for kind, image in references(FOLDER / f"charts-{width}-{scheme}.png").items():
        assert difference(image, image) == ""
        assert difference(changed(image, "erased"), image), kind
        assert difference(changed(image, "exchanged"), image), kind


def write(shots, sheet):
    """All pictures one below the other, with their heights in the file."""
    from PIL.PngImagePlugin import PngInfo

    whole = Image.new(
        "RGB", (max(shot.width for shot in shots.values()), sum(shot.height for shot in shots.values()))
    )
    top = 0
    for shot in shots.values():
        whole.paste(shot, (0, top))
        top += shot.height
    notes = PngInfo()
    notes.add_text("heights", " ".join(str(shot.height) for shot in shots.values()))
    notes.add_text("widths", " ".join(str(shot.width) for shot in shots.values()))
    whole.save(sheet, optimize=True, pnginfo=notes)
