"""Killed in the middle of everything, a project keeps what it acknowledged and goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from hardpan import replicate
from hardpan.replicate import simulate

WORK = """
import sys
from hardpan import replicate
from hardpan.replicate.database.people import workers
project = replicate.open_project(sys.argv[1])
for who in workers(project):
    while (lease := replicate.next_task(project, who.id)) is not None:
        receipt = replicate.submit(project, who.id, lease.token, [0], lease.token)
        print(lease.token, lease.places, flush=True)
print("end", flush=True)
"""
STEPS = """
import sys
from hardpan import replicate
project = replicate.open_project(sys.argv[1])
replicate.draw_sample(project, strategy="top", per_class=4, min_votes=3)
replicate.find_duplicates(project, k=1)
for item in replicate.duplicate_queue(project)[:2]:
    replicate.decide(project, "duplicate", item.subject, "remove", by="owner")
replicate.resolve_duplicates(project)
replicate.assemble(project, unreviewed_ok=True)
print("end", flush=True)
"""


def killed(script, root, seconds):
    """Run a script, kill it with no warning after a while; give what it had said."""
    process = subprocess.Popen([sys.executable, "-c", script, str(root)], stdout=subprocess.PIPE, text=True)
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        said, _ = process.communicate()
    return said.splitlines()


@pytest.mark.soak
def test_every_acknowledged_vote_is_there_after_kills(tmp_path):
    project, _ = simulate.demo_project(tmp_path / "project", workers_per_image=4, lease_seconds=1.0)
    link = replicate.invite(project, uses=5).link
    for k in range(5):
        replicate.enter(project, link, external_id=str(k))
    project.close()
    rng = np.random.default_rng(0)
    acknowledged: dict[str, int] = {}
    for _ in range(12):
        said = killed(WORK, project.root, 2.0 + 2.0 * rng.random())
        for line in said:
            token, _, places = line.partition(" ")
            if places:
                acknowledged[token] = int(places)
        if said[-1:] == ["end"]:
            break
        time.sleep(1.1)  # leases of the killed process run out
    project = replicate.open_project(project.root)
    votes = replicate.all_votes(project)
    submitted = [event for event in replicate.events(project, most=10**6) if event["what"] == "submitted"]
    assert acknowledged
    assert len(submitted) >= len(acknowledged)
    assert len(votes) >= sum(acknowledged.values())
    assert len(votes) == len({(v.worker_id, v.image_id) for v in votes})
    assert sum(row.submitted for row in replicate.coverage(project)) == len(submitted)
    project.close()


@pytest.mark.soak
def test_steps_that_were_killed_run_again_to_the_same_lineage(tmp_path):
    project, _ = simulate.demo_project(tmp_path / "project", workers_per_image=3)
    simulate.annotate_demo(project, 5)
    project.close()
    for seconds in (2.5, 3.5, 4.5, 6.0, 8.0, 60.0):
        if killed(STEPS, project.root, seconds)[-1:] == ["end"] or (project.root / "set/lineage.json").exists():
            break
    project = replicate.open_project(project.root)
    replicate.assemble(project, unreviewed_ok=True)
    found = replicate.verify(project)
    assert found.problems == ()
    project.close()
