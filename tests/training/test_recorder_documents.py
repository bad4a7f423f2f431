"""The snippets for Lightning and the Hugging Face Trainer in the documentation do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hardpan.predictions import Predictions

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/recording.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.soak  # they import both trainers anew; test_adapters.py runs the callbacks every time
@pytest.mark.parametrize(("package", "run"), [("lightning", "lightning-run"), ("transformers", "trainer-run")])
def test_the_snippet_records_three_epochs(tmp_path, package, run):
    pytest.importorskip(package)
    (snippet,) = [text for text in SNIPPETS if run in text]
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert Predictions.open(tmp_path / run).epochs == (0, 1, 2)
