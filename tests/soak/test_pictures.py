"""Every kind of chart at three widths, light and dark, against reference pictures.

The comparison is tolerant: fonts differ between machines. ``HARDPAN_WRITE_REFERENCES=1`` writes the references
again; look at them before they are committed.
"""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.report.samples import EVERY

from hardpan.report import page as write_page
from hardpan.report.sections import Section

pytestmark = [pytest.mark.soak, pytest.mark.filterwarnings("ignore::ResourceWarning")]
FOLDER = Path(__file__).parent / "references"
WIDTHS = (320, 768, 1280)
SMALL = 48  # pixels: width at which pictures are compared
MOST_DIFFERENT = 5.0  # mean difference of grey levels, 0..255
MOST_TALLER = 0.12


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("charts") / "index.html"
    section = Section("Charts", charts=tuple(EVERY.values()))
    path.write_text(write_page([section], title="Every kind", headline="Charts."), encoding="utf-8")
    return path


def pictures(browser, path, width, scheme):
    """A picture of each chart, by kind, in half of its size."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function(f"document.querySelectorAll('.live svg .mark-group').length >= {len(EVERY)}")
    page.wait_for_timeout(300)
    shots = {}
    for number, kind in enumerate(EVERY, 1):
        target = path.parent / f"{kind}.png"
        page.locator(f"#chart-{number}").screenshot(path=target)
        image = Image.open(target).convert("RGB")
        shots[kind] = image.resize((image.width // 2, image.height // 2), Image.Resampling.LANCZOS)
    context.close()
    return shots


def small(image):
    size = (SMALL, max(1, round(SMALL * image.height / image.width)))
    return np.asarray(image.convert("L").resize(size, Image.Resampling.BOX), dtype=np.float64)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_charts_look_like_their_reference_pictures(browser, path, width, scheme):
    shots = pictures(browser, path, width, scheme)
    sheet = FOLDER / f"charts-{width}-{scheme}.png"
    if os.environ.get("HARDPAN_WRITE_REFERENCES"):
        FOLDER.mkdir(exist_ok=True)
        write(shots, sheet)
    whole = Image.open(sheet).convert("RGB")
    heights = [int(height) for height in Image.open(sheet).text["heights"].split()]
    assert len(heights) == len(shots), "a kind was added or removed: write the references again"
    top = 0
    for height, (kind, shot) in zip(heights, shots.items(), strict=True):
        reference = whole.crop((0, top, shot.width, top + height))
        top += height
        assert abs(shot.height - height) <= MOST_TALLER * height + 4, f"{kind} has another height"
        now = small(shot.resize((shot.width, height)))
        assert np.abs(now - small(reference)).mean() < MOST_DIFFERENT, f"{kind} looks different"


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
    whole.quantize(128, dither=Image.Dither.NONE).save(sheet, optimize=True, pnginfo=notes)
