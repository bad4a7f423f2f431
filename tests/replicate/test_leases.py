"""Tasks in the hands of workers: nothing lost, nothing doubled, nobody sees an image twice."""

import threading
from collections import Counter, defaultdict

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DatabaseError
from tests.replicate.conftest import candidates

from hardpan.errors import InputError
from hardpan.replicate import Project
from hardpan.replicate.database import events, tasks
from hardpan.replicate.database import leases as stored_leases
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes as stored_votes
from hardpan.replicate.database.connection import APPEND_ONLY, Database, Event, Vote
from hardpan.replicate.database.images import stored_images
from hardpan.replicate.database.leases import lease_image_ids
from hardpan.replicate.simulate import add_candidate_arrays

pytestmark = pytest.mark.both_databases


def people(project, count, role="annotator"):
    link = stored_people.invite_people(project, uses=count, role=role).link
    return [stored_people.enter_by_invitation(project, link, external_id=f"p{k}").id for k in range(count)]


def finish(project, workers):
    """Everyone works until nothing is left."""
    for who in workers:
        while (lease := stored_leases.lease_next_task(project, who)) is not None:
            stored_leases.submit_lease(project, who, lease.token, [0], f"{who}-{lease.token}")


def test_a_database_of_another_version_is_refused(database_url, tmp_path):
    database = Database(database_url or f"sqlite:///{tmp_path / 'other.sqlite'}")
    database.create_tables()
    database.create_tables()  # again changes nothing
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InputError, match=r"database.*9999"):
        database.create_tables()
    database.dispose()


def test_every_image_gets_its_workers_and_none_of_them_twice(make_project):
    project = make_project(workers_per_image=4)
    finish(project, people(project, 9))
    votes = stored_votes.all_votes(project)
    assert max(Counter((v.worker_id, v.image_id) for v in votes).values()) == 1
    by_image = Counter(v.image_id for v in votes if v.role == "candidate")
    assert len(by_image) == 60
    assert set(by_image.values()) == {4}
    assert all(row.submitted == row.needed for row in tasks.task_coverage(project))


def test_tasks_hide_their_controls(make_project):
    project = make_project()
    finish(project, people(project, 9))
    info = {row.id: row for kind in ("original", "candidate") for row in stored_images(project, kind)}
    tasks = defaultdict(dict)
    for v in stored_votes.all_votes(project):
        tasks[v.task_id][v.image_id] = v
    annotated = defaultdict(set)
    for votes in tasks.values():
        roles = Counter(v.role for v in votes.values())
        assert len(votes) <= 12
        assert roles["positive"] >= 3
        assert roles["negative"] >= 3
        for v in votes.values():
            item = info[v.image_id]
            assert (item.kind == "candidate") == (v.role == "candidate")
            if v.role == "positive":
                assert item.class_index == v.class_index
                annotated[v.class_index].add(v.image_id)
            if v.role == "negative":
                assert abs(item.class_index - v.class_index) == 1  # greys 60 apart: the next class is the nearest
    assert all(len(images) >= 6 for images in annotated.values())


def test_later_tasks_use_other_originals_and_repeated_ones_are_reported(make_project):
    project = make_project(each=6, classes=2)
    repeated = []
    for batch in range(1, 6):
        pixels, labels = candidates(1, 6, seed=10 + batch)
        add_candidate_arrays(project, pixels, labels)
        repeated.append(project.make_tasks().repeated_originals)
        uses = tasks.originals_in_tasks(project, batch + 1)
        assert repeated[-1] == sum(count > 1 for count in uses.values())
    assert repeated[0] == 0  # 30 originals per class are enough for two batches
    assert repeated[-1] > 0
    assert project.verify().problems == ()


def test_places_differ_between_workers_and_tell_nothing(make_project):
    project = make_project(each=6, classes=2)
    first, second = people(project, 2)
    one, two = stored_leases.lease_next_task(project, first), stored_leases.lease_next_task(project, second)
    assert set(lease_image_ids(project, one.token)) == set(lease_image_ids(project, two.token))
    assert lease_image_ids(project, one.token) != lease_image_ids(project, two.token)
    assert one.token != two.token
    png = stored_leases.lease_image(project, first, one.token, 0)
    assert png.startswith(b"\x89PNG")
    with pytest.raises(stored_leases.LeaseLost):
        stored_leases.lease_image(project, second, one.token, 0)
    with pytest.raises(stored_leases.LeaseLost):
        stored_leases.lease_image(project, first, one.token, 12)


def test_a_submission_counts_once_whatever_its_key(make_project):
    project = make_project()
    (who,) = people(project, 1)
    lease = stored_leases.lease_next_task(project, who)
    assert stored_leases.submit_lease(project, who, lease.token, [1, 2], "k").state == "counted"
    assert stored_leases.submit_lease(project, who, lease.token, [1, 2], "k").state == "repeated"
    assert stored_leases.submit_lease(project, who, lease.token, [5], "other").state == "repeated"
    votes = stored_votes.all_votes(project)
    shown = lease_image_ids(project, lease.token)
    assert {v.image_id for v in votes if v.selected} == {shown[1], shown[2]}
    assert len(votes) == lease.n_images
    assert sum(row.submitted for row in tasks.task_coverage(project)) == 1


def test_reloading_gives_the_same_task_and_prefetching_another(make_project):
    project = make_project()
    (who,) = people(project, 1)
    lease = stored_leases.lease_next_task(project, who)
    assert stored_leases.lease_next_task(project, who) == lease
    ahead = stored_leases.lease_next_task(project, who, besides=[lease.token])
    assert ahead.token != lease.token
    both = [lease.token, ahead.token]
    assert stored_leases.lease_next_task(project, who, besides=both) is None  # before the first answer
    stored_leases.submit_lease(project, who, lease.token, [], "first")
    three = [ahead.token]
    while (lease := stored_leases.lease_next_task(project, who, besides=three)) is not None:
        three.append(lease.token)
    assert len(set(three)) == 3


def test_an_expired_lease_returns_and_late_answers_count_only_while_wanted(make_project, clock):
    project = make_project(classes=2, each=6, workers_per_image=1)
    slow, quick = people(project, 2)
    lease = stored_leases.lease_next_task(project, slow)
    other = stored_leases.lease_next_task(project, quick)
    assert set(lease_image_ids(project, lease.token)) != set(lease_image_ids(project, other.token))
    clock.now += 101
    finish(project, [quick])
    with pytest.raises(stored_leases.LeaseLost, match="finished"):
        stored_leases.submit_lease(project, slow, lease.token, [], "late")
    with pytest.raises(stored_leases.LeaseLost, match="finished"):
        stored_leases.renew_lease(project, slow, lease.token)
    assert stored_leases.lease_next_task(project, slow) is None
    assert all(row.submitted == row.needed for row in tasks.task_coverage(project))


def test_an_expired_lease_that_nobody_took_is_still_good(make_project, clock):
    project = make_project()
    (who,) = people(project, 1)
    lease = stored_leases.lease_next_task(project, who)
    clock.now += 350
    again = stored_leases.renew_lease(project, who, lease.token)
    assert again.expires_at == clock.now + 100
    clock.now += 500
    assert stored_leases.submit_lease(project, who, lease.token, [0], "late").state == "counted"


def test_what_a_worker_may_not_do(make_project):
    project = make_project()
    first, second = people(project, 2)
    lease = stored_leases.lease_next_task(project, first)
    with pytest.raises(stored_leases.LeaseLost):
        stored_leases.submit_lease(project, second, lease.token, [0], "stolen")
    with pytest.raises(InputError, match="selected"):
        stored_leases.submit_lease(project, first, lease.token, [99], "k")
    with pytest.raises(InputError, match="selected"):
        stored_leases.submit_lease(project, first, lease.token, [True], "k")
    with pytest.raises(InputError, match="submission_key"):
        stored_leases.submit_lease(project, first, lease.token, [0], "")
    with pytest.raises(InputError):
        stored_leases.lease_next_task(project, "stranger")
    (reviewer,) = people(project, 1, "reviewer")
    with pytest.raises(InputError):
        stored_leases.lease_next_task(project, reviewer)
    assert stored_votes.all_votes(project) == []


def test_many_workers_at_once_lose_and_double_nothing(make_project):
    project = make_project(workers_per_image=5)
    workers = people(project, 12)  # tasks that share an original need different people
    failures = []

    def work(who):
        try:
            while (lease := stored_leases.lease_next_task(project, who)) is not None:
                for _ in range(2):  # every answer is sent twice
                    stored_leases.submit_lease(project, who, lease.token, [0], f"{who}-{lease.token}")
        except Exception as error:  # told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    votes = stored_votes.all_votes(project)
    assert max(Counter((v.worker_id, v.image_id) for v in votes).values()) == 1
    assert all(row.submitted == row.needed for row in tasks.task_coverage(project))
    by_image = Counter(v.image_id for v in votes if v.role == "candidate")
    assert set(by_image.values()) == {5}


def test_votes_and_events_cannot_be_altered(make_project):
    project = make_project()
    (who,) = people(project, 1)
    lease = stored_leases.lease_next_task(project, who)
    stored_leases.submit_lease(project, who, lease.token, [0], "k")
    for statement in (
        update(Vote).values(selected=True),
        delete(Vote),
        update(Event).values(actor="x"),
        delete(Event),
    ):
        with pytest.raises(DatabaseError, match="append-only"), project.database.write() as connection:
            connection.execute(statement)
    for table in APPEND_ONLY:
        with project.database.read() as connection:
            assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar() >= 0
    told = [event["what"] for event in events.stored_events(project)]
    assert told[-2:] == ["leased", "submitted"]


def test_completion_codes_follow_the_work(make_project):
    project = make_project()
    (who,) = people(project, 1)
    codes = [stored_people.worker_completion_code(project, who)]
    lease = stored_leases.lease_next_task(project, who)
    stored_leases.submit_lease(project, who, lease.token, [], "k")
    codes.append(stored_people.worker_completion_code(project, who))
    assert [code.partition("-")[0] for code in codes] == ["0", "1"]
    assert codes[0].partition("-")[2] != codes[1].partition("-")[2]


def test_owner_token_is_kept_as_a_hash(make_project):
    project = make_project()
    token = project.renew_owner_token()
    assert project.is_owner(token)
    assert not project.is_owner(token[:-1])
    assert token not in (project.root / "local.json").read_text()
    assert (project.root / "local.json").stat().st_mode & 0o077 == 0
    elsewhere = Project.open(project.root, database_url="postgresql://hardpan:password@elsewhere/other")
    fresh = elsewhere.renew_owner_token()
    assert project.is_owner(fresh)
    assert not project.is_owner(token)
    assert "password" not in (project.root / "local.json").read_text()  # given for one run alone
