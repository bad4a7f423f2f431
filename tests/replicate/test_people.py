"""Who may enter, until when, and whose votes count; over both databases."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hardpan.errors import InputError
from hardpan.replicate.database import decisions, leases, questions, tasks, votes
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.database.people import PersonNotAdmitted
from hardpan.replicate.database.tasks import task_workers_needed
from hardpan.replicate.project_sample import project_sample_problems
from hardpan.replicate.task_planning import top_up_tasks

pytestmark = pytest.mark.both_databases


def answer(project, who, key="k"):
    lease = leases.lease_next_task(project, who)
    leases.submit_lease(project, who, lease.token, [], key)
    return lease


def test_a_single_link_is_one_person(make_project):
    project = make_project()
    single = stored_people.invite_people(project, label="a friend")
    person = stored_people.enter_by_invitation(project, single.link)
    assert stored_people.enter_by_invitation(project, single.link, external_id="other") == person
    assert stored_people.stored_workers(project, person.id) == [person]


def test_a_shared_link_is_used_up_by_people_who_take_part(make_project, clock):
    project = make_project()
    many = stored_people.invite_people(project, uses=2)
    for _ in range(10):  # the same person, again and again, without a cookie
        stored_people.enter_by_invitation(project, many.link)
    a, b = (stored_people.enter_by_invitation(project, many.link, external_id=name).id for name in "ab")
    late = stored_people.enter_by_invitation(project, many.link, external_id="c").id
    for who in (a, b):
        answer(project, who)
    with pytest.raises(PersonNotAdmitted):
        leases.lease_next_task(project, late)  # entered in time, but two others have taken part
    with pytest.raises(PersonNotAdmitted):
        stored_people.enter_by_invitation(project, many.link, external_id="d")
    assert stored_people.enter_by_invitation(project, many.link, external_id="a").id == a
    assert leases.lease_next_task(project, a) is not None
    (state,) = stored_people.stored_invitations(project)
    assert state.used == 2


def test_a_shared_link_of_every_role_is_used_up_by_those_who_answer_first(make_project):
    project = make_project()
    new = [row.id for row in stored_images(project, "candidate")][:4]
    questions.choose_questions(project, [], new)
    actions = {
        "participant": lambda who, k: questions.answer_question(project, who, 1 + k, 0),
        "selector": lambda who, k: decisions.record_decision(project, "first-selection", new[k], "select", by=who),
    }
    for role, act in actions.items():
        link = stored_people.invite_people(project, role=role, uses=2).link
        first, second, third = (stored_people.enter_by_invitation(project, link).id for _ in range(3))
        assert act(first, 0)
        assert act(second, 1)
        with pytest.raises(PersonNotAdmitted):  # entered in time, but two others have taken part
            act(third, 2)
        assert act(first, 3)
        assert [item.used for item in stored_people.stored_invitations(project)][-1] == 2


def test_the_first_request_of_one_person_may_come_from_several_tabs_at_once(make_project):
    project = make_project()
    for _ in range(4):
        who = stored_people.enter_by_invitation(project, stored_people.invite_people(project).link).id
        with ThreadPoolExecutor(4) as pool:
            tokens = [item.token for item in pool.map(lambda _: leases.lease_next_task(project, who), range(4))]  # noqa: B023
        assert len(set(tokens)) <= 2


def test_one_person_in_many_browsers_fills_a_link_for_minutes_not_for_good(make_project, clock):
    project = make_project(lease_seconds=1800.0)
    many = stored_people.invite_people(project, uses=2)
    idle = [stored_people.enter_by_invitation(project, many.link).id for _ in range(2)]
    held = [leases.lease_next_task(project, who) for who in idle]
    with pytest.raises(PersonNotAdmitted):
        stored_people.enter_by_invitation(project, many.link)
    clock.now += stored_people.FIRST_ANSWER_SECONDS + 1
    for who, lease in zip(idle, held, strict=True):
        leases.renew_lease(project, who, lease.token)
    assert [item.used for item in stored_people.stored_invitations(project) if item.id == many.id] == [0]
    honest = stored_people.enter_by_invitation(project, many.link).id
    answer(project, honest)
    assert leases.submit_lease(project, idle[0], held[0].token, [], "k").state == "counted"
    with pytest.raises(PersonNotAdmitted):  # the link is used up now, by those who answered
        leases.submit_lease(project, idle[1], held[1].token, [], "k")
    assert [item.used for item in stored_people.stored_invitations(project) if item.id == many.id] == [2]
    assert len({vote.worker_id for vote in votes.all_votes(project)}) == 2


def test_a_task_cannot_be_kept_for_good_without_an_answer(make_project, clock):
    project = make_project(lease_seconds=100.0)
    idle = stored_people.enter_by_invitation(project, stored_people.invite_people(project).link).id
    lease = leases.lease_next_task(project, idle)
    for _ in range(4):
        clock.now += 99
        leases.renew_lease(project, idle, lease.token)
    clock.now += 99
    with pytest.raises(leases.LeaseLost):
        leases.renew_lease(project, idle, lease.token)


def test_an_expired_link_lets_nobody_in_and_serves_nobody_inside(make_project, clock):
    project = make_project()
    link = stored_people.invite_people(project, uses=3, seconds=50).link
    known = stored_people.enter_by_invitation(project, link, external_id="a").id
    lease = leases.lease_next_task(project, known)
    clock.now += 49
    stored_people.check_worker_admitted(project, known)
    clock.now += 2
    for name in ("a", "b"):
        with pytest.raises(PersonNotAdmitted):
            stored_people.enter_by_invitation(project, link, external_id=name)
    with pytest.raises(PersonNotAdmitted):
        stored_people.check_worker_admitted(project, known)
    with pytest.raises(PersonNotAdmitted):
        leases.lease_next_task(project, known)
    with pytest.raises(PersonNotAdmitted):
        leases.submit_lease(project, known, lease.token, [], "k")
    assert votes.all_votes(project) == []


def test_a_revoked_link_ends_the_access_of_all_who_came_by_it(make_project):
    project = make_project()
    invited = stored_people.invite_people(project, uses=3)
    known = stored_people.enter_by_invitation(project, invited.link, external_id="a").id
    leases.lease_next_task(project, known)
    other = stored_people.enter_by_invitation(project, stored_people.invite_people(project).link).id
    with pytest.raises(InputError, match="invitation"):
        stored_people.revoke_invitation(project, invited.link)  # its id is meant
    stored_people.revoke_invitation(project, invited.id)
    with pytest.raises(PersonNotAdmitted):
        stored_people.enter_by_invitation(project, invited.link, external_id="a")
    with pytest.raises(PersonNotAdmitted):
        stored_people.check_worker_admitted(project, known)
    with pytest.raises(PersonNotAdmitted):
        leases.lease_next_task(project, known)
    assert sum(row.leased for row in tasks.task_coverage(project)) == 0  # the task is free again
    stored_people.check_worker_admitted(project, other)


def test_a_link_of_another_role_is_refused_and_leaves_no_trace(make_project):
    project = make_project()
    reviewer = stored_people.invite_people(project, role="reviewer")
    with pytest.raises(PersonNotAdmitted):
        stored_people.enter_by_invitation(project, reviewer.link, role="annotator")
    assert stored_people.stored_workers(project) == []
    assert stored_people.enter_by_invitation(project, reviewer.link, role="reviewer").role == "reviewer"


def test_forged_links_are_refused(make_project):
    project = make_project()
    single, many = stored_people.invite_people(project), stored_people.invite_people(project, uses=2)
    forged = single.link[:-1] + ("A" if single.link[-1] != "A" else "B")
    for link in (forged, "", ".", single.id, f"{many.id}.{single.link.rpartition('.')[2]}", "é.ü"):
        with pytest.raises(PersonNotAdmitted):
            stored_people.enter_by_invitation(project, link)


def test_tasks_of_a_batch_want_their_own_number_of_votes(make_project):
    project = make_project(tasks=False)
    with pytest.raises(InputError, match="votes"):
        project.make_tasks(votes=0)
    project.make_tasks(votes=5)
    assert {needed for _, needed in task_workers_needed(project).values()} == {5}
    assert top_up_tasks(project) == 0


def test_a_blocked_worker_is_out_and_excluded_votes_stay_stored_and_count_nowhere(make_project, tmp_path):
    project = make_project()
    bad, good = (
        stored_people.enter_by_invitation(project, stored_people.invite_people(project).link).id for _ in range(2)
    )
    for who in (bad, good):
        answer(project, who)
    stored_people.block_worker(project, bad)
    with pytest.raises(PersonNotAdmitted):
        stored_people.check_worker_admitted(project, bad)
    assert len(votes.all_votes(project, counted=True)) == 24  # blocked, and what was given still counts
    stored_people.block_worker(project, bad, exclude_votes=True)
    assert {vote.worker_id for vote in votes.all_votes(project, counted=True)} == {good}
    assert len(votes.all_votes(project)) == 24
    assert [item.worker_id for item in project.quality().workers] == [good]
    project.status(export_votes=tmp_path / "votes.csv")
    rows = [line.split(",") for line in (tmp_path / "votes.csv").read_text().splitlines()[1:]]
    assert {(row[2], row[-1]) for row in rows} == {(bad, "1"), (good, "0")}
    assert top_up_tasks(project) == 1  # somebody else is asked in their place
    stored_people.unblock_worker(project, bad)
    stored_people.check_worker_admitted(project, bad)
    assert len(votes.all_votes(project, counted=True)) == 24
    assert project.import_votes(tmp_path / "votes.csv") == (12, 0)  # what the file marks as excluded stays out
    for change in (stored_people.block_worker, stored_people.unblock_worker):
        with pytest.raises(InputError, match="worker"):
            change(project, "nobody")


def test_a_sample_replays_with_the_exclusions_of_its_day(make_project):
    project = make_project(each=12)
    people = [
        stored_people.enter_by_invitation(project, stored_people.invite_people(project).link).id for _ in range(3)
    ]
    for who in people:
        while lease := leases.lease_next_task(project, who):
            leases.submit_lease(project, who, lease.token, [0, 1, 2], f"{who}{lease.token}")
    project.sample(strategy="top", per_class=2, min_votes=1)
    stored_people.block_worker(project, people[0], exclude_votes=True)
    assert project_sample_problems(project) == []
    drawn = project.sample(strategy="top", per_class=2, min_votes=1)
    assert {image.votes for image in drawn.images} == {2}
    assert project_sample_problems(project) == []
