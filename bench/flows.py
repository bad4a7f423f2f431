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
    from hardpan.flows.fitting import FitRows, FlowTask
    from hardpan.flows.network import build
    from hardpan.flows.scaling import scaling_for

    torch.set_num_threads(1)
    digits = Dataset.open("digits")
    config = flows.FlowConfig(preset="tiny", class_weight=0.0, epochs=1, batch_size=BATCH).filled()
    network = build(config, scaling_for(digits.x, config), torch.full((10,), 0.1))
    assert digits.labels is not None
    rows = FitRows(network, digits.x, digits.labels, torch.device("cpu"))
    task = FlowTask(network, config, rows, rows, torch.device("cpu"))
    task.optimizer.table.fill_(1e-3)
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


def prepare_both(steps: int) -> dict[str, Any]:
    return {"hardpan": prepare_ours(steps), "normflows": prepare_peer(steps)}


def train_both(given: dict[str, Any]) -> dict[str, float]:
    """Both in turn, six rounds: the least CPU time of each, and the NLL after the last."""
    result: dict[str, float] = {}
    for _ in range(6):
        for name, work in (("hardpan", train_ours), ("normflows", train_peer)):
            begun = time.process_time()
            result[f"{name}/nll"] = work(given[name])["nll"]
            spent = time.process_time() - begun
            result[f"{name}/cpu"] = min(spent, result.get(f"{name}/cpu", math.inf))
    return result


def cpu_table() -> dict[str, Any]:
    steps = steps_of(60)
    result = harness.isolated(prepare_both, train_both, steps=steps).output
    rows: list[dict[str, Any]] = [
        {"Glow": name, "images per CPU second": round(BATCH * steps / result[f"{name}/cpu"]),
         "NLL after the last round": result[f"{name}/nll"]}
        for name in ("hardpan", "normflows")
    ]  # fmt: skip
    rows[0] |= harness.against(
        result["hardpan/cpu"] / result["normflows/cpu"], at_most=1.0, unit="times the peer's CPU time"
    )
    notes = [
        f"digits 8 × 8, K=4, L=2, C=32, batch {BATCH}, {6 * steps} Adam steps of rate 1e-3 in all, one core, both "
        "in turn in one process",
        "NLL in nats on the 17-level scale of the data, of 500 training images",
    ]
    return harness.table("Training steps of a small Glow on a CPU", rows, seed=0, notes=notes)


def prepare_zoo(name: str, rows: int) -> dict[str, Any]:
    from hardpan import flows

    flow = flows.load(name)
    x, _ = flow.sample(rows, temperature=0.7)
    return {"flow": flow, "x": x, "rows": rows}


def product_seconds(flow: Any, x: Any) -> float:
    """CPU time of the matrix products of the posteriors alone: what the BLAS library needs."""
    import torch

    plain, calls = torch.mm, []

    def noted(a: Any, b: Any, out: Any = None) -> Any:
        calls.append((a, b, out))
        return plain(a, b, out=out)

    torch.mm = noted
    try:
        flow.posterior(x)
    finally:
        torch.mm = plain
    begun = time.process_time()
    for a, b, out in calls:
        plain(a, b, out=out)
    return time.process_time() - begun


KINDS = ("plain", "in planes")  # steps


def inference(given: dict[str, Any]) -> dict[str, float]:
    """Every kind of steps in turn, several rounds: the least CPU time of each, and what differs from the plain."""
    from hardpan.flows import planes

    flow, x, rows, usable = given["flow"], given["x"], given["rows"], planes.can_use_planes
    seconds: dict[tuple[str, str], float] = {}
    posteriors: dict[str, Any] = {}
    nll: dict[str, float] = {}
    for _ in range(4):
        for kind in KINDS:
            planes.can_use_planes = usable if kind != "plain" else lambda x: False
            started = time.process_time()
            posteriors[kind] = flow.posterior(x)
            half = time.process_time()
            flow.sample_with_posterior(rows, temperature=0.7)
            spent = {"posteriors": half - started, "samples": time.process_time() - half}
            if kind != "plain":
                spent["products"] = product_seconds(flow, x)
            for what, value in spent.items():
                seconds[kind, what] = min(value, seconds.get((kind, what), math.inf))
            nll[kind] = -float(flow.log_prob(x[:64]).mean()) if kind not in nll else nll[kind]
    planes.can_use_planes = usable
    result: dict[str, float] = {}
    for kind in KINDS:
        apart = abs(posteriors[kind] - posteriors["plain"])
        values = {what: rows / value for (name, what), value in seconds.items() if name == kind} | {
            "mean difference": float(apart.mean()),
            "largest difference": float(apart.max()),
            "other decisions": float((posteriors[kind].argmax(1) != posteriors["plain"].argmax(1)).mean()),
            "nll": nll[kind],
        }
        result |= {f"{kind}/{name}": value for name, value in values.items()}
    return result


def inference_table() -> dict[str, Any]:
    """Posteriors and samples of bundled flows: in planes, beside the plain steps and the products alone."""
    rows, count = [], steps_of(256)
    for name in ("mnist", "fashion-mnist"):
        result = harness.isolated(prepare_zoo, inference, name=name, rows=count).output
        by_kind = {
            kind: {key.partition("/")[2]: value for key, value in result.items() if key.startswith(f"{kind}/")}
            for kind in KINDS
        }
        plain = by_kind["plain"]
        for kind, values in by_kind.items():
            row = {"flow": name, "steps": kind, "posteriors/s": round(values["posteriors"]),
                   "samples/s": round(values["samples"]),
                   "products alone/s": round(values["products"]) if "products" in values else None,
                   "mean difference of posteriors": values["mean difference"],
                   "largest difference": values["largest difference"],
                   "other decisions": values["other decisions"],
                   "NLL": values["nll"]}  # fmt: skip
            if kind != "plain":
                ratio = min(values[what] / plain[what] for what in ("posteriors", "samples"))
                row |= harness.against(ratio, at_least=2.0, unit="times the plain steps")
            rows.append(row)
    notes = [f"{count} images drawn at temperature 0.7 from the compact flows (K=12, L=3, C=96, 32 × 32); CPU time "
             "of one core, the least of four rounds of all kinds in turn",
             "differences are from the plain steps in float32; other decisions: proportion with another likeliest "
             "class; NLL of 64 of the images, in nats",
             "the matrix products alone bound any rearrangement; the posterior leaves out the last coupling of the "
             "lower levels, whose output it does not need"]  # fmt: skip
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
