"""pandas and polars are optional: what does not name them works without them."""

import io
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
from PIL import Image

SCRIPT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pandas", "polars"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from hardpan import Dataset, Outcomes, Predictions, tables
assert Dataset.open("d.csv").feature_names == ("a", "town=oslo", "town=rome")
assert Dataset.open("images.parquet").metadata["path"][0] == "0.png"
assert Dataset.open([{"a": 1.0, "label": "u"}, {"a": 2.0, "label": "v"}]).n_classes == 2
assert Predictions.open("p.csv").n_classes == 2
assert Outcomes.open("s.csv").models == ("m", "n")
assert type(tables.to_frame({"a": [1]})).__module__.startswith("pyarrow")
"""


def test_files_are_read_without_pandas_and_polars(tmp_path):
    rows = "".join(f"{k},{['oslo', 'rome'][k % 2]},{'uv'[k % 2]}\n" for k in (3, 1, 4, 1, 5, 9))
    (tmp_path / "d.csv").write_text("a,town,label\n" + rows)
    (tmp_path / "p.csv").write_text("p0,p1\n0.5,0.5\n0.25,0.75\n")
    (tmp_path / "s.csv").write_text("model,q1,q2\nm,1,0\nn,1,1\n")
    buffer = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(buffer, "PNG")
    images = [{"bytes": buffer.getvalue(), "path": f"{k}.png"} for k in range(4)]
    table = pyarrow.table({"image": images, "label": ["u", "v"] * 2})
    pyarrow.parquet.write_table(table, tmp_path / "images.parquet")
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
