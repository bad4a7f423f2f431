"""Killed in the middle of everything, a project keeps what it acknowledged and goes on."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tests.databases import copy_project, drop_database

from hardpan import files, replicate
from hardpan.replicate import simulate
from hardpan.replicate.database import events, tasks
from hardpan.replicate.database import people as stored_people
from hardpan.replicate.database import votes as stored_votes

WORK = """
import sys
from hardpan import replicate
from hardpan.replicate.database import leases, people
project = replicate.Project.open(sys.argv[1])
for who in people.stored_workers(project):
    while (lease := leases.lease_next_task(project, who.id)) is not None:
        receipt = leases.submit_lease(project, who.id, lease.token, [0], lease.token)
        print(lease.token, lease.n_images, flush=True)
print("end", flush=True)
"""
# One step after another, as an owner would: what is done is not done again, what was killed is.
STEPS = """
import sys
from pathlib import Path
from hardpan import replicate
from hardpan.replicate.database import decisions
from hardpan.replicate.database.decisions import decision_verdicts
project = replicate.Project.open(sys.argv[1])
print("begun", flush=True)

def decide():
    for item in decisions.undecided_pairs(project)[: 1 - len(decision_verdicts(project, "duplicate"))]:
        decisions.record_decision(project, "duplicate", item.subject, "remove", by="owner")

steps = {
    "sample": lambda: project.sample(strategy="top", per_class=4, min_votes=3),
    "duplicates": lambda: project.find_duplicates(k=1),
    "decide": decide,
    "resolve": lambda: project.find_duplicates(),
    "assemble": lambda: project.assemble(unreviewed_ok=True),
}
for name, step in steps.items():
    done = project.root.parent / f"{project.root.name}-{name}-done"
    if not done.exists():
        step()
        done.touch()
print("end", flush=True)
"""


def killed_after(script, root, lines, seconds=0.0):
    """Run a script and kill it with no warning so long after so many lines; give the whole lines that it wrote."""
    process = subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE, text=True)
    said = list(itertools.islice(process.stdout, lines))
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    said += process.stdout
    process.wait()
    process.stdout.close()
    return [line.strip() for line in said if line.endswith("\n")]


@pytest.mark.soak
@pytest.mark.both_databases
def test_every_acknowledged_vote_is_there_after_kills(tmp_path, database_url):
    kills = 4 if database_url else 8
    settings = {"workers_per_image": 4, "lease_seconds": 1.0, "database_url": database_url}
    project = simulate.demo_project(tmp_path / "project", **settings)
    link = stored_people.invite_people(project, uses=5).link
    for k in range(5):
        stored_people.enter_by_invitation(project, link, external_id=str(k))
    project.close()
    rng = np.random.default_rng(0)
    acknowledged: dict[str, int] = {}
    for _ in range(kills):
        said = killed_after(WORK, project.root, int(rng.integers(1, 4)), 0.02 * rng.random())
        assert said[-1:] != ["end"]
        for line in said:
            token, _, places = line.partition(" ")
            acknowledged[token] = int(places)
        time.sleep(1.1)  # leases of the killed process run out
    project = replicate.Project.open(project.root)
    votes = stored_votes.all_votes(project)
    submitted = [event for event in events.stored_events(project) if event["what"] == "submitted"]
    assert len(acknowledged) >= kills
    assert len(acknowledged) <= len(submitted) <= len(acknowledged) + kills
    assert len(votes) >= sum(acknowledged.values())
    assert len(votes) == len({(v.worker_id, v.image_id) for v in votes})
    assert sum(row.submitted for row in tasks.task_coverage(project)) == len(submitted)
    project.close()


@pytest.mark.soak
@pytest.mark.both_databases
def test_steps_that_were_killed_run_again_to_the_same_lineage(tmp_path, database_url):
    kills = 4 if database_url else 8
    project = simulate.demo_project(tmp_path / "project", workers_per_image=3, database_url=database_url)
    simulate.simulate_demo_annotation(project, 5)
    project.close()
    undisturbed = copy_project(project.root, tmp_path / "undisturbed")
    begun = []
    with subprocess.Popen(
        [sys.executable, "-c", STEPS, str(undisturbed.root)], stdout=subprocess.PIPE, text=True
    ) as process:
        begun = [time.monotonic() for _ in process.stdout]
    whole = begun[-1] - begun[0]
    rng = np.random.default_rng(0)
    for _ in range(kills):
        killed_after(STEPS, project.root, 1, whole * rng.uniform(0, 0.9))
    assert killed_after(STEPS, project.root, 2)[-1] == "end"
    lineages = [files.load(root / "set/lineage.json") for root in (project.root, undisturbed.root)]
    assert lineages[0].files == lineages[1].files
    project = replicate.Project.open(project.root)
    found = project.verify()
    assert found.problems == ()
    project.close()
    drop_database(undisturbed.local["database_url"])
