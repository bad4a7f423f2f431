"""Pages about confusion with awkward examples: ids without end, one example, a telephone's width."""

import numpy as np
import pytest

from hardpan.cli import main

OVERLAPS = """() => [...document.querySelectorAll('td, th')].filter(cell => {
    const text = document.createRange();
    text.selectNodeContents(cell);
    return text.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
}).length"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    rows = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 3, 30))
    np.savez(folder / "long.npz", probs=rows, ids=np.array([f"{i:0300d}" for i in range(30)]))
    np.savez(folder / "one.npz", probs=rows[:, :, :1], labels=[0])
    for name in ("long", "one"):
        with pytest.raises(SystemExit) as ended:
            main(["confusion", "score", str(folder / f"{name}.npz"), "--out", str(folder / name)])
        assert ended.value.code == 0
    return folder


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["long", "one"])
def test_no_cell_runs_into_its_neighbour_and_nothing_leaves_the_page(browser, pages, name, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    faults = []
    page.on("pageerror", lambda error: faults.append(error))
    try:
        page.goto((pages / name / "index.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        page.wait_for_selector("table td:visible")
        assert page.evaluate(OVERLAPS) == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        shown = page.inner_text("body")
    finally:
        page.close()
    assert not faults
    assert "1 examples" not in shown
    assert "nan" not in shown
