"""Flows on disk: ``weights.safetensors`` and ``flow.json``, which names the hash of the weights and comes last."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from hardpan import files
from hardpan.errors import InputError
from hardpan.flows.flow import Flow, FlowRecord
from hardpan.flows.network import build, rebuild_scaling

CARD, WEIGHTS = "flow.json", "weights.safetensors"
PRECISIONS = {"float32": torch.float32, "float16": torch.float16}
# What bounded a coupling before these were settings: flows that were saved then are read with them.
BEFORE_SETTINGS = {"least_scale": 0.05, "most_scale": 1.0, "reach": 0.0}


def save(flow: Flow, folder: str | os.PathLike[str], *, precision: str = "float32") -> Path:
    """Write a flow into a folder; "float16" halves the file and rounds the weights.

    A flow read back from float32 gives the same bits; from float16 it is a flow of its own, exact in itself.
    """
    if precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}; got {precision!r}")
    place = Path(folder)
    dtype = PRECISIONS[precision]
    # The base is small, and the Bayes error is made of it: it stays as it is.
    tensors = {
        name: value.detach().cpu().to(dtype if _rounded(name, value) else value.dtype).contiguous()
        for name, value in flow.network.state_dict().items()
    }
    content = tensors_to_bytes(tensors)
    card = {"weights": WEIGHTS, "sha256": hashlib.sha256(content).hexdigest(), "precision": precision}
    try:
        place.mkdir(parents=True, exist_ok=True)
        files.write_bytes(place / WEIGHTS, content)
        files.write_text(place / CARD, files.dumps(files.to_json(flow.record) | {"file": card}) + "\n")
    except OSError as error:
        raise InputError(f"{place}: cannot be written ({error.strerror or error}); give another folder") from error
    return place


def load(path_or_name: str | os.PathLike[str]) -> Flow:
    """Read a flow from a folder that :func:`save` wrote, or one that comes with hardpan by its name.

    Raises:
        InputError: there is no such flow, or its files are not what was written.
    """
    place = _place(path_or_name)
    try:
        card = json.loads((place / CARD).read_text(encoding="utf-8"))
        file = card.pop("file")
        for name, value in BEFORE_SETTINGS.items():
            card["config"].setdefault(name, value)
        content = (place / WEIGHTS).read_bytes()
    except OSError as error:
        raise InputError(f"{place}: cannot be read ({error.strerror}); give a folder that a fit wrote") from error
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InputError(f"{place / CARD}: is damaged ({type(error).__name__}); fit the flow again") from error
    if not isinstance(file, dict) or hashlib.sha256(content).hexdigest() != file.get("sha256"):
        raise InputError(f"{place / WEIGHTS}: does not match {CARD}; copy both files together")
    record = files.from_json(card, place)
    if not isinstance(record, FlowRecord):
        raise InputError(f"{place / CARD}: holds a {type(record).__name__}, not a flow; give a folder of a fit")
    return _assemble(record, content, place)


def weights_hash(path_or_name: str | os.PathLike[str]) -> str:
    """The sha256 of a saved flow's weights, as its card says it."""
    place = _place(path_or_name) / CARD
    try:
        return str(json.loads(place.read_text(encoding="utf-8"))["file"]["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place}: is damaged ({type(error).__name__}); fit the flow again") from error


def fingerprint(flow: Flow) -> str:
    """The sha256 of a flow's weights as they are in memory: what tells two flows apart where neither is a file."""
    digest = hashlib.sha256()
    for name, value in sorted(flow.network.state_dict().items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _assemble(record: FlowRecord, content: bytes, place: Path) -> Flow:
    try:
        tensors = {name: _wide(value) for name, value in tensors_from_bytes(content).items()}
        priors = torch.exp(tensors["base.log_priors"])
        network = build(record.config.filled(), rebuild_scaling(dict(record.scaling)), priors)
        network.load_state_dict(tensors)
    except (SafetensorError, KeyError, RuntimeError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{place}: card and weights do not fit each other ({type(error).__name__})") from error
    return Flow(network, record)


def _rounded(name: str, value: torch.Tensor) -> bool:
    return value.is_floating_point() and not name.startswith(("base.", "scaling."))


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.float() if value.is_floating_point() else value


def _place(path_or_name: str | os.PathLike[str]) -> Path:
    place = Path(path_or_name)
    if (place / CARD).is_file():
        return place
    try:
        zoo = importlib.import_module("hardpan.flows.zoo")
    except ModuleNotFoundError:
        zoo = None
    if zoo is not None and (found := zoo.folder(os.fspath(path_or_name))) is not None:
        return Path(found)
    known = f" nor a flow that comes along ({', '.join(zoo.names())})" if zoo is not None else ""
    raise InputError(f"flow {os.fspath(path_or_name)!r} is no folder with {CARD}{known}; fit one: hardpan flow fit")
