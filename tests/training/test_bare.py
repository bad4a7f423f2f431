"""Training on arrays needs torch, NumPy and safetensors alone: it runs where nothing else is installed."""

import subprocess
import sys

PROGRAM = """
import sys
for name in ("zarr", "pyarrow", "typer", "rich", "joblib", "numba", "sklearn", "altair", "pooch", "zuko", "PIL"):
    sys.modules[name] = None
import numpy as np
from hardpan import training
rng = np.random.default_rng(0)
x = rng.integers(0, 256, (64, 8, 8, 3), dtype=np.uint8)
fit = training.fit_arrays(x, np.arange(64) % 2, x, model="convnet", seeds=1, epochs=1, device="cpu",
                          model_options={"width": 4})
assert fit.probs.shape == (1, 1, 64, 2)
"""


def test_arrays_are_trained_on_without_the_rest():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
