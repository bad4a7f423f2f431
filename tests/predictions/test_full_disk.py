"""A full disk ends with a clear sentence and a store that opens: on a real file system that is full."""

import shutil
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import numpy as np, os, sys
    from hardpan.predictions import Predictions, check, export
    from hardpan.errors import InputError
    from hardpan.predictions.checks import softmax
    from hardpan.predictions.recorder import Recorder

    ids = [f"image-{row}" for row in range(4000)]
    rng = np.random.default_rng(0)
    given = [softmax(rng.normal(size=(4000, 10))).astype(np.float16) for _ in range(30)]
    done = []
    recorder = Recorder("disk/run", ids=ids, n_classes=10, block=1000)
    try:
        for epoch in range(30):
            recorder.record(given[epoch], epoch=epoch)
            done.append(epoch)
    except InputError as error:
        print(error)
    else:
        sys.exit("the disk was never full")
    found = Predictions.open("disk/run")
    assert 2 <= len(done) < 29, done
    assert found.epochs == tuple(done), (found.epochs, done)
    for epoch in done:
        assert np.array_equal(found.read(0, epoch), given[epoch])
    assert check("disk/run").ok
    try:
        export(found, "disk/out.npz")
    except InputError as error:
        print(error)
    else:
        sys.exit("the export fitted")
    assert not any(name.endswith("partial") for name in os.listdir("disk")), os.listdir("disk")
    # With room again the same run goes on where it was.
    os.remove("disk/ballast")
    with Recorder("disk/run", ids=ids, n_classes=10, block=1000) as again:
        assert again.next_epoch() == len(done)
        again.record(given[len(done)], epoch=len(done))
    assert np.array_equal(Predictions.open("disk/run").read(0, len(done)), given[len(done)])
    print("went on")
"""


def test_a_full_file_system(tmp_path):
    if shutil.which("unshare") is None:
        pytest.skip("needs unshare (util-linux) to mount a small file system")
    (tmp_path / "disk").mkdir()
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    mount = "mount -t tmpfs -o size=700k tmpfs disk && head -c 200k /dev/zero > disk/ballast || exit 77"
    command = f"{mount}; exec {sys.executable} script.py"
    done = subprocess.run(["unshare", "-Urm", "sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"may not mount a file system here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    first, second, last = done.stdout.strip().splitlines()
    assert "disk/run: the disk is full (No space left on device) while " in first
    assert "what was committed before is safe" in first
    assert "disk/out.npz: the disk is full (No space left on device)" in second
    assert last == "went on"


LIMITED = """
    import resource, signal
    import numpy as np
    from hardpan.predictions import Predictions, check, export
    from hardpan.errors import InputError
    from hardpan.predictions.checks import softmax

    given = softmax(np.random.default_rng(0).normal(size=(20000, 10)))
    made = Predictions.create("run", ids=[str(row) for row in range(20000)], n_classes=10, dtype="float32")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        made.write(0, 0, given)
    except InputError as error:
        print(error)
    assert Predictions.open("run").seeds == ()
    assert check("run").ok
"""


def test_a_limit_on_the_size_of_files(tmp_path):
    code = textwrap.dedent(LIMITED)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "run: the disk is full (File too large) while probabilities/0/0/c/0/0 was written;"
    )
