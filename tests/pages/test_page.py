import functools
import html
import json
import platform
import re
from html.parser import HTMLParser

import pytest

import hardpan
from hardpan.estimates import Estimate
from hardpan.pages.html_page import view_page
from hardpan.pages.palette import DARK, LIGHT
from hardpan.pages.sections import Chart, Section, Table, Tile, View
from hardpan.report import Provenance, Report

EVIL = "<script>window.hacked = 1</script><img src=x onerror='hacked=1'>\"'&</title>]]>\u2028"


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@functools.cache
def evil_page():
    rows = ({"name": EVIL, "value": 0.1, "low": 0.05, "high": 0.2, "role": "refuted", "reason": EVIL},)
    section = Section(
        EVIL,
        (EVIL,),
        {EVIL: Estimate(0.1, 0.01, 0.05, 0.2, method=EVIL, n=10, notes=(EVIL,))},
        (
            Chart("intervals", EVIL, rows, EVIL, {"x_title": EVIL}),
            Chart("bars", EVIL, ({"name": EVIL, "value": 3},), EVIL, {"x_title": EVIL}),
        ),
        (Table(EVIL, (EVIL,), ((EVIL,),)),),
        (EVIL,),
    )
    made = Provenance((EVIL,), (EVIL,), EVIL, 0, {EVIL: EVIL}, {EVIL: EVIL}, (EVIL,))
    tiles = (Tile(EVIL, EVIL, EVIL),)
    return view_page(View(EVIL, EVIL, (section,), lede=(EVIL,), tiles=tiles, provenance=made))


def test_text_from_outside_is_inert_everywhere():
    tags = Tags()
    tags.feed(evil_page())
    scripts = [attributes for tag, attributes in tags.found if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "chart-data"}, {}, {}]
    assert not [tag for tag, _ in tags.found if tag == "img"]
    assert not [name for _, attributes in tags.found for name in attributes if name.startswith("on")]


def test_the_payload_survives_and_is_what_was_drawn():
    payload = re.search(r'<script type="application/json" id="chart-data">(.*?)</script>', evil_page(), re.S)[1]
    assert "<" not in payload
    content = json.loads(payload)
    assert content["charts"]["chart-1"]["title"] == EVIL


def test_the_policy_allows_exactly_the_scripts_of_the_page():
    import base64
    import hashlib

    text = evil_page()
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', text)[1])
    for body in re.findall(r"<script>(.*?)</script>", text, re.S):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "'unsafe-inline'" not in policy.partition("script-src")[2]


def test_nothing_is_loaded_from_the_network():
    tags = Tags()
    tags.feed(evil_page())
    for _, attributes in tags.found:
        for name in ("src", "href", "xlink:href", "action", "data", "srcset"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:"))


def test_a_page_without_charts_has_no_drawing_library():
    assert "vegaEmbed" not in view_page(View("t", "h", tiles=(Tile("Best error", "0.6 %"),)))


def test_every_id_is_there_once_and_every_link_leads_somewhere():
    tags = Tags()
    tags.feed(evil_page())
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for tag, attributes in tags.found if tag == "a"]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)


def test_a_page_names_versions_where_its_maker_names_none():
    class Made(Report):
        def __init__(self, made):
            object.__setattr__(self, "_view", View("t", "h", provenance=made))

    bare = Made(Provenance(command="hardpan do it")).to_html()
    assert f"hardpan {hardpan.__version__}, Python {platform.python_version()}</dd>" in bare
    told = Made(Provenance(versions={"torch": "9.9"})).to_html()
    assert "<dt>Versions</dt><dd>torch 9.9</dd>" in told


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_contrast_is_enough_for_text_and_marks(theme):
    for text in (theme.ink, theme.muted, theme.accent):
        assert contrast(text, theme.paper) >= 4.5
    assert contrast(theme.ink, theme.shade) >= 4.5
    assert contrast(theme.muted, theme.shade) >= 4.5
    for mark in (theme.floor, theme.ceiling, theme.refuted):
        assert contrast(mark, theme.paper) >= 3
        assert contrast(mark, theme.shade) >= 2.5


def test_an_option_of_a_command_is_not_broken_and_text_around_it_is_escaped():
    section = Section("s", ("Run <it> with --fresh-data or -q; k-NN-like names stay.",))
    html_text = view_page(View("t", "h", (section,)))
    marked = '<span class="option">--fresh-data</span> or <span class="option">-q</span>; k-NN-like names stay.'
    assert f"Run &lt;it&gt; with {marked}" in html_text


def test_a_chart_of_the_first_screen_is_folded_in_its_section():
    bars = Chart("bars", "Counts", ({"name": "cat", "value": 3},), "One bar: cat 3.")
    other = Chart("bars", "Others", ({"name": "dog", "value": 2},), "One bar: dog 2.")
    view = View("Audit", "Cats.", (Section("Classes", charts=(bars, other)),), hero=(bars,))
    text = view_page(view)
    folds = re.findall(r'<details class="fold">.*?</details>\s*</div>', text, re.DOTALL)
    assert len(folds) == 1
    assert "One bar: cat 3." in folds[0]
    assert "One bar: dog 2." not in folds[0]
