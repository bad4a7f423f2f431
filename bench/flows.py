"""Glow beside normflows' Glow: training steps on one core at the tiny preset, and the record made on a GPU."""

from __future__ import annotations

import importlib
import json
import math
import os
import time
import warnings
from typing import Any

from bench import harness

PEERS = ("torch", "normflows", "zuko")

# A quick look, not a measurement: BENCH_SCALE=0.1 makes fewer steps.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BATCH, SIDE = 64, 8
RECORD = harness.ROOT / "reproductions" / "records" / "flow_device_speed.json"


def steps_of(full: int) -> int:
    return max(2, round(full * SCALE))


def prepare_ours(steps: int) -> dict[str, Any]:
    import torch

    from hardpan import flows
    from hardpan.data.dataset import Dataset
    from hardpan.flows.fitting import FlowTask, Rows
    from hardpan.flows.network import build, scaling_for

    torch.set_num_threads(1)
    digits = Dataset.open("digits")
    config = flows.FlowConfig(preset="tiny", class_weight=0.0, epochs=1, batch_size=BATCH).filled()
    network = build(config, scaling_for(digits.x, config), torch.full((10,), 0.1))
    assert digits.labels is not None
    rows = Rows(network, digits.x, digits.labels, torch.device("cpu"))
    task = FlowTask(network, config, rows, rows, torch.device("cpu"))
    task.schedule.table.fill_(1e-3)
    task.start()
    task.begin_epoch(0)
    return {"task": task, "steps": steps}


def train_ours(given: dict[str, Any]) -> dict[str, float]:
    task = given["task"]
    for step in range(given["steps"]):
        task.step(step % task.steps)
    with task.averaged():
        return {"nll": task.evaluate(task.train, 500)[0]}


def prepare_peer(steps: int) -> dict[str, Any]:
    import torch

    from bench._glow_peer import peer_glow

    warnings.simplefilter("ignore")  # its use of torch.lu is its own affair
    torch.set_num_threads(1)
    normflows = importlib.import_module("normflows")
    given = prepare_ours(steps)
    config = given["task"].config
    model = peer_glow(normflows, 1, SIDE, config.levels, config.steps, config.width)
    return given | {"model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3)}


def train_peer(given: dict[str, Any]) -> dict[str, float]:
    import torch

    task, model, optimizer = given["task"], given["model"], given["optimizer"]

    def batch(x: Any) -> Any:
        return (x.permute(0, 3, 1, 2) / task.network.scaling.levels).contiguous()

    for step in range(given["steps"]):
        x, _, chosen = task.train.batch(task.order[step % task.steps], task.noise)
        optimizer.zero_grad()
        loss = model.forward_kld(batch(x), chosen.argmax(1))
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        x, _, chosen = task.train.batch(torch.arange(500), torch.Generator().manual_seed(0))
        nll = -float(model.log_prob(batch(x), chosen.argmax(1)).mean())
    return {"nll": nll + SIDE * SIDE * math.log(task.network.scaling.levels) + math.log(10)}


def cpu_table() -> dict[str, Any]:
    steps = steps_of(60)
    ours = harness.isolated(prepare_ours, train_ours, repeats=6, steps=steps)
    peer = harness.isolated(prepare_peer, train_peer, repeats=6, steps=steps)
    rows = []
    for name, found in (("hardpan", ours), ("normflows", peer)):
        speed = BATCH * steps / found.best
        rows.append({"Glow": name, "images/s": round(speed), "NLL after the last repeat": found.output["nll"],
                     "extra MB": found.extra_megabytes})  # fmt: skip
    rows[0] |= harness.against(ours.best / peer.best, at_most=1.0, unit="times the peer's time")
    notes = [
        f"digits 8 × 8, K=4, L=2, C=32, batch {BATCH}, {6 * steps} Adam steps of rate 1e-3 in all, one core",
        "NLL in nats on the 17-level scale of the data, of 500 training images",
    ]
    return harness.table("Training steps of a small Glow on a CPU", rows, seed=0, notes=notes)


def prepare_zoo(name: str, rows: int, planes: bool) -> dict[str, Any]:
    from hardpan import flows
    from hardpan.flows import cpu_steps as layout

    if not planes:
        layout.usable = lambda x: False  # the plain steps, as training without gradients would run them
    flow = flows.load(name)
    x, _ = flow.sample(min(rows, 256), temperature=0.5)
    return {"flow": flow, "x": x.repeat(-(-rows // len(x)), axis=0)[:rows], "rows": rows}


def posteriors(given: dict[str, Any]) -> dict[str, float]:
    begun = time.process_time()
    mean = float(given["flow"].posterior(given["x"]).max(axis=1).mean())
    return {"mean": mean, "cpu": time.process_time() - begun}


def draws(given: dict[str, Any]) -> dict[str, float]:
    begun = time.process_time()
    mean = float(given["flow"].sample_with_posterior(given["rows"], temperature=0.5)[2].max(axis=1).mean())
    return {"mean": mean, "cpu": time.process_time() - begun}


def products(given: dict[str, Any]) -> dict[str, float]:
    """The matrix products of the posteriors and nothing else: what the BLAS library needs for them."""
    import torch

    plain, calls = torch.mm, []

    def noted(a: Any, b: Any, out: Any = None) -> Any:
        calls.append((a, b, out))
        return plain(a, b, out=out)

    torch.mm = noted
    try:
        given["flow"].posterior(given["x"])
    finally:
        torch.mm = plain
    begun = time.process_time()
    for a, b, out in calls:
        plain(a, b, out=out)
    return {"mean": float("nan"), "cpu": time.process_time() - begun}


def inference_table() -> dict[str, Any]:
    """Posteriors and samples of a flow that comes along: channels as planes, beside the plain steps."""
    rows, count = [], steps_of(512)
    told = {"name": "mnist", "rows": count}
    limit = harness.isolated(prepare_zoo, products, planes=True, **told).output["cpu"]
    rows.append({"what": "posteriors", "steps": "their matrix products alone", "cores": 1,
                 "images/s of CPU time": round(count / limit)})  # fmt: skip
    for what, work in (("posteriors", posteriors), ("samples", draws)):
        plain = None
        for planes, cores in ((False, 1), (True, 1), (True, 2)):
            found = harness.isolated(prepare_zoo, work, cores=cores, warmup=1, planes=planes, **told)
            plain = plain or found
            cpu = found.output["cpu"]
            row = {"what": what, "steps": "in planes" if planes else "plain", "cores": cores,
                   "images/s": round(count / found.best), "images/s of CPU time": round(count / cpu),
                   "extra MB": found.extra_megabytes,
                   "difference": abs(found.output["mean"] - plain.output["mean"])}  # fmt: skip
            if planes and cores == 1:
                row["share of the products"] = limit / cpu
                row |= harness.against(plain.output["cpu"] / cpu, at_least=2.0, unit="times the plain steps")
            rows.append(row)
    notes = [f"{count} images of the compact MNIST flow (K=12, L=3, C=96, 32 × 32)",
             "difference: of the mean largest posterior",
             "the matrix products alone, in float32 by the BLAS library, bound any rearrangement"]  # fmt: skip
    return harness.table("Posteriors and samples on a CPU", rows, seed=0, notes=notes)


def gpu_table() -> dict[str, Any]:
    """What reproductions/flow_device.py speed wrote on the GPU that it ran on."""
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    measured = [row for row in told["rows"] if "images_per_second" in row]
    grey_peers = [row for row in measured if row["variant"].startswith("normflows") and "1 ch" in row["variant"]]
    best_peer = max(row["images_per_second"] for row in grey_peers)
    same_batch = max(row["images_per_second"] for row in grey_peers if row["batch"] == 256)
    rows = []
    for row in measured:
        shown: dict[str, Any] = {"Glow": row["variant"], "batch": row["batch"]}
        shown |= {"images/s": round(row["images_per_second"]), "GB": row["memory_gb"]}
        if row["variant"].startswith("hardpan bf16, captured (256), 1 ch"):
            shown |= harness.against(row["images_per_second"] / same_batch, at_least=4.0, unit="times normflows")
        if row["variant"].startswith("hardpan bf16, captured (512), 1 ch"):
            shown |= harness.against(row["images_per_second"], at_least=15_000, unit="images/s")
        if row["variant"].startswith("hardpan bf16, captured (1024), 1 ch"):
            shown |= harness.against(
                row["images_per_second"] / best_peer, at_least=2.5, unit="times normflows' best"
            )
        rows.append(shown)
    notes = [
        f"device: {told['device']}, torch {told['torch']}; K=16, L=3, C=512, 32 × 32, whole training steps",
        "made by: python reproductions/flow_device.py speed --peer FOLDER",
    ]
    return harness.table("Training steps of the paper's Glow on a GPU", rows, seed=0, notes=notes)


def run() -> list[dict[str, Any]]:
    tables = [cpu_table(), inference_table()]
    return [*tables, gpu_table()] if RECORD.exists() else tables
