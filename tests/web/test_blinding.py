"""Whoever annotates cannot tell hidden controls from candidates by anything that the server sends."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import io
import random
import re
import shutil
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from PIL import Image
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, cross_val_predict
from tests.web import small
from tests.web.load import run_async
from tests.web.visitor import GENEROUS, Town

from hardpan import replicate
from hardpan.data.dataset import Dataset, content_ids
from hardpan.replicate import simulate
from hardpan.replicate.database import leases as stored_leases
from hardpan.replicate.database import people, questions
from hardpan.replicate.database.leases import lease_image_ids
from hardpan.web.annotation import create_app, entry, site
from hardpan.web.security import Limits

PER_CLASS, EACH = 40, 120
TIMED = dataclasses.replace(GENEROUS, image_seconds=Limits().image_seconds)


def shapes_project(path, size: int = 24):
    """Originals and candidates from one generator; candidates in another native size where ``size`` is not 24."""
    x = np.concatenate([small.draw(kind, PER_CLASS, 0) for kind in range(3)])
    names = tuple(item.name for item in small.CLASSES)
    original = Dataset("shapes", x, content_ids(x), np.repeat(np.arange(3), PER_CLASS), names, source="shapes")
    settings = {"grid": 6, "positives": 2, "negatives": 1, "originals_per_class": 2, "workers_per_image": 5}
    project = replicate.Project.create(path, original, **settings)
    for kind in range(3):
        pictures = small.draw(kind, EACH, 1).repeat(size // 24, axis=1).repeat(size // 24, axis=2)
        simulate.add_candidate_arrays(project, pictures, [kind] * EACH)
    project.make_tasks()
    return project


@dataclasses.dataclass(frozen=True)
class Received:
    """One image as a worker gets it: where, from which address, with which headers, bytes and delay."""

    task: int
    worker: str
    place: int
    path: str
    headers: tuple[tuple[str, str], ...]
    content: bytes
    seconds: float


async def received(project, tasks: int) -> tuple[list[Received], np.ndarray, np.ndarray]:
    """Every image that workers get in so many tasks, whether it is a control, and its id.

    Folds are made by id: one worker never gets an image twice, so nobody can learn from having seen it.
    """
    images, controls, groups = [], [], []
    number = 0
    roles = {row.id: row.kind for kind in ("original", "candidate") for row in stored(project, kind)}
    while number < tasks:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(project, TIMED)), base_url="http://here"
        ) as client:
            await client.get(entry.path_of(people.invite_people(project)))
            page = await client.get("/annotate/")
            csrf = {"X-CSRF-Token": re.search(r'name="csrf" content="(\w+)"', page.text)[1]}
            worker = people.stored_workers(project)[-1].id
            while number < tasks:
                answer = await client.post("/annotate/api/task", json={"besides": []}, headers=csrf)
                task = answer.json()["task"]
                if task is None:
                    break
                number += 1
                answers = await asyncio.gather(*(timed(client, path) for path in task["images"]))
                for place, (path, (picture, seconds)) in enumerate(zip(task["images"], answers, strict=True)):
                    headers = tuple(sorted(picture.headers.items()))
                    images.append(Received(number, worker, place, path, headers, picture.content, seconds))
                names = lease_image_ids(project, task["id"])
                controls += [roles[name] == "original" for name in names]
                groups += names
                done = {"task": task["id"], "selected": [], "key": task["id"]}
                await client.post("/annotate/api/submit", json=done, headers=csrf)
    return images, np.array(controls), np.array(groups)


def features(images: list[Received]) -> np.ndarray:
    """Numbers that say all that came with an image: position, delay, headers, address, bytes, pixels, order."""
    rows = []
    for number in dict.fromkeys(image.task for image in images):
        task = [image for image in images if image.task == number]
        guess = seeded_order(len(task), f"0:{number}:{task[0].worker}")
        ranks = np.argsort(np.argsort([pixel_hash(image.content) for image in task]))
        for image in task:
            place = image.place
            content = np.frombuffer(image.content, np.uint8)
            pixels = np.asarray(Image.open(io.BytesIO(image.content)))
            token, _, last = image.path.removeprefix("/annotate/image/").partition("/")
            rows.append(
                [
                    *(place, image.seconds, len(image.headers), number_of(repr(image.headers))),
                    *(len(image.path), len(last), sum(map(ord, last)), sum(map(ord, token)), number_of(image.path)),
                    *(len(content), content.sum(), (content == 0).sum(), *content[:16], *content[-8:]),
                    *(*pixels.shape[:2], pixels.mean(), pixels.std(), np.diff(pixels.astype(float), axis=0).std()),
                    *(guess[place], ranks[place], abs(guess[place] - ranks[place])),
                ]
            )
    return np.array(rows)


def number_of(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def stored(project, kind):
    from hardpan.replicate.database.images import stored_images

    return stored_images(project, kind)


async def timed(client, path):
    start = time.perf_counter()
    answer = await client.get(path)
    assert answer.status_code == 200
    return answer, round(time.perf_counter() - start, 3)


def seeded_order(count: int, seed: str) -> list[int]:
    """The order that a guessable seed would give: where each place would come from."""
    order = list(range(count))
    random.Random(seed).shuffle(order)
    return order


def pixel_hash(content: bytes) -> str:
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    return content_ids(pixels[None])[0]


def advantage(rows, controls, groups, trees=200) -> tuple[float, float]:
    """The cross-validated AUC of a forest, less 0.5, in standard errors under chance; and the AUC.

    Scores are averaged over the times an image was sent: only images are independent of each other.
    """
    forest = RandomForestClassifier(trees, min_samples_leaf=5, random_state=0)
    scores = cross_val_predict(forest, rows, controls, groups=groups, cv=GroupKFold(5), method="predict_proba")
    _, first, image = np.unique(groups, return_index=True, return_inverse=True)
    controls = controls[first]
    auc = roc_auc_score(controls, np.bincount(image, scores[:, 1]) / np.bincount(image))
    n, m = int(controls.sum()), int((~controls).sum())
    return (auc - 0.5) / np.sqrt((n + m + 1) / (12 * n * m)), auc


# What a server that does not hide controls might send: each is a change of the controls among what was received.
LEAKS = {
    "position": lambda image: dataclasses.replace(image, place=0),
    "delay": lambda image: dataclasses.replace(image, seconds=image.seconds + 0.05),
    "header": lambda image: dataclasses.replace(image, headers=(*image.headers, ("x-cache", "hit"))),
    "address": lambda image: dataclasses.replace(image, path=f"{image.path}?v=2"),
    "length": lambda image: dataclasses.replace(image, content=image.content + bytes(5)),
    "last bytes": lambda image: dataclasses.replace(image, content=image.content[:-2] + b"\x07\x07"),
}


@pytest.mark.parametrize("tasks", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_a_classifier_of_all_that_a_worker_receives_does_no_better_than_chance(tmp_path, tasks):
    project = shapes_project(tmp_path / "project")
    images, controls, groups = run_async(received(project, tasks))
    assert len(images) == 6 * tasks
    above, auc = advantage(features(images), controls, groups)
    assert above < 4.0, auc
    for name, leak in LEAKS.items():  # it does find what is there
        leaking = [leak(image) if control else image for image, control in zip(images, controls, strict=True)]
        assert advantage(features(leaking), controls, groups, trees=30)[0] > 5.0, name
    project.close()


def test_candidates_of_another_size_come_in_the_size_type_and_length_of_the_controls(tmp_path):
    project = shapes_project(tmp_path / "project", size=48)
    images, controls, _ = run_async(received(project, 6))
    forms = set()
    for content in (image.content for image in images):
        opened = Image.open(io.BytesIO(content))
        forms.add((len(content), content[:8], opened.size, opened.mode))
    assert len(forms) == 1
    assert controls.any()
    assert not controls.all()
    project.close()


def test_large_images_have_few_lengths_and_can_be_decoded(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (8, 200, 200, 3)).astype(np.uint8)
    original = Dataset("large", x, content_ids(x), np.arange(8) % 2, ("a", "b"), source="large")
    project = replicate.Project.create(tmp_path / "project", original)
    (name,) = simulate.add_candidate_arrays(project, x[:1, ::2, ::2] // 2, [0])
    sent = [project.blinded_example("", 3), project.blinded_example(name, None)]
    assert all(len(content) % 16384 == 0 and content[8:12] == b"WEBP" for content in sent)
    assert {Image.open(io.BytesIO(content)).size for content in sent} == {(200, 200)}
    project.close()


def test_an_image_comes_at_a_multiple_of_the_interval_after_the_request(tmp_path, monkeypatch):
    project = shapes_project(tmp_path / "project")
    project.renew_owner_token()
    town = Town(project, "", dataclasses.replace(GENEROUS, image_seconds=0.025))
    worker = town.person()
    paths = worker.task()["images"]
    waits = []
    delays = [0.001, 0.024, 0.026, 0.049, 0.0]
    clock = iter([moment for delay in delays for moment in (7.0, 7.0 + delay)])
    monkeypatch.setattr(site, "time", SimpleNamespace(monotonic=lambda: next(clock)))

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(site, "anyio", SimpleNamespace(to_thread=site.anyio.to_thread, sleep=sleep))
    for path in paths[: len(delays)]:
        assert worker.get(path).status_code == 200
    assert [wait + delay for wait, delay in zip(waits, delays, strict=True)] == pytest.approx(
        [0.025, 0.025, 0.05, 0.05, 0.0]
    )
    town.close()
    project.close()


@pytest.mark.parametrize("size", [24, 100])
def test_nothing_is_decoded_or_resized_while_somebody_waits(tmp_path, size):
    x = np.random.default_rng(0).integers(0, 256, (8, size, size)).astype(np.uint8)
    original = Dataset("large", x, content_ids(x), np.arange(8) % 2, ("a", "b"), source="large")
    settings = {"grid": 3, "positives": 1, "negatives": 1, "originals_per_class": 1}
    project = replicate.Project.create(tmp_path / "project", original, **settings)
    simulate.add_candidate_arrays(project, 255 - (np.repeat(x[:2], 3, axis=2) if size == 100 else x[:2]), [0, 1])
    project.make_tasks()
    shutil.rmtree(project.root / "pool")
    (project.root / "original" / "x.npy").unlink()
    who = people.enter_by_invitation(project, people.invite_people(project).link).id
    while lease := stored_leases.lease_next_task(project, who):
        sent = [stored_leases.lease_image(project, who, lease.token, place) for place in range(lease.n_images)]
        assert {Image.open(io.BytesIO(content)).size for content in sent} == {(size, size)}
        stored_leases.submit_lease(project, who, lease.token, [], "k")
    project.close()


def test_candidates_are_cut_and_resized_as_originals_in_a_folder_are(tmp_path):
    rng = np.random.default_rng(0)
    for place, shape in enumerate([(40, 60, 3), (90, 50, 3), (30, 30, 3), (64, 20, 3)]):
        path = tmp_path / "pictures" / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)).save(path)
    original = Dataset.open(tmp_path / "pictures")
    project = replicate.Project.create(tmp_path / "project", original)
    project.add_candidates(tmp_path / "pictures")
    shown = {project.blinded_example(row.id, None) for row in stored(project, "candidate")}
    assert shown == {project.blinded_example("", row) for row in range(4)}
    project.close()


def test_orders_are_drawn_anew_and_stored(tmp_path):
    project = shapes_project(tmp_path / "project")
    orders = []
    for _ in range(5):  # everybody begins with the same task
        who = people.enter_by_invitation(project, people.invite_people(project).link).id
        lease = stored_leases.lease_next_task(project, who)
        orders.append(lease_image_ids(project, lease.token))
        again = stored_leases.lease_next_task(project, who)
        assert (again.token, lease_image_ids(project, again.token)) == (lease.token, orders[-1])
    assert len({tuple(sorted(order)) for order in orders}) == 1
    assert len({tuple(order) for order in orders}) > 1  # all equal with probability 720⁻⁴
    project.close()


def test_question_numbers_and_orders_of_the_experiment_follow_no_seed(tmp_path):
    numbers, firsts = set(), set()
    for copy in range(4):
        project = shapes_project(tmp_path / str(copy))
        originals = [row.id for row in stored(project, "original")][:8]
        new = [row.id for row in stored(project, "candidate")][:8]
        questions.choose_questions(project, originals, new)
        numbers.add(tuple(origin for _, (origin, _) in sorted(small.question_truths(project).items())))
        who = people.enter_by_invitation(project, people.invite_people(project, role="participant").link).id
        asked = questions.next_question(project, who)
        assert questions.next_question(project, who) == asked
        firsts.add(asked.question)
        project.close()
    assert len(numbers) > 1
    assert len(firsts) > 1  # all equal with probability 16⁻³
