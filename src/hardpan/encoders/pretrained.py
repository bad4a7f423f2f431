"""Pretrained models as encoders: transformers, sentence-transformers, ONNX. Nothing is fetched unless allowed.

Weights are read at the first batch and only from safetensors and ONNX files, which hold no code; code in the folder
of a model is not run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardpan.errors import InputError, MissingExtra, reason
from hardpan.files import file_hash

READ = ("*.json", "*.safetensors", "*.txt", "*.model")  # files of a model that are fetched, and that identify it
IMAGENET = {"image_mean": (0.485, 0.456, 0.406), "image_std": (0.229, 0.224, 0.225)}
ONNX_SIDE = 224  # pixels of images where an ONNX file takes any size
ONNX_TOKENS = 256


def model_folder(name: str, download: bool) -> Path:
    """The folder of a model of huggingface.co on this machine; fetched only where that is allowed."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.constants import HF_HUB_CACHE
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise MissingExtra("transformers", "encoders") from error
    try:
        folder = Path(snapshot_download(name, local_files_only=True))
        if any(folder.rglob("*.safetensors")):
            return folder
    except (LocalEntryNotFoundError, ValueError):
        pass
    if not download:
        raise InputError(
            f"{name!r} is no folder here, and not in {HF_HUB_CACHE}; --set download=true (download=True) fetches "
            f"its weights and settings ({', '.join(READ)}) from https://huggingface.co/{name} into that folder",
            argument="encoder",
        )
    try:
        return Path(snapshot_download(name, allow_patterns=list(READ)))
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise InputError(f"{name!r} cannot be fetched ({reason(error)})", argument="encoder") from error


class PretrainedModel:
    """A model of transformers or sentence-transformers in a folder, as a function of a batch.

    Texts are encoded as sentence-transformers does where the folder has its ``modules.json``; other models of texts
    give the mean of the last hidden states over the tokens, models of images their pooled output (without one, the
    mean over the positions), and models of both, such as CLIP, their projected features.

    Attributes:
        identity: changes with the files of the model and the precision.
    """

    def __init__(self, folder: Path, device: str = "auto", half: bool = False) -> None:
        self._folder, self._device, self._half = folder, device, half
        if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
            raise InputError(
                f": {folder} has neither config.json (transformers) nor modules.json (sentence-transformers); give "
                "the folder of a saved model, an ONNX file or module:function",
                argument="encoder",
            )
        paths = sorted({path for pattern in READ for path in folder.rglob(pattern) if path.is_file()})
        if not any(path.suffix == ".safetensors" for path in paths):
            raise InputError(
                f": {folder} has no weights in .safetensors; pickled weights are never loaded: save the model with "
                "save_pretrained",
                argument="encoder",
            )
        digest = hashlib.sha256(f"pretrained {half}".encode())
        for path in paths:
            digest.update(f"{path.relative_to(folder).as_posix()} {file_hash(path)}\n".encode())
        self.identity = digest.hexdigest()
        self._functions: dict[str, Callable[[Any], Any]] = {}

    def __call__(self, batch: Any) -> Any:
        """The vectors of images or texts."""
        kind = "texts" if isinstance(batch, list) else "images"
        if kind not in self._functions:
            self._functions[kind] = self._texts() if kind == "texts" else self._images()
        return self._functions[kind](batch)

    def _texts(self) -> Callable[[list[str]], Any]:
        device = self._torch_device()
        if (self._folder / "modules.json").is_file():
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError as error:
                raise MissingExtra("sentence-transformers", "encoders") from error
            options = {"use_safetensors": True, "dtype": self._dtype()}
            whole = SentenceTransformer(
                str(self._folder), device=device, local_files_only=True, model_kwargs=options
            ).eval()
            return lambda texts: whole.encode(texts, batch_size=len(texts), show_progress_bar=False)
        import torch

        model = self._model(device)
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(self._folder, local_files_only=True)
        most = getattr(model.config, "max_position_embeddings", None) or 512
        most = min(most, tokenizer.model_max_length, 512)

        def encode(texts: list[str]) -> Any:
            tokens = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt").to(
                device
            )
            with torch.inference_mode():
                if hasattr(model, "get_text_features"):
                    return _features(model.get_text_features(**tokens))
                states = model(**tokens).last_hidden_state.float()
            mask = tokens["attention_mask"].unsqueeze(-1).float()
            return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)

        return encode

    def _images(self) -> Callable[[NDArray[Any]], Any]:
        import torch

        device = self._torch_device()
        model = self._model(device)
        from transformers import AutoImageProcessor

        processor = AutoImageProcessor.from_pretrained(self._folder, local_files_only=True)

        def encode(images: NDArray[Any]) -> Any:
            pixels = processor(images=list(colour_images(images)), return_tensors="pt")["pixel_values"]
            with torch.inference_mode():
                pixels = pixels.to(device, self._dtype())
                if hasattr(model, "get_image_features"):
                    return _features(model.get_image_features(pixel_values=pixels))
                return _features(model(pixel_values=pixels))

        return encode

    def _model(self, device: str) -> Any:
        try:
            import transformers
        except ImportError as error:
            raise MissingExtra("transformers", "encoders") from error
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        model = transformers.AutoModel.from_pretrained(
            self._folder, local_files_only=True, use_safetensors=True, dtype=self._dtype()
        )
        return model.to(device).eval()

    def _torch_device(self) -> str:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra("torch", "encoders") from error
        return ("cuda" if torch.cuda.is_available() else "cpu") if self._device == "auto" else self._device

    def _dtype(self) -> Any:
        import torch

        return torch.float16 if self._half else torch.float32


def _features(output: Any) -> Any:
    """The vectors in what a model of transformers gives for images: pooled, else the mean over the positions."""
    if not hasattr(output, "last_hidden_state"):
        return output
    pooled = getattr(output, "pooler_output", None)
    states = output.last_hidden_state
    if pooled is None:
        pooled = states.mean(dim=1) if states.ndim == 3 else states.flatten(2).mean(dim=2)
    return pooled.flatten(1)


def colour_images(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Images (n, H, W, 3) of bytes: grey ones in three equal channels, a fourth channel left out.

    Numbers other than bytes are taken as 0 to 1 where none is larger, else as 0 to the largest.

    Example:
        >>> colour_images(np.array([[[0.0, 1.0]]])).tolist()
        [[[[0, 0, 0], [255, 255, 255]]]]
    """
    if images.dtype != np.uint8:
        top = max(1.0, float(images.max(initial=0)))
        images = np.clip(np.rint(images * (255 / top)), 0, 255).astype(np.uint8)
    images = images[..., None] if images.ndim == 3 else images
    return np.ascontiguousarray(np.repeat(images, 3, axis=3) if images.shape[3] < 3 else images[..., :3])


class OnnxModel:
    """An ONNX file as a function of a batch, by onnxruntime.

    A model of images takes (n, 3, H, W) or (n, H, W, 3) float32: images are resized to its H × W (224 where it
    takes any), divided by 255 and standardised by mean and deviation of the ``preprocessor_config.json`` beside it,
    else by those of ImageNet. A model of texts takes ``input_ids`` and ``attention_mask``, made by the
    ``tokenizer.json`` beside it. Its first output is (n, d), or (n, tokens, d), of which the mean over the tokens.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session: Any = None

    def __call__(self, batch: Any) -> NDArray[Any]:
        """The vectors of images or texts."""
        if self._session is None:
            try:
                import onnxruntime
            except ImportError as error:
                raise MissingExtra("onnxruntime", "onnx") from error
            providers = onnxruntime.get_available_providers()
            self._session = onnxruntime.InferenceSession(str(self._path), providers=providers)
        inputs = {item.name: item for item in self._session.get_inputs()}
        if isinstance(batch, list):
            feeds, mask = self._tokens(batch, inputs)
        else:
            feeds, mask = self._pixels(batch, next(iter(inputs.values()))), None
        output = np.asarray(self._session.run(None, feeds)[0], dtype=np.float32)
        if output.ndim == 3 and mask is not None:
            return np.asarray((output * mask[..., None]).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)[:, None])
        return output.reshape(len(output), -1)

    def _pixels(self, images: NDArray[Any], item: Any) -> dict[str, NDArray[np.float32]]:
        from PIL import Image

        shape = list(item.shape)
        if len(shape) != 4:
            raise InputError(
                f": {self._path} takes an input of shape {shape}, not images (n, 3, H, W); name a function of the "
                "images instead, module:function",
                argument="encoder",
            )
        last = shape[3] == 3 and shape[1] != 3
        height, width = (
            size if isinstance(size, int) else ONNX_SIDE for size in (shape[1:3] if last else shape[2:])
        )
        settings: dict[str, Any] = dict(IMAGENET)
        beside = self._path.with_name("preprocessor_config.json")
        if beside.is_file():
            settings |= json.loads(beside.read_text(encoding="utf-8"))
        resized = [
            np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC))
            for image in colour_images(images)
        ]
        mean, std = (np.asarray(settings[name], dtype=np.float32) for name in ("image_mean", "image_std"))
        pixels = (np.stack(resized).astype(np.float32) / 255 - mean) / std
        return {item.name: np.ascontiguousarray(pixels if last else pixels.transpose(0, 3, 1, 2))}

    def _tokens(self, texts: list[str], inputs: dict[str, Any]) -> tuple[dict[str, Any], NDArray[np.float32]]:
        beside = self._path.with_name("tokenizer.json")
        if "input_ids" not in inputs or not beside.is_file():
            raise InputError(
                f": {self._path} encodes texts only with an input input_ids and tokenizer.json beside it; it takes "
                f"{', '.join(inputs)}",
                argument="encoder",
            )
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingExtra("tokenizers", "onnx") from error
        tokenizer = Tokenizer.from_file(str(beside))
        tokenizer.enable_padding()
        tokenizer.enable_truncation(ONNX_TOKENS)
        encoded = tokenizer.encode_batch(texts)
        arrays = {
            "input_ids": [item.ids for item in encoded],
            "attention_mask": [item.attention_mask for item in encoded],
            "token_type_ids": [item.type_ids for item in encoded],
        }
        feeds = {name: np.array(values, dtype=np.int64) for name, values in arrays.items() if name in inputs}
        return feeds, np.array(arrays["attention_mask"], dtype=np.float32)
