"""Audits side by side, with planted numbers."""

import dataclasses
import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hardpan import auditing, files, stats
from hardpan.auditing import compared, comparing
from hardpan.auditing.finished import Audit
from hardpan.bayes.floors import Entry
from hardpan.cli import app
from hardpan.errors import InputError
from hardpan.estimates import Estimate
from hardpan.report.drawing import draw
from hardpan.report.sections import Provenance


def known(value, half=0.01, n=1000):
    return Estimate(value, half / 2, value - half, value + half, method="planted", n=n)


def planted(name, floor, best, bits=2.0, curve=None):
    measures = {"flow_floor": known(floor), "best_error": known(best), "bits": known(bits)}
    curves = {"flow": tuple(curve)} if curve else {}
    return Audit(name, auditing.AuditConfig(), "A headline.", (), (), (), Provenance(), measures, curves)


EASY, MIDDLE, HARD = planted("easy", 0.01, 0.03), planted("middle", 0.05, 0.02), planted("hard", 0.2, 0.4, bits=6.0)


def test_two_audits_give_the_differences():
    found = comparing.compare([EASY, HARD])
    assert found.differences["best_error"].value == pytest.approx(0.37)
    # Equal half-widths h give h√2 for the difference.
    assert found.differences["best_error"].high - found.differences["best_error"].value == pytest.approx(
        0.01 * 2**0.5
    )
    assert [item.names for item in found.rankings] == [("hard", "easy")] * 2
    assert not found.agreement


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 0.2), st.floats(0.001, 0.2))
def test_a_difference_turned_round_is_its_mirror(a, b, half_a, half_b):
    there = comparing.difference(known(a, half_a), known(b, half_b))
    back = comparing.difference(known(b, half_b), known(a, half_a))
    assert (there.value, there.low, there.high) == pytest.approx((-back.value, -back.high, -back.low))


def test_the_interval_of_a_difference_covers_as_stated():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        counts = rng.binomial(400, [0.1, 0.16])
        sides = [audit_error(int(count), 400) for count in counts]
        covered += comparing.difference(*sides).low <= 0.06 <= comparing.difference(*sides).high
    assert covered / 400 >= 0.93


def audit_error(wrong, n):
    low, high = stats.clopper_pearson(wrong, n)
    return Estimate(wrong / n, 0.0, float(low), float(high), n=n)


def test_several_are_ranked_and_a_poor_likelihood_is_left_out():
    found = comparing.compare([EASY, MIDDLE, HARD])
    assert found.rankings[0].names == ("hard", "middle", "easy")
    assert found.rankings[1].names == ("hard", "easy", "middle")
    assert found.agreement["flow_floor, best_error"].value == pytest.approx(1 / 3)
    assert found.differences == {}
    filtered = comparing.compare([EASY, MIDDLE, HARD], most_bits=3.0)
    assert filtered.rankings[0].names == ("middle", "easy")
    assert "6 bits per dimension" in filtered.left_out["hard"]


def test_the_order_is_followed_over_the_temperature():
    temperatures = np.geomspace(0.25, 4, 9)
    # The curves t² · 0.01 and 0.02 · t cross at t = 2.
    steep = planted("steep", 0.01, 0.1, curve=[(float(t), 0.01 * float(t) ** 2) for t in temperatures])
    flat = planted("flat", 0.02, 0.1, curve=[(float(t), 0.02 * float(t)) for t in temperatures])
    (stable,) = comparing.compare([steep, flat]).stability
    assert stable.names == ("flat", "steep")
    assert stable.low == pytest.approx(0.25)
    assert 1.8 < stable.high <= 2.0
    assert stable.agreement[0] == 1.0
    assert stable.agreement[-1] == -1.0


def test_one_dataset_twice_keeps_both():
    assert comparing.compare([EASY, EASY]).names == ("easy", "easy (2)")


def test_what_cannot_be_compared_is_said(tmp_path):
    with pytest.raises(InputError, match="at least two; got 1"):
        comparing.compare([EASY])
    with pytest.raises(InputError, match="positive number of bits"):
        comparing.compare([EASY, HARD], most_bits=-1)
    with pytest.raises(InputError, match=r"holds no report\.json"):
        comparing.read_audit(tmp_path)
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(InputError, match="is not the report of an audit"):
        comparing.read_audit(tmp_path)
    (tmp_path / "report.json").write_text(files.dumps(files.to_json(known(0.5))))
    with pytest.raises(InputError, match="is a Estimate, not an audit"):
        comparing.read_audit(tmp_path)


def test_the_command_writes_a_page_and_json(tmp_path):
    for item in (EASY, MIDDLE, HARD):
        item.save(tmp_path / item.dataset)
    folders = [str(tmp_path / name) for name in ("easy", "middle", "hard")]
    done = CliRunner().invoke(app, ["compare", *folders, "--out", str(tmp_path / "compared"), "--json"])
    assert done.exit_code == 0, done.output
    read = files.from_json(json.loads(done.stdout))
    assert read.rankings[0].names == ("hard", "middle", "easy")
    assert "From hard to easy" in (tmp_path / "compared" / "index.html").read_text()


def weighed(item, status):
    entry = Entry(
        "Exact error of flow", "estimate", item.measures["flow_floor"], "a", status, "", f"Said: {status}."
    )
    return dataclasses.replace(item, verdicts={"flow_floor": entry})


def test_floors_that_their_own_audits_doubt_do_not_make_the_headline():
    found = comparing.compare([weighed(EASY, "unfounded"), weighed(MIDDLE, "stands"), weighed(HARD, "refuted")])
    assert compared.headline(found).startswith(
        "From hard to easy by the error of the best model: hard, easy, middle"
    )
    page = compared.section(found)
    assert page[0].warnings[0] == "Floor by the flow: refuted on hard. Their own pages say by what."
    two = comparing.compare([weighed(EASY, "unfounded"), weighed(MIDDLE, "stands")])
    assert compared.section(two)[0].warnings == ("Floor by the flow of easy: Said: unfounded.",)
    roles = {row["name"]: row["role"] for row in page[0].charts[0].rows}
    assert roles == {"easy": "refuted", "middle": "floor", "hard": "refuted"}
    assert compared.headline(comparing.compare([EASY, MIDDLE, HARD])).startswith(
        "From hard to easy by the floor by"
    )


def test_a_disputed_floor_is_drawn_hollow_and_not_struck():
    found = comparing.compare([weighed(EASY, "disputed"), weighed(MIDDLE, "stands"), weighed(HARD, "refuted")])
    chart = compared.section(found)[0].charts[0]
    looks = {row["name"]: (row["role"], row["status"]) for row in chart.rows}
    assert looks == {
        "easy": ("floor", "disputed"), "middle": ("floor", "stands"), "hard": ("refuted", "refuted"),
    }  # fmt: skip
    assert "easy 1.0 % (0.0–2.0 %) (disputed)" in chart.description
    drawn = draw(chart, "c")
    assert [item[0] for item in drawn.legend] == ["floor", "refuted", "disputed"]
    struck = re.findall(r"<text [^>]*text-decoration[^>]*>([^<]+)<", drawn.svg)
    assert [name.partition(" ")[0] for name in struck] == ["hard"]


def test_the_table_of_the_datasets_has_bracket_likelihood_and_best_error_beside_the_floor():
    bracket = {"bracket": Estimate(0.04, 0.0, 0.01, 0.04)}
    audits = [dataclasses.replace(item, measures={**item.measures, **bracket}) for item in (EASY, MIDDLE, HARD)]
    table = compared.section(comparing.compare(audits))[1].tables[0]
    assert table.columns == (
        "rank",
        "dataset",
        "floor by the flow",
        "bracket of the floor",
        "bits per dimension of the flow",
        "error of the best model",
    )
    assert [row[:2] for row in table.rows] == [(1, "hard"), (2, "middle"), (3, "easy")]
    assert table.rows[0][3] == "1.0–4.0 %"


def test_two_that_are_not_told_apart_are_not_ranked_in_the_headline():
    again = planted("again", 0.012, 0.031)
    assert compared.headline(comparing.compare([EASY, again])).startswith(
        "easy and again are not told apart by the"
    )
