"""Selector, reviewer and participant: what they decide is recorded once, and goes where it should."""

import pytest
from tests.web import small
from tests.web.visitor import Town

from hardpan.replicate.database import decisions, questions


@pytest.fixture
def town(town: Town):
    small.prepare_reviews(town.project)
    return town


def select_all(town, kind=0, word="plain", count=4):
    selector = town.person("selector")
    body = {"class": kind, "keyword": word, "start": 0}
    names = selector.post("/select/api/candidates", body).json()["images"][:count]
    for at, name in enumerate(names):
        answer = selector.post("/select/api/decide", {"image": name, "picked": True, "key": f"{word}{kind}{at}"})
        assert answer.json() == {"new": True}
    return selector, names


def test_the_selector_sees_originals_beside_candidates_and_the_quota(town):
    selector = town.person("selector")
    listed = selector.get("/select/")
    assert listed.status_code == 200
    assert "odd/one &amp; &lt;b&gt;more" in listed.text
    data = selector.post("/select/api/candidates", {"class": 1, "keyword": small.KEYWORDS[1], "start": 0}).json()
    assert (data["quota"], data["selected"], len(data["originals"])) == (4, 0, 10)
    assert len(data["images"]) == data["candidates"] == 12
    for name in (data["images"][0], data["originals"][0]):
        assert selector.get("/select/image", params={"id": name}).headers["content-type"] == "image/png"
    page = selector.get("/select/keyword", params={"class": "1", "keyword": small.KEYWORDS[1]})
    assert page.status_code == 200


@pytest.mark.parametrize(
    "query", [{}, {"class": "9"}, {"class": "x"}, {"class": "-1"}, {"class": "٣"}, {"keyword": "?"}]
)
def test_a_keyword_that_is_not_there_is_no_page(town, query):
    answer = town.person("selector").get("/select/keyword", params={"class": "0", "keyword": "nothing"} | query)
    assert answer.status_code in (400, 404)


def test_a_choice_is_kept_once_and_can_be_taken_back(town):
    selector, names = select_all(town, count=1)
    body = {"image": names[0], "picked": True, "key": "plain00"}
    assert selector.post("/select/api/decide", body).json() == {"new": False}
    look = {"class": 0, "keyword": "plain", "start": 0}
    assert selector.post("/select/api/candidates", look).json()["picked"] == names
    selector.post("/select/api/decide", {"image": names[0], "picked": False, "key": "back"})
    assert selector.post("/select/api/candidates", look).json()["picked"] == []


def test_an_original_cannot_be_chosen(town):
    selector = town.person("selector")
    data = selector.post("/select/api/candidates", {"class": 0, "keyword": "plain", "start": 0}).json()
    body = {"image": data["originals"][0], "picked": True, "key": "k"}
    assert selector.post("/select/api/decide", body).status_code == 400


def test_keywords_that_the_reviewer_leaves_short_go_back_to_the_selector(town):
    selector, names = select_all(town)
    reviewer = town.person("reviewer")
    batch = reviewer.post("/review/api/images", {"step": "second"}).json()
    assert (batch["left"], batch["keyword"], sorted(batch["images"])) == (4, "plain", sorted(names))
    body = {"step": "second", "images": batch["images"], "removed": batch["images"][:3], "key": "k"}
    for _ in range(2):  # a retry after a lost answer
        assert reviewer.post("/review/api/decide", body).json() == {"kept": 1, "removed": 3}
    assert reviewer.post("/review/api/images", {"step": "second"}).json()["left"] == 0
    assert "Returned to the first selector" in reviewer.get("/review/").text
    assert "returned: 3 removed" in selector.get("/select/").text
    page = selector.get("/select/keyword", params={"class": "0", "keyword": "plain"}).text
    assert "Choose 3 more" in page
    state = next(s for s in decisions.keyword_states(town.project) if (s.class_index, s.keyword) == (0, "plain"))
    assert state.short == 3


def test_half_a_review_that_was_lost_is_finished_by_the_retry(town):
    _, names = select_all(town)
    reviewer = town.person("reviewer")
    body = {"step": "second", "images": names, "removed": [], "key": "k"}
    assert reviewer.post("/review/api/decide", {**body, "images": names[:2]}).status_code == 200
    assert reviewer.post("/review/api/decide", body).json() == {"kept": 4, "removed": 0}
    assert set(decisions.decision_verdicts(town.project, "second-review")) == set(names)


@pytest.mark.parametrize("change", [{"removed": ["x"]}, {"images": ["x", "x"]}, {"step": "third"}, {"key": ""}])
def test_a_review_that_cannot_be_read_is_400(town, change):
    body = {"step": "final", "images": [], "removed": [], "key": "k"} | change
    assert town.person("reviewer").post("/review/api/decide", body).status_code == 400


def test_the_final_review_goes_class_by_class(town):
    reviewer, names = town.person("reviewer"), []
    while (batch := reviewer.post("/review/api/images", {"step": "final"}).json())["left"]:
        names.append(batch["name"])
        body = {"step": "final", "images": batch["images"], "removed": batch["images"][:1], "key": batch["name"]}
        assert reviewer.post("/review/api/decide", body).status_code == 200
    assert names == [item.name for item in small.CLASSES]
    verdicts = list(decisions.decision_verdicts(town.project, "final-review").values())
    assert (verdicts.count("keep"), verdicts.count("remove")) == (15, 3)


def test_pairs_are_shown_with_their_difference_and_decided(town):
    reviewer = town.person("reviewer")
    found = reviewer.post("/review/api/pairs", {}).json()
    assert found["left"] == 9
    pair = found["pairs"][0]
    assert (pair["l2"], pair["ssim"]) == (3.25, 0.8)
    for path, params in (
        ("/review/image", {"id": pair["image"]}),
        ("/review/difference", {"id": pair["image"], "other": pair["other"]}),
    ):
        assert reviewer.get(path, params=params).headers["content-type"] == "image/png"
    for verdict, left in (("remove", 8), ("open", 9), ("keep", 8)):
        body = {"subject": pair["subject"], "verdict": verdict, "key": verdict}
        assert reviewer.post("/review/api/pair", body).json() == {"new": True}
        assert reviewer.post("/review/api/pairs", {}).json()["left"] == left
    assert decisions.decision_verdicts(town.project, "duplicate") == {pair["subject"]: "keep"}
    wrong = {"subject": pair["subject"], "verdict": "perhaps", "key": "w"}
    assert reviewer.post("/review/api/pair", wrong).status_code == 400


def test_participants_answer_in_their_own_order_and_the_first_answer_counts(town):
    orders = []
    for _ in range(2):
        person, order = town.person("participant"), []
        asked = person.post("/people/api/question", {}).json()
        while asked["question"] is not None:
            assert set(asked) - {"new"} == {"question", "done", "total"}  # nothing of the image's origin
            assert person.get(f"/people/image/{asked['question']}").status_code == 200
            order.append(asked["question"])
            body = {"question": asked["question"], "class": 1}
            asked = person.post("/people/api/answer", body).json()
            assert asked["new"]
            assert not person.post("/people/api/answer", body | {"class": 2}).json()["new"]
        orders.append(order)
    assert sorted(orders[0]) == sorted(orders[1])
    assert orders[0] != orders[1]
    rows = questions.question_answers(town.project)
    assert {row["response"] for row in rows} == {"square"}
    live = town.owner().get("/owner/live").text
    assert "People on the hardest images" in live
    assert "Clopper" in live


def test_a_question_or_class_that_is_not_there_is_refused(town):
    person = town.person("participant")
    for body in ({"question": 10**12, "class": 0}, {"question": 1, "class": 99}, {"question": "1", "class": 0}, {}):
        assert person.post("/people/api/answer", body).status_code == 400
    assert person.get("/people/image/99999").status_code == 400
    assert person.get("/people/image/99999999999999999999").status_code == 400
