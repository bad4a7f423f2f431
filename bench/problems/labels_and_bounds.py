"""Fresh problems about labels and lowest possible errors. Truth is that of the labels as the test set has them (wrong ones included)."""

import numpy as np
import pandas as pd
from scipy import ndimage, special, stats
from sklearn.datasets import load_digits

P = {}


def plant(name, mode="none"):
    def add(f):
        P[name] = (mode, f)
        return f

    return add


def _bayes(logp, transition=None):
    """Lowest error from log joint densities (n, K) of draws of x; transition[true, recorded]."""
    p = np.exp(logp - special.logsumexp(logp, axis=1, keepdims=True))
    if transition is not None:
        p = p @ transition
    return float(1 - p.max(axis=1).mean())


# ---------------------------------------------------------------- wrong labels


@plant("labels typed on a keypad: a neighbouring key, at random", "train")
def _(rng):
    # photographs of seven-segment meters; segments a b c d e f g
    lit = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
    box = dict(
        a=(0, 2, 1, 7),
        b=(1, 7, 6, 8),
        c=(6, 12, 6, 8),
        d=(11, 13, 1, 7),
        e=(6, 12, 0, 2),
        f=(1, 7, 0, 2),
        g=(5, 7, 1, 7),
    )
    glyph = np.zeros((10, 13, 8))
    for k, segments in enumerate(lit):
        for s in segments:
            r0, r1, c0, c1 = box[s]
            glyph[k, r0:r1, c0:c1] = 1
    n = 2200
    true = rng.integers(0, 10, n)
    x = np.zeros((n, 18, 14))
    for i in range(n):
        r, c = rng.integers(0, 6), rng.integers(0, 7)
        ink, ground = rng.uniform(70, 140), rng.uniform(150, 220)
        picture = np.zeros((18, 14))
        picture[r : r + 13, c : c + 8] = glyph[true[i]]
        picture = ndimage.gaussian_filter(picture, rng.uniform(0.2, 0.7))
        light = np.linspace(-1, 1, 14)[None] * rng.normal(0, 8) + np.linspace(-1, 1, 18)[:, None] * rng.normal(0, 8)
        x[i] = ground + light - ink * picture + rng.normal(0, 9, (18, 14))
    keys = {
        0: [1, 2],
        1: [0, 2, 4],
        2: [0, 1, 3, 5],
        3: [2, 6],
        4: [1, 5, 7],
        5: [2, 4, 6, 8],
        6: [3, 5, 9],
        7: [4, 8],
        8: [5, 7, 9],
        9: [6, 8],
    }
    y = true.copy()
    for i in np.flatnonzero(rng.random(n) < 0.06):
        y[i] = rng.choice(keys[int(true[i])])
    return dict(
        x=np.clip(x, 0, 255).astype(np.uint8),
        y=y,
        truth=0.06,
        planted={"labels": dict(rows=np.flatnonzero(y != true).tolist())},
        ok=set(),
        note="every digit is legible; 6 % of the labels are a neighbouring key of the numeric keypad, in train and test alike",
    )


@plant("labels wrong in one direction for one class: a rare species recorded as its common relative", "train")
def _(rng):
    names = np.array(["robusta", "alpina", "campestris", "palustris", "montana"])
    prior = np.array([0.36, 0.24, 0.18, 0.13, 0.09])
    # log of length, width, petiole, teeth spacing, vein angle, thickness, hairs
    mean = np.array(
        [
            [4.2, 3.1, 2.2, 0.6, 3.7, -1.2, 2.0],
            [3.6, 2.9, 1.5, 0.3, 3.6, -0.8, 2.9],
            [4.4, 2.7, 2.6, 0.9, 3.9, -1.4, 1.2],
            [4.1, 3.3, 1.7, 0.4, 3.8, -1.3, 1.4],  # like robusta, except petiole, teeth and hairs
            [3.8, 3.5, 2.0, 0.8, 3.5, -0.9, 2.4],
        ]
    )
    size = rng.uniform(0.13, 0.17, 5)  # plants of one species differ in size: all lengths together
    sd = np.array([0.12, 0.12, 0.14, 0.10, 0.05, 0.10, 0.25])
    load = np.array([1, 1, 1, 0.6, 0, 0.3, 0])
    covs = [np.diag(sd**2) + (s * load)[:, None] * (s * load)[None] for s in size]

    def draw(n):
        true = rng.choice(5, n, p=prior)
        x = np.empty((n, 7))
        for k in range(5):
            m = true == k
            x[m] = rng.multivariate_normal(mean[k], covs[k], m.sum())
        return x, true

    transition = np.eye(5)
    transition[3] = [0.28, 0, 0, 0.72, 0]
    z, _ = draw(60000)
    truth = _bayes(
        np.stack([np.log(prior[k]) + stats.multivariate_normal(mean[k], covs[k]).logpdf(z) for k in range(5)], 1),
        transition,
    )
    x, true = draw(2600)
    y = np.where((true == 3) & (rng.random(len(true)) < 0.28), 0, true)
    columns = [
        "length_mm",
        "width_mm",
        "petiole_mm",
        "tooth_spacing_mm",
        "vein_angle",
        "thickness_mm",
        "hairs_per_mm2",
    ]
    frame = pd.DataFrame(np.round(np.exp(x), 3), columns=columns)
    frame["species"] = names[y]
    return dict(
        frame=frame,
        opts=dict(label="species"),
        truth=truth,
        planted={"labels": dict(rows=np.flatnonzero(y != true).tolist())},
        ok=set(),
        note="28 % of palustris are recorded as robusta, which everybody knows; no other label is wrong",
    )


@plant("labels wrong in one region: the tablet of the wet hall loses the state", "train")
def _(rng):
    n = 3000
    vibration = rng.gamma(2.0, 1.3, n)
    temperature = rng.normal(61, 9, n)
    pressure = rng.normal(4.0, 0.7, n)
    humidity = rng.uniform(20, 95, n)
    load = rng.uniform(0, 100, n)
    current = 3 + 0.08 * load + rng.normal(0, 0.7, n)
    flow = 11 - 0.9 * pressure + rng.normal(0, 0.6, n)
    noise = 55 + 4 * np.log1p(vibration) + rng.normal(0, 2, n)
    true = np.where(vibration > 3.4, 2, np.where(temperature > 66, 1, 0))  # imbalance, overheating, normal
    wet = (humidity > 65) & (load < 50)  # 0.4 * 0.5 of all rows
    wrong = wet & (rng.random(n) < 0.38)
    y = np.where(wrong, (true + rng.integers(1, 3, n)) % 3, true)
    x = np.stack([vibration, temperature, pressure, humidity, load, current, flow, noise], 1)
    return dict(
        x=x,
        y=y,
        truth=0.4 * 0.5 * 0.38,
        planted={"labels": dict(rows=np.flatnonzero(wrong).tolist())},
        ok=set(),
        note="the state is a rule of two sensors; where it is wet and the load is low, 38 % of the labels are another state",
    )


@plant("one annotator of nine clicks at random", "train")
def _(rng):
    queues = np.array(["billing", "delivery", "returns", "technical"])
    prior = np.array([0.31, 0.27, 0.22, 0.20])
    share = np.array([0.16, 0.14, 0.12, 0.11, 0.11, 0.10, 0.10, 0.09, 0.07])
    clicker = 3
    words = [
        "invoice",
        "refund",
        "parcel",
        "courier",
        "broken",
        "password",
        "login",
        "address",
        "exchange",
        "receipt",
        "screen",
        "late",
        "thanks",
        "please",
    ]
    rate = np.array(
        [
            [3.5, 1.2, 0.2, 0.1, 0.1, 0.4, 0.5, 0.5, 0.1, 2.0, 0.1, 0.2, 1, 1],
            [0.3, 0.4, 3.2, 2.1, 0.3, 0.1, 0.1, 1.6, 0.2, 0.2, 0.1, 1.7, 1, 1],
            [0.5, 2.6, 0.9, 0.3, 1.2, 0.1, 0.1, 0.4, 2.4, 1.1, 0.2, 0.2, 1, 1],
            [0.1, 0.2, 0.1, 0.1, 1.4, 1.9, 2.3, 0.1, 0.1, 0.1, 1.9, 0.1, 1, 1],
        ]
    )

    def draw(n):
        true = rng.choice(4, n, p=prior)
        long = rng.lognormal(0.1, 0.35, n)  # stored as the number of characters, so it is known
        return rng.poisson(rate[true] * long[:, None]), long, true

    c, long, _ = draw(60000)
    logp = np.log(prior) + c @ np.log(rate).T - long[:, None] * rate.sum(1)
    truth = (1 - share[clicker]) * _bayes(logp) + share[clicker] * 0.75
    n = 3200
    c, long, true = draw(n)
    annotator = rng.choice(9, n, p=share)
    y = np.where(annotator == clicker, rng.integers(0, 4, n), true)
    frame = pd.DataFrame(c, columns=words)
    frame.insert(0, "annotator", np.array([f"ann_{k + 1:02d}" for k in range(9)])[annotator])
    frame["kilocharacters"] = long
    frame["queue"] = queues[y]
    return dict(
        frame=frame,
        opts=dict(label="queue"),
        truth=truth,
        planted={"labels": dict(rows=np.flatnonzero(y != true).tolist())},
        ok=set(),
        note="ann_04 (11 % of the rows) clicks at random; the others are right, and the annotator is a column",
    )


@plant("one laboratory's export uses another code list", "train")
def _(rng):
    k, d, n = 7, 32, 2400
    prior = np.full(k, 1 / k)
    code = np.array([0, 4, 1, 3, 2, 5, 6])  # three of seven codes go round
    strength = rng.normal(0, 1.0, (k, d)) * (rng.random((k, d)) < 0.4)
    sd = rng.uniform(0.6, 1.1, d)

    def draw(m):
        true = rng.choice(k, m, p=prior)
        return strength[true] + rng.normal(size=(m, d)) * sd, true

    z, _ = draw(40000)
    logp = -0.5 * (((z[:, None] - strength[None]) / sd) ** 2).sum(2)
    share = 0.16
    truth = _bayes(logp, (1 - share) * np.eye(k) + share * np.eye(k)[code])
    x, true = draw(n)
    lab = rng.random(n) < share
    y = np.where(lab, code[true], true)
    return dict(
        x=np.exp(5 + 0.5 * x),  # peak intensities of a mass spectrum
        y=y,
        truth=truth,
        planted={"labels": dict(rows=np.flatnonzero(y != true).tolist())},
        ok=set(),
        note="16 % of the rows come from a laboratory that swaps codes 1, 2 and 4 in a circle; which rows is not recorded",
    )


@plant("crowd labels in train, experts in test", "train")
def _(rng):
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    x = (digits.images[order] * 15.9).astype(np.uint8)
    true = digits.target[order].astype(int)
    split = np.array(["train"] * 1250 + ["test"] * (len(order) - 1250))
    alike = {
        0: [6, 8],
        1: [7, 4],
        2: [3, 7],
        3: [8, 5],
        4: [9, 1],
        5: [6, 3],
        6: [0, 5],
        7: [1, 9],
        8: [3, 0],
        9: [4, 7],
    }
    y = true.copy()
    for i in np.flatnonzero((split == "train") & (rng.random(len(y)) < 0.13)):
        y[i] = rng.choice(alike[int(true[i])])
    return dict(
        x=x,
        y=y,
        split=split,
        truth=None,
        planted={"labels": dict(rows=np.flatnonzero(y != true).tolist())},
        ok={"shift", "constant-columns"},
        note="13 % of the training labels of scikit-learn's digits are a digit that looks alike; the test labels are the published ones",
    )


# ---------------------------------------------------------------- right labels, known lowest errors


@plant("honest: a tariff with treaty exceptions", "train")
def _(rng):
    n, origins, materials = 3600, 24, 18
    p_origin = 1 / (np.arange(origins) + 3.0)
    p_material = 1 / (np.arange(materials) + 4.0)
    origin = rng.choice(origins, n, p=p_origin / p_origin.sum())
    material = rng.choice(materials, n, p=p_material / p_material.sum())
    value = rng.lognormal(4.0, 1.1, n)
    weight = rng.lognormal(1.0, 0.8, n)
    use = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    treaty = np.zeros((origins, materials), bool)
    treaty.flat[rng.choice(origins * materials, 26, replace=False)] = True
    group = rng.permutation(np.arange(materials) % 3)
    duty = np.where(
        group[material] == 0, "low", np.where(group[material] == 1, np.where(value > 60, "high", "low"), "high")
    )
    duty = np.where(use == 2, "low", duty)
    duty = np.where(
        treaty[origin, material], np.where(duty == "low", "high", "low"), duty
    )  # quotas and preferences
    frame = pd.DataFrame(
        dict(
            origin=np.array([f"C{k:02d}" for k in range(origins)])[origin],
            material=np.array([f"HS{40 + k}" for k in range(materials)])[material],
            value=np.round(value, 2),
            kilograms=np.round(weight, 3),
            use=np.array(["retail", "industrial", "research"])[use],
            duty=duty,
        )
    )
    return dict(
        frame=frame,
        opts=dict(label="duty"),
        truth=0.0,
        planted={},
        ok=set(),
        note="every label follows from the columns; 26 pairs of origin and material reverse the general rule (a few per cent of the rows)",
    )


@plant("honest: a class with a main type and forty rare subtypes", "train")
def _(rng):
    d, tiny = 8, 40
    n, p_b, p_tiny = 4000, 0.35, 0.24  # of class b, a quarter belongs to the rare subtypes, about nine rows each
    centre = np.zeros(d)
    main = centre.copy()
    main[:3] = 2.3
    spots = rng.normal(0, 1.15, (tiny, d))  # among the other class
    scale, small = 1.0, 0.38

    def log_parts(z):
        base = -0.5 * d * np.log(2 * np.pi)
        a = np.log(1 - p_b) + base - 0.5 * ((z - centre) ** 2).sum(1)
        b0 = np.log(p_b * (1 - p_tiny)) + base - d * np.log(scale) - 0.5 * (((z - main) / scale) ** 2).sum(1)
        square = (z**2).sum(1)[:, None] - 2 * z @ spots.T + (spots**2).sum(1)
        b1 = np.log(p_b * p_tiny / tiny) + base - d * np.log(small) - 0.5 * square / small**2
        return np.stack([a, np.logaddexp(b0, special.logsumexp(b1, axis=1))], 1)

    def draw(m):
        y = (rng.random(m) < p_b).astype(int)
        rare = (y == 1) & (rng.random(m) < p_tiny)
        e = rng.normal(size=(m, d))
        where = rng.integers(0, tiny, m)
        return np.where(
            rare[:, None], spots[where] + small * e, np.where(y[:, None] == 1, main + scale * e, centre + e)
        ), y

    z, _ = draw(80000)
    truth = _bayes(log_parts(z))
    x, y = draw(n)
    mix = np.linalg.qr(rng.normal(size=(d, d)))[0]  # fluorescence channels are mixtures
    return dict(
        x=x @ mix + 6,
        y=y,
        truth=truth,
        planted={},
        ok=set(),
        note="rare subtypes of class 1 lie among class 0; all labels are right, the overlap is known",
    )


@plant("honest: a short questionnaire, answers repeat, people differ", "train")
def _(rng):
    d, n = 7, 2600
    cut = np.sort(rng.normal(0.6, 0.7, (d, 2)), axis=1)
    slope = rng.uniform(0.9, 1.8, d)
    weight = rng.uniform(0.3, 0.9, d)

    def draw(m):
        burden = rng.normal(size=m)
        answer = slope * burden[:, None] + rng.logistic(size=(m, d))
        x = (answer > cut[:, 0]).astype(int) + (answer > cut[:, 1])
        score = x @ weight - 3.6 + 1.2 * (x[:, 0] == 2) * (x[:, 3] > 0)
        return x, special.expit(score)

    _, p = draw(300000)
    truth = float(np.minimum(p, 1 - p).mean())
    x, p = draw(n)
    y = (rng.random(n) < p).astype(int)
    frame = pd.DataFrame(x, columns=[f"item_{k + 1}" for k in range(d)])
    frame["referred"] = np.where(y, "yes", "no")
    return dict(
        frame=frame,
        opts=dict(label="referred"),
        truth=truth,
        planted={},
        ok={"test-copies", "duplicates", "conflicting-labels"},
        note="seven items with three answers; equal answers of different people are no copies, and what happens to them is random",
    )


@plant("honest: readers disagree about the same slides", "train")
def _(rng):
    d, slides, readings = 9, 420, 6
    beta = rng.normal(0, 0.75, d)

    def grades(x):
        s = x @ beta + 0.5 * x[:, 0] * x[:, 1]
        low, high = special.expit((-1.1 - s) / 0.55), special.expit((1.2 - s) / 0.55)
        return np.stack([low, high - low, 1 - high], 1)

    truth = float(1 - grades(rng.normal(size=(200000, d))).max(1).mean())
    x = np.round(rng.normal(size=(slides, d)), 4)
    p = grades(x)
    slide = np.repeat(np.arange(slides), readings)
    y = (rng.random(len(slide))[:, None] > np.cumsum(p, 1)[slide][:, :2]).sum(1)
    test = rng.random(slides) < 0.3
    order = rng.permutation(len(slide))
    slide, y = slide[order], y[order]
    mixed = np.array([len(set(y[slide == s])) > 1 for s in range(slides)])
    names = [
        "area",
        "perimeter",
        "eccentricity",
        "nuclei",
        "mitoses",
        "chromatin",
        "necrosis",
        "stroma",
        "polarity",
    ]
    frame = pd.DataFrame(x[slide], columns=names)
    frame["grade"] = np.array(["I", "II", "III"])[y]
    frame["split"] = np.where(test[slide], "test", "train")
    return dict(
        frame=frame,
        opts=dict(label="grade"),
        truth=truth,
        planted={"conflicting-labels": dict(rows=np.flatnonzero(mixed[slide]).tolist())},
        ok={"duplicates"},
        note="each slide is read six times; no reader is wrong, borderline slides get both grades; train and test have different slides",
    )


@plant("honest: heavy tails, and an outcome that is certain for some and open for others", "train")
def _(rng):
    def draw(m):
        amount = np.exp(stats.t.rvs(4, size=m, random_state=rng) * 0.9 + 4)
        balance = stats.t.rvs(1.6, size=m, random_state=rng) * 2000
        months = rng.exponential(30, m)
        other = stats.t.rvs(2.0, size=(m, 3), random_state=rng)
        f = 0.9 * (np.log(amount) - 4) - np.arcsinh(balance / 1500) + 0.3
        sd = np.where(months < 7, 2.5, 0.12)  # new customers are unpredictable
        return np.column_stack([amount, balance, months, other]), special.ndtr(f / sd)

    _, p = draw(200000)
    truth = float(np.minimum(p, 1 - p).mean())
    x, p = draw(3000)
    y = (rng.random(3000) < p).astype(int)
    frame = pd.DataFrame(x, columns=["amount", "balance", "months", "z1", "z2", "z3"])
    frame["default"] = np.where(y, "yes", "no")
    return dict(
        frame=frame,
        opts=dict(label="default"),
        truth=truth,
        planted={},
        ok=set(),
        note="outcomes of customers of less than seven months are nearly open, those of the others nearly certain; all are recorded correctly",
    )


@plant("honest: who has won at Hex", "train")
def _(rng):
    n, size = 3500, 6
    x = np.zeros((n, size * size), int)
    x[:, : size * size // 2] = 1
    x = rng.permuted(x, axis=1).reshape(n, size, size)
    around = np.array([[0, 1, 1], [1, 1, 1], [1, 1, 0]])
    y = np.zeros(n, int)
    for i in range(n):
        part, _ = ndimage.label(x[i], structure=around)
        y[i] = bool(set(part[0][part[0] > 0]) & set(part[-1][part[-1] > 0]))
    return dict(
        x=x.reshape(n, -1),
        y=y,
        truth=0.0,
        planted={},
        ok=set(),
        note="a full board of 6 x 6; the winner follows from the stones, but by a path through all of them; no label is wrong",
    )


@plant("honest: twenty authors, few texts, more words than texts", "train")
def _(rng):
    authors, words, each = 20, 500, 24
    base = 1 / (np.arange(words) + 30.0)
    profile = base * np.exp(rng.normal(0, 0.42, (authors, words)))
    profile /= profile.sum(1, keepdims=True)

    def draw(y):
        length = rng.integers(90, 260, len(y))
        return np.stack([rng.multinomial(m, profile[k]) for m, k in zip(length, y)])

    z = draw(rng.integers(0, authors, 8000))
    truth = _bayes(z @ np.log(profile).T)
    y = np.repeat(np.arange(authors), each)
    split = np.tile(["train"] * 16 + ["test"] * 8, authors)
    order = rng.permutation(len(y))
    y, split = y[order], split[order]
    return dict(
        x=draw(y),
        y=y,
        split=split,
        truth=truth,
        planted={},
        ok=set(),
        note="word counts of 480 texts; every author is right, the lowest error is that of the known word frequencies, far below what 16 texts per author allow",
    )


@plant("counts of log events with a rare attack", "train")
def _(rng):
    sizes = np.array([3900, 720, 330, 50])
    prior = sizes / sizes.sum()
    mean = np.array(
        [
            [6, 1.2, 0.4, 9, 2.0, 0.3],
            [11, 6, 0.6, 3, 2.2, 0.5],
            [8, 1.5, 4.5, 6, 2.5, 0.4],
            [7, 1.4, 0.9, 8, 9, 2.2],
        ]
    )
    shape = np.array([1.6, 0.9, 0.7, 1.8, 1.5, 0.6])
    seconds = np.array([3.0, 2.4, 2.8, 4.2])

    def draw(y):
        counts = rng.negative_binomial(shape, shape / (shape + mean[y]))
        return counts, rng.normal(seconds[y], 0.9)

    c, t = draw(rng.choice(4, 60000, p=prior))
    logp = np.stack(
        [
            np.log(prior[k])
            + stats.nbinom(shape, shape / (shape + mean[k])).logpmf(c).sum(1)
            + stats.norm(seconds[k], 0.9).logpdf(t)
            for k in range(4)
        ],
        1,
    )
    truth = _bayes(logp)
    y = rng.permutation(np.repeat(np.arange(4), sizes))
    c, t = draw(y)
    frame = pd.DataFrame(c, columns=["requests", "errors_404", "logins_failed", "images", "uploads", "admin_pages"])
    frame["seconds"] = np.exp(t)
    frame["session"] = np.array(["ordinary", "scan", "password_guessing", "exfiltration"])[y]
    return dict(
        frame=frame,
        opts=dict(label="session"),
        truth=truth,
        planted={"imbalance": {}},
        ok=set(),
        note="exfiltration is 1 % of the sessions and ordinary ones are 78 %; overdispersed counts overlap, and all labels are right",
    )
