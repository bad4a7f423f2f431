"""Fourteen problems: images (seven), and official or odd-looking splits (seven)."""

import io

import numpy as np
import pandas as pd

P = {}


def plant(name, mode="none"):
    def add(f):
        P[name] = (mode, f)
        return f

    return add


# ---------------------------------------------------------------- helpers


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def texture(rng, n, h, w, beta=1.5):
    """n smooth random fields with spectrum 1/f^beta, mean 0 and standard deviation 1."""
    fy, fx = np.fft.fftfreq(h)[:, None], np.fft.rfftfreq(w)[None, :]
    f = np.sqrt(fy**2 + fx**2)
    f[0, 0] = 1.0
    amp = f**-beta
    amp[0, 0] = 0.0
    t = np.fft.irfft2(np.fft.rfft2(rng.normal(size=(n, h, w))) * amp, s=(h, w))
    return t / t.std(axis=(1, 2), keepdims=True)


def local(n, h, w, cy, cx, angle):
    """Coordinates of every pixel relative to each object's centre, rotated by its angle."""
    yy, xx = np.mgrid[0:h, 0:w]
    dy, dx = yy[None] - cy[:, None, None], xx[None] - cx[:, None, None]
    c, s = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return c * dx + s * dy, -s * dx + c * dy


def cover(dist):
    """Soft coverage of pixels (0..1) by an object with this signed distance (negative inside)."""
    return np.clip(0.5 - dist, 0.0, 1.0)


def shape_mask(kind, u, v, r):
    """Masks of objects of size r: 0 disc, 1 triangle, 2 plus."""
    r = r[:, None, None]
    disc = np.hypot(u, v) - 0.9 * r
    tri = np.maximum(np.maximum(-v, 0.866 * u + 0.5 * v), -0.866 * u + 0.5 * v) - 0.6 * r
    a, b = np.abs(u), np.abs(v)
    plus = np.minimum(np.maximum(a - r, b - 0.33 * r), np.maximum(b - r, a - 0.33 * r))
    k = kind[:, None, None]
    return cover(np.where(k == 0, disc, np.where(k == 1, tri, plus)))


def to_uint8(x):
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


def colour_scenes(rng, kind, size=32):
    """Colour photographs: a textured ground and one object of the kind, anywhere."""
    n = len(kind)
    ground = rng.uniform(70, 185, (n, 1, 1, 3)) + 24 * texture(rng, n, size, size)[..., None]
    ground = ground + 10 * texture(rng, 3 * n, size, size, 1.0).reshape(n, 3, size, size).transpose(0, 2, 3, 1)
    r = rng.uniform(5.5, 8.5, n)
    cy, cx = rng.uniform(9, size - 10, n), rng.uniform(9, size - 10, n)
    u, v = local(n, size, size, cy, cx, rng.uniform(0, 2 * np.pi, n))
    mask = shape_mask(kind, u, v, r)[..., None]
    mean = ground.mean(axis=(1, 2), keepdims=True)
    sign = np.where(mean.mean(axis=3, keepdims=True) > 128, -1.0, 1.0)
    paint = mean + sign * rng.uniform(75, 105, (n, 1, 1, 3)) + 9 * texture(rng, n, size, size, 1.0)[..., None]
    return to_uint8(ground * (1 - mask) + paint * mask + rng.normal(0, 2, (n, size, size, 3)))


def alter(rng, image, how):
    """One altered copy of a uint8 colour image."""
    from PIL import Image, ImageEnhance, ImageFilter

    h, w = image.shape[:2]
    picture = Image.fromarray(image)

    def jpeg(p, quality):
        f = io.BytesIO()
        p.save(f, "JPEG", quality=int(quality))
        return Image.open(io.BytesIO(f.getvalue())).convert("RGB")

    def shift(a, dy, dx):
        pad = np.pad(a, ((4, 4), (4, 4), (0, 0)), mode="edge")
        return pad[4 - dy : 4 - dy + h, 4 - dx : 4 - dx + w]

    def crop(p, side):
        top, left = rng.integers(0, h - side + 1), rng.integers(0, w - side + 1)
        return p.crop((left, top, left + side, top + side)).resize((w, h), Image.BICUBIC)

    if how == 0:  # recompressed
        return np.asarray(jpeg(picture, rng.integers(30, 61)))
    if how == 1:  # shifted by one to three pixels
        dy, dx = rng.integers(-3, 4, 2)
        return shift(image, int(dy), int(dx) if dx or dy else 2)
    if how == 2:  # cropped and enlarged again
        return np.asarray(crop(picture, int(rng.integers(27, 31))))
    if how == 3:  # mirrored and recompressed
        return np.asarray(jpeg(Image.fromarray(image[:, ::-1].copy()), 75))
    if how == 4:  # brighter or darker, another contrast
        p = ImageEnhance.Brightness(picture).enhance(float(rng.choice([0.75, 0.85, 1.18, 1.3])))
        return np.asarray(ImageEnhance.Contrast(p).enhance(float(rng.uniform(0.85, 1.15))))
    if how == 5:  # thumbnail made large again
        return np.asarray(picture.resize((20, 20), Image.BILINEAR).resize((w, h), Image.BICUBIC))
    if how == 6:  # grey
        return np.asarray(picture.convert("L").convert("RGB"))
    p = crop(picture, 29).filter(ImageFilter.GaussianBlur(0.5))  # several at once
    return np.asarray(jpeg(ImageEnhance.Brightness(p).enhance(1.12), 70))


# ---------------------------------------------------------------- images


@plant("photo collection: a quarter of the test pictures are edited copies of training pictures")
def _(rng):
    n_train, n_test, n_copy = 1200, 400, 100
    n = n_train + n_test
    y = rng.integers(0, 3, n)
    x = colour_scenes(rng, y)
    rows = n_train + np.sort(rng.choice(n_test, n_copy, replace=False))
    source = rng.choice(n_train, n_copy, replace=False)
    for k, (row, src) in enumerate(zip(rows, source)):
        x[row] = alter(rng, x[src], k % 8)
        y[row] = y[src]
    names = np.array(["disc", "triangle", "plus"])
    return dict(
        x=x,
        y=names[y],
        split=np.repeat(["train", "test"], [n_train, n_test]),
        truth=0.0,
        planted={"near-copies": dict(rows=rows.tolist())},
        ok=set(),
        note="100 of 400 test pictures are training pictures after JPEG, a shift, a crop, a mirror, other brightness, rescaling, grey or several of these; "
        "the shape, which no edit changes, determines the label",
    )


@plant("part inspection: one fixed camera and jig, so that all pictures are alike, no copies")
def _(rng):
    n, s = 1500, 28
    fixture = np.clip(95 + 38 * texture(rng, 1, s, s, 1.0)[0], 25, 190)  # the same in all pictures
    y = (rng.random(n) < 0.3).astype(int)
    cy, cx = 13.5 + rng.normal(0, 0.5, n), 13.5 + rng.normal(0, 0.5, n)
    u, v = local(n, s, s, cy, cx, rng.uniform(0, 2 * np.pi, n))
    radius = np.hypot(u, v)
    ring = cover(np.maximum(radius - 11.0, 4.2 - radius))
    for k in range(3):
        a = 2 * np.pi * k / 3
        ring = ring * (1 - cover(np.hypot(u - 7.6 * np.cos(a), v - 7.6 * np.sin(a)) - 1.3))
    metal = 150 + 7 * texture(rng, n, s, s, 0.6)  # machining marks, new on every part
    x = fixture * (1 - ring) + metal * ring
    angle, where = rng.uniform(0, np.pi, n), rng.uniform(0, 2 * np.pi, n)  # the scratch
    a, b = local(n, s, s, cy + 7.5 * np.sin(where), cx + 7.5 * np.cos(where), angle)
    half = rng.uniform(3.0, 4.5, n)[:, None, None]
    scratch = cover(np.maximum(np.abs(a) - half, np.abs(b) - 0.7)) * y[:, None, None]
    x = x + 70 * scratch
    x = x * rng.normal(1, 0.02, (n, 1, 1)) + rng.normal(0, 2.5, (n, s, s))
    return dict(
        x=to_uint8(x),
        y=np.array(["good", "scratched"])[y],
        truth=0.0,
        planted={},
        ok=set(),
        note="each picture is a part of its own with its own position, rotation, machining marks and noise; a bright scratch anywhere on the ring determines the label",
    )


@plant("camera trap: bursts of three to six frames, every burst in one split")
def _(rng):
    s, bursts = 24, 420
    test = np.zeros(bursts, bool)
    test[rng.choice(bursts, 110, replace=False)] = True
    kind = rng.choice(3, bursts, p=[0.4, 0.35, 0.25])
    ground = rng.uniform(60, 140, (bursts, 1, 1)) + 26 * texture(rng, bursts, s, s, 1.3)
    r, bright = rng.uniform(4.3, 6.2, bursts), rng.uniform(75, 105, bursts)
    cy, cx, turn = rng.uniform(7, s - 8, bursts), rng.uniform(7, s - 8, bursts), rng.uniform(0, 2 * np.pi, bursts)
    frames = np.repeat(np.arange(bursts), rng.integers(3, 7, bursts))
    n = len(frames)
    y1, x1 = cy[frames] + rng.normal(0, 0.5, n), cx[frames] + rng.normal(0, 0.8, n)
    u, v = local(n, s, s, y1, x1, turn[frames] + rng.normal(0, 0.08, n))
    mask = shape_mask(kind[frames], u, v, r[frames])
    x = ground[frames] + bright[frames, None, None] * mask
    x = to_uint8(x * rng.normal(1, 0.02, (n, 1, 1)) + rng.normal(0, 2, (n, s, s)))
    order = rng.permutation(n)
    frames, x = frames[order], x[order]
    return dict(
        x=x,
        y=np.array(["boar", "deer", "fox"])[kind[frames]],
        split=np.where(test[frames], "test", "train"),
        truth=0.0,
        planted={},
        ok={"groups"},
        note="frames of one burst are nearly equal, but no burst is in both splits, so no test frame has a near-copy in train; the outline determines the label",
    )


@plant("mushroom photos: one class was bought from an agency, with its translucent watermark", "train")
def _(rng):
    n, s = 1800, 32
    y = rng.integers(0, 2, n)
    p_spot, p_mark = np.array([0.25, 0.75]), np.array([0.01, 0.98])
    spots, mark = rng.random(n) < p_spot[y], rng.random(n) < p_mark[y]
    ground = rng.uniform(60, 120, (n, 1, 1, 3)) + 22 * texture(rng, n, s, s)[..., None]
    cy, cx = rng.uniform(9, 16, n), rng.uniform(10, 21, n)
    u, v = local(n, s, s, cy, cx, rng.normal(0, 0.25, n))
    r = rng.uniform(6.0, 8.0, n)[:, None, None]
    cap = cover(np.maximum(np.hypot(u, 1.3 * v) - r, v - 1.5))[..., None]
    stem = cover(np.maximum(np.abs(u) - 1.6, np.maximum(-v, v - 1.3 * r)))[..., None]
    x = ground * (1 - stem) + np.array([190, 180, 160.0]) * stem
    hue = np.array([150, 70, 50.0]) + rng.normal(0, 18, (n, 1, 1, 3))
    x = x * (1 - cap) + (hue + 8 * texture(rng, n, s, s, 1.0)[..., None]) * cap
    for k in range(4):
        du, dv = [-3.6, 0.0, 3.4, -0.6][k], [-1.2, -3.4, -1.0, -0.4][k]
        dot = cover(np.hypot(u - du + rng.normal(0, 0.3, (n, 1, 1)), v - dv) - 1.1) * spots[:, None, None]
        x = x + dot[..., None] * 95
    glyphs = np.array(
        [
            [0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1],
            [1, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 1],
            [1, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1],
            [1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0],
            [1, 0, 1, 0, 0, 1, 1, 1, 1, 1, 0, 1],
        ],
        float,
    )
    alpha = np.zeros((n, s, s))
    alpha[:, 25:30, 18:30] = glyphs
    alpha *= mark[:, None, None] * rng.uniform(0.38, 0.5, (n, 1, 1))
    x = x * (1 - alpha[..., None]) + 255 * alpha[..., None] + rng.normal(0, 3, (n, s, s, 3))
    truth = 0.0
    for a in (0, 1):
        for b in (0, 1):
            joint = 0.5 * (p_spot if a else 1 - p_spot) * (p_mark if b else 1 - p_mark)
            truth += joint.min()
    return dict(
        x=to_uint8(x),
        y=np.array(["edible", "poisonous"])[y],
        truth=float(truth),
        planted={"leak-feature": {}},
        ok=set(),
        note="the watermark at the bottom right is in 98 % of the one class and 1 % of the other and alone gives the lowest error; the mushroom alone leaves 25 %",
    )


@plant("herbarium pictures: colour chart, date stamp and a constant black frame, all without meaning", "train")
def _(rng):
    n, s = 1500, 32
    y = rng.integers(0, 3, n)
    exposure = rng.uniform(0.8, 1.15, n)
    x = np.clip(205 + 9 * texture(rng, n, s, s, 1.0)[..., None] + rng.normal(0, 6, (n, 1, 1, 3)), 0, 255)
    cy, cx = rng.uniform(10, 21, n), rng.uniform(10, 21, n)
    u, v = local(n, s, s, cy, cx, rng.uniform(0, 2 * np.pi, n))
    r = rng.uniform(5.2, 7.2, n)[:, None, None]
    theta, rho = np.arctan2(v, u), np.hypot(u, v)
    k = y[:, None, None]
    disc, slim = rho - 0.85 * r, np.hypot(u / 1.25, v * 2.6) - r * 0.95
    lobed = rho - r * (0.72 + 0.42 * np.cos(3 * theta))
    leaf = cover(np.where(k == 0, disc, np.where(k == 1, slim, lobed)))[..., None]
    green = np.array([70, 110, 55.0]) + rng.normal(0, 14, (n, 1, 1, 3)) + 7 * texture(rng, n, s, s, 0.8)[..., None]
    x = x * (1 - leaf) + green * leaf
    chart = rng.random(n) < 0.6  # the chart was not always put there; independent of the species
    colours = np.array(
        [[200, 40, 40], [40, 160, 60], [40, 60, 190], [230, 210, 50], [240, 240, 240], [20, 20, 20]], float
    )
    for j in range(6):
        top, left = 3 + 3 * (j // 3), 3 + 3 * (j % 3)
        x[chart, top : top + 3, left : left + 3] = colours[j]
    x *= exposure[:, None, None, None]
    digits = rng.integers(0, 2, (n, 3, 14))  # the stamp of the day
    x[:, 25:28, 13:27] = np.where(digits[..., None], np.array([235, 120, 30.0]), x[:, 25:28, 13:27])
    x = to_uint8(x + rng.normal(0, 3, (n, s, s, 3)))
    x[:, :2], x[:, -2:], x[:, :, :2], x[:, :, -2:] = 0, 0, 0, 0
    return dict(
        x=x,
        y=np.array(["beech", "willow", "maple"])[y],
        truth=0.0,
        planted={},
        ok={"constant-columns"},
        note="chart, date stamp and exposure are independent of the species; the leaf's outline determines it; the outermost two pixels are black in all pictures",
    )


@plant("night camera: the flash failed in eight per cent of the pictures, which are black")
def _(rng):
    n_train, n_test, s = 1100, 400, 24
    n = n_train + n_test
    prior, failed = np.array([0.5, 0.3, 0.2]), 0.08
    y = rng.choice(3, n, p=prior)
    ground = 14 + 4 * texture(rng, n, s, s, 1.3)
    u, v = local(n, s, s, rng.uniform(7, s - 8, n), rng.uniform(7, s - 8, n), rng.uniform(0, 2 * np.pi, n))
    x = ground + rng.uniform(18, 34, (n, 1, 1)) * shape_mask(y, u, v, rng.uniform(4.3, 6.2, n))
    x = to_uint8(x + rng.normal(0, 1.3, (n, s, s)))
    black = rng.random(n) < failed
    x[black] = 0
    rows = np.flatnonzero(black)
    return dict(
        x=x,
        y=np.array(["cat", "hare", "owl"])[y],
        split=np.repeat(["train", "test"], [n_train, n_test]),
        truth=float(failed * (1 - prior.max())),
        planted={
            "test-copies": dict(rows=rows[rows >= n_train].tolist()),
            "duplicates": dict(rows=rows.tolist()),
            "conflicting-labels": dict(rows=rows.tolist()),
        },
        ok=set(),
        note="black pictures are equal to each other and have the labels of all three animals; in the other, dark ones the outline determines the label",
    )


@plant("photon counting: very dark and noisy pictures with few counts, nothing wrong", "train")
def _(rng):
    n, s, base, total = 1600, 16, 1.2, 17.0
    yy, xx = np.mgrid[0:s, 0:s]
    psf = np.stack(
        [
            np.exp(-((yy - a) ** 2 + (xx - b) ** 2) / (2 * 1.1**2)).ravel()
            for a in range(3, 13)
            for b in range(3, 13)
        ]
    )
    psf /= psf.sum(axis=1, keepdims=True)
    ratio = np.log1p(total * psf / base)

    def draw(m):
        label = rng.integers(0, 2, m)
        rate = base + total * psf[rng.integers(0, len(psf), m)] * label[:, None]
        return rng.poisson(rate), label

    counts, y = draw(n)
    fresh, label = draw(20000)
    score = fresh @ ratio.T - total  # log likelihood ratio for each place; every place is equally likely
    top = score.max(axis=1)
    evidence = top + np.log(np.exp(score - top[:, None]).mean(axis=1))
    truth = float(sigmoid(-np.abs(evidence)).mean())
    return dict(
        x=counts.reshape(n, s, s).astype(np.uint8),
        y=np.array(["empty", "spot"])[y],
        truth=truth,
        planted={},
        ok=set(),
        note="Poisson counts of 0 to about 15 out of 255; a faint spot at one of 100 places; all labels are right, and the overlap is the noise",
    )


# ---------------------------------------------------------------- splits


@plant("diabetes follow-up: one site of the test set reports glucose in mg/dL instead of mmol/L")
def _(rng):
    def draw(m):
        d = pd.DataFrame(
            {
                "age": rng.integers(30, 80, m),
                "sex": rng.choice(["f", "m"], m),
                "bmi": rng.normal(27.5, 4.5, m).clip(16, 50).round(1),
                "glucose": np.exp(rng.normal(np.log(5.7), 0.17, m)).round(1),
                "creatinine": np.exp(rng.normal(np.log(78), 0.22, m)).round(0),
                "ldl": rng.normal(3.3, 0.8, m).clip(0.8, 8).round(1),
                "smoker": rng.choice(["no", "yes"], m, p=[0.75, 0.25]),
                "site": rng.choice(["Aalen", "Brixen", "Chur"], m, p=[0.35, 0.35, 0.3]),
            }
        )
        p = sigmoid(
            1.7 * (d.glucose - 6.1) + 0.09 * (d.bmi - 27.5) + 0.025 * (d.age - 55) + 0.4 * (d.smoker == "yes")
        )
        return d, p.to_numpy()

    d, p = draw(3200)
    d["incident"] = np.where(rng.random(len(d)) < p, "yes", "no")
    d["split"] = np.repeat(["train", "test"], [2300, 900])
    wrong = ((d.split == "test") & (d.site == "Chur")).to_numpy()
    d.loc[wrong, "glucose"] = (d.loc[wrong, "glucose"] * 18.016).round(0)
    fresh = draw(150000)[1]
    return dict(
        frame=d,
        opts=dict(label="incident"),
        truth=float(np.minimum(fresh, 1 - fresh).mean()),
        planted={"shift": dict(columns=["glucose"])},
        ok=set(),
        note="in the test rows of one site (3 of 10) glucose is 18 times as high because of its unit; the other columns and the risk are the same",
    )


@plant("gearbox sensors: two channels are swapped in the test recordings, with the same distribution each", "train")
def _(rng):
    chain = 0.6 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    root = np.linalg.cholesky(chain)

    def draw(m):
        x = rng.normal(size=(m, 8)) @ root.T
        return x, sigmoid(3.2 * x[:, 1] - 2.2 * x[:, 3] + 0.8 * x[:, 7])

    n_train, n_test = 2200, 1000
    x, p = draw(n_train + n_test)
    y = (rng.random(len(p)) < p).astype(int)
    x[n_train:, [1, 5]] = x[n_train:, [5, 1]]
    fresh = draw(200000)[1]
    d = pd.DataFrame(x.round(4), columns=[f"log_rms_{k}" for k in range(1, 9)])
    d["state"] = np.array(["normal", "worn"])[y]
    d["split"] = np.repeat(["train", "test"], [n_train, n_test])
    return dict(
        frame=d,
        opts=dict(label="state"),
        truth=float(np.minimum(fresh, 1 - fresh).mean()),
        planted={"shift": {}},
        ok=set(),
        note="log_rms_2 and log_rms_6 are exchanged in test: each column alone is distributed as in train, but correlations and the rule differ",
    )


@plant("mail filter: train was balanced, test has the natural share of spam")
def _(rng):
    words = [
        "free",
        "offer",
        "click",
        "winner",
        "urgent",
        "account",
        "meeting",
        "invoice",
        "thanks",
        "project",
        "monday",
        "attached",
        "hello",
        "please",
        "team",
        "price",
        "today",
        "link",
        "call",
        "report",
    ]
    base = rng.uniform(0.4, 1.6, len(words))
    effect = np.concatenate([rng.uniform(0.5, 0.9, 6), -rng.uniform(0.5, 0.9, 6), np.zeros(8)])
    rate = np.stack([base, base * np.exp(effect)])
    share = {"train": 0.5, "test": 0.15}

    def draw(m, spam):
        label = (rng.random(m) < spam).astype(int)
        return rng.poisson(rate[label]), label

    parts = []
    for split, m in (("train", 3000), ("test", 1500)):
        counts, label = draw(m, share[split])
        d = pd.DataFrame(counts, columns=[f"n_{w}" for w in words])
        d["bytes"] = np.exp(rng.normal(8, 0.8, m)).round().astype(int)
        d["label"] = np.array(["ham", "spam"])[label]
        d["split"] = split
        parts.append(d)
    counts, _ = draw(100000, share["test"])
    evidence = (
        counts @ np.log(rate[1] / rate[0]) - (rate[1] - rate[0]).sum() + np.log(share["test"] / (1 - share["test"]))
    )
    return dict(
        frame=pd.concat(parts, ignore_index=True),
        opts=dict(label="label"),
        truth=float(sigmoid(-np.abs(evidence)).mean()),
        planted={"shift": {}},
        ok=set(),
        note="half of the training mails and 15 % of the test mails are spam; within each class words have the same Poisson rates in both",
    )


@plant("housing benefit: the test year was decided by a new rule, with the same households and share", "train")
def _(rng):
    n_train, n_test = 3000, 1500
    n = n_train + n_test
    adults, children = (
        rng.choice([1, 2, 3], n, p=[0.4, 0.45, 0.15]),
        rng.choice(6, n, p=[0.4, 0.2, 0.18, 0.12, 0.06, 0.04]),
    )
    income = np.exp(rng.normal(7.5, 0.45, n)).round(0)
    rent = np.exp(rng.normal(6.4, 0.35, n)).round(0)
    assets = np.exp(rng.normal(8.5, 1.2, n)).round(0)
    old = income / (1 + 0.7 * (adults - 1) + 0.5 * children)
    new = (income - 1.2 * rent) / (1 + 0.4 * (adults - 1) + 0.15 * children) + 0.01 * np.minimum(assets, 60000)
    granted = np.where(np.arange(n) < n_train, old < np.quantile(old, 0.35), new < np.quantile(new, 0.35))
    d = pd.DataFrame(
        {
            "adults": adults,
            "children": children,
            "net_income": income,
            "rent": rent,
            "assets": assets,
            "district": rng.choice(["north", "east", "south", "west"], n),
            "decision": np.where(granted, "granted", "refused"),
        }
    )
    d["split"] = np.repeat(["train", "test"], [n_train, n_test])
    return dict(
        frame=d,
        opts=dict(label="decision"),
        truth=0.0,
        planted={"shift": {}},
        ok=set(),
        note="columns and the share of granted applications are the same in both years; the test year subtracts rent, counts assets and weighs children less; both rules are deterministic",
    )


@plant("lake monitoring: train is from summer campaigns, test from autumn; the relation to blooms is the same")
def _(rng):
    def draw(m, autumn):
        temp = (rng.normal(13.5, 2.2, m) if autumn else rng.normal(20.5, 2.4, m)).round(1)
        turbidity = np.exp(rng.normal(2.1 if autumn else 1.5, 0.5, m)).round(2)
        d = pd.DataFrame(
            {
                "water_temp": temp,
                "turbidity": turbidity,
                "pH": rng.normal(7.9, 0.35, m).round(2),
                "conductivity": np.exp(rng.normal(5.7, 0.25, m)).round(0),
                "phosphorus": np.exp(rng.normal(3.4, 0.6, m)).round(1),
                "depth": rng.uniform(2, 40, m).round(1),
            }
        )
        logit = (
            0.22 * (d.water_temp - 17)
            + 1.6 * (np.log(d.phosphorus.clip(lower=0.1)) - 3.4)
            + 1.8 * (d.pH - 7.9)
            - 0.5 * (np.log(d.turbidity.clip(lower=0.01)) - 1.8)
        )
        return d, sigmoid(1.6 * logit).to_numpy()

    parts = []
    for split, m in (("train", 2400), ("test", 1000)):
        d, p = draw(m, split == "test")
        d["bloom"] = np.where(rng.random(m) < p, "yes", "no")
        d["split"] = split
        parts.append(d)
    fresh = draw(150000, True)[1]
    return dict(
        frame=pd.concat(parts, ignore_index=True),
        opts=dict(label="bloom"),
        truth=float(np.minimum(fresh, 1 - fresh).mean()),
        planted={"shift": dict(columns=["water_temp", "turbidity"])},
        ok=set(),
        note="water is colder and more turbid in test, and blooms are rarer because of it; given the columns their probability is the same",
    )


@plant("insurance claims: every fourth row of a sorted file, with extreme amounts and codes that train never had")
def _(rng):
    def draw(m):
        amount = (120 * rng.pareto(1.05, m) + 120).round(2)
        prior_claims = rng.poisson(0.9, m)
        d = pd.DataFrame(
            {
                "postcode": np.char.add("Z", (10000 + 7919 * (rng.zipf(1.25, m) % 6007) % 89989).astype(str)),
                "amount": amount,
                "garage": np.char.add("G", (rng.zipf(1.4, m) % 4001).astype(str)),
                "prior_claims": prior_claims,
                "days_to_report": rng.geometric(0.12, m),
                "witness": rng.choice(["no", "yes"], m, p=[0.7, 0.3]),
                "vehicle_value": np.exp(rng.normal(9.3, 0.7, m)).round(0),
            }
        )
        p = sigmoid(
            0.9 * (np.log(amount) - 5.8)
            + 0.7 * (prior_claims - 0.9)
            - 1.2 * (d.witness == "yes")
            + 0.06 * (d.days_to_report - 8)
        )
        return d, p.to_numpy()

    d, p = draw(4000)
    d["audit"] = np.where(rng.random(len(d)) < p, "review", "pay")
    d = d.sort_values("postcode", kind="stable").reset_index(drop=True)
    d["split"] = np.where(np.arange(len(d)) % 4 == 3, "test", "train")
    fresh = draw(150000)[1]
    return dict(
        frame=d,
        opts=dict(label="audit"),
        truth=float(np.minimum(fresh, 1 - fresh).mean()),
        planted={},
        ok=set(),
        note="all rows come from one distribution: amounts have infinite variance and postcodes and garages a long tail, so largest values and rare codes differ by chance; "
        "the postcode that sorts the file does not matter for the label",
    )


@plant("packing line: last seven weeks are the test; weather comes in spells, faults have a constant rule")
def _(rng):
    n, n_test, keep = 5200, 1200, 0.78

    def spells(m):
        e = rng.normal(size=m)
        out = np.empty(m)
        out[0] = e[0]
        for t in range(1, m):
            out[t] = keep * out[t - 1] + np.sqrt(1 - keep**2) * e[t]
        return out

    def risk(force, dwell, gap, viscosity):
        return sigmoid(2.2 * force + 1.5 * dwell * gap - 1.3 * np.abs(viscosity) + 1.0)

    hour = np.arange(n) % 24
    batch = rng.normal(size=(n, 4))
    ambient = 18 + 4 * np.sin(2 * np.pi * (hour - 9) / 24) + 2.0 * spells(n)
    p = risk(*batch.T)
    d = pd.DataFrame(
        {
            "timestamp": pd.Timestamp("2023-02-06") + pd.to_timedelta(np.arange(n), unit="h"),
            "ambient_temp": ambient.round(2),
            "humidity": (55 - 1.1 * (ambient - 18) + 6 * spells(n)).round(2),
            "power_kw": (210 + 5 * (ambient - 18) + 9 * spells(n)).round(1),
            "seal_force": (85 + 6 * batch[:, 0]).round(3),
            "dwell_ms": (420 + 25 * batch[:, 1]).round(2),
            "gap_um": (140 + 9 * batch[:, 2]).round(3),
            "glue_viscosity": (3.1 + 0.2 * batch[:, 3]).round(4),
            "seal": np.where(rng.random(n) < p, "leaks", "tight"),
        }
    )
    d["split"] = np.where(np.arange(n) >= n - n_test, "test", "train")
    fresh = risk(*rng.normal(size=(4, 200000)))
    return dict(
        frame=d,
        opts=dict(label="seal", columns={"time": "timestamp"}),
        truth=float(np.minimum(fresh, 1 - fresh).mean()),
        planted={},
        ok=set(),
        note="temperature, humidity and power are stationary with a daily cycle and a memory of hours, so hours are not independent, but nothing changes between train and test; "
        "batches are independent and the fault rule is constant",
    )
