"""Fresh problems: tables of records, measurements and surveys. Written from the documentation alone."""

import numpy as np
import pandas as pd
from scipy import stats

P = {}


def plant(name, mode="none"):
    def add(function):
        P[name] = (mode, function)
        return function

    return add


def sig(z):
    return 1 / (1 + np.exp(-z))


def floor(p):
    return float(np.minimum(p, 1 - p).mean())


def other():
    return np.random.default_rng(987654321)  # truths are simulated with their own draws


def split(n_train, n_test):
    return np.repeat(["train", "test"], [n_train, n_test])


def gauss_floor(priors, means, covs, n=200_000):
    """Bayes error of Gaussian classes."""
    rng = other()
    priors = np.asarray(priors, float) / np.sum(priors)
    y = rng.choice(len(priors), n, p=priors)
    x = np.empty((n, len(means[0])))
    for k in range(len(priors)):
        m = y == k
        x[m] = rng.multivariate_normal(means[k], covs[k], m.sum())
    logs = np.stack(
        [
            np.log(max(priors[k], 1e-300)) + stats.multivariate_normal(means[k], covs[k]).logpdf(x)
            for k in range(len(priors))
        ],
        1,
    )
    logs -= logs.max(1, keepdims=True)
    q = np.exp(logs)
    return float(1 - (q.max(1) / q.sum(1)).mean())


# ------------------------------------------------------------------ planted


@plant("orders of September exported into train and test")
def orders(rng):
    def draw(r, n):
        basket = np.round(np.exp(r.normal(4.0, 0.7, n)), 2)
        items = 1 + r.poisson(1.8, n)
        minutes = np.round(r.gamma(2.0, 6.0, n), 1)
        returning = r.random(n) < 0.45
        express = r.random(n) < 0.3
        p = sig(
            -0.4
            + 1.1 * (np.log(basket) - 4) / 0.7
            + 0.5 * (items - 2.8)
            - 0.06 * (minutes - 12)
            - 1.2 * returning
            + 0.5 * express
        )
        return basket, items, minutes, returning, express, p

    basket, items, minutes, returning, express, p = draw(rng, 2300)
    f = pd.DataFrame(
        {
            "basket_value": basket,
            "items": items,
            "minutes_on_site": minutes,
            "returning": np.where(returning, "yes", "no"),
            "delivery": np.where(express, "express", "standard"),
            "currency": "EUR",
            "sent_back": np.where(rng.random(2300) < p, "returned", "kept"),
        }
    )
    f = pd.concat(
        [f.iloc[:1800], f.iloc[1620:1800], f.iloc[1800:]], ignore_index=True
    )  # 180 September orders twice
    f["split"] = split(1800, 680)
    return dict(
        frame=f,
        opts={"label": "sent_back"},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={"test-copies": {"rows": np.arange(1800, 1980)}, "constant-columns": {"columns": ["currency"]}},
        ok={"duplicates"},
        note="train was exported up to September, test from September on; currency is the same everywhere",
    )


@plant("specimens gauged a second time for the test set")
def regauged(rng):
    cov = 0.35 + 0.65 * np.eye(8)
    w = np.array([0.9, -0.8, 0.6, 0.0, 0.0, -0.5, 0.4, 0.0])
    names = ["bore", "land", "runout", "taper", "ovality", "chamfer", "height", "mass"]
    centre = np.array([12.0, 3.4, 0.8, 1.1, 0.5, 0.9, 40.0, 210.0])
    scale = np.array([0.2, 0.05, 0.1, 0.2, 0.08, 0.06, 0.5, 4.0])

    def draw(r, n):
        z = r.multivariate_normal(np.zeros(8), cov, n)
        return z, sig(1.3 * z @ w)

    z, p = draw(rng, 1850)
    y = rng.random(1850) < p
    again = rng.choice(1500, 160, replace=False)
    z = np.concatenate([z, z[again] + rng.normal(0, 0.012, (160, 8))])
    y = np.concatenate([y, y[again]])
    order = np.concatenate([np.arange(1500), 1500 + rng.permutation(510)])
    f = pd.DataFrame(np.round(centre + scale * z, 5)[order], columns=names)
    f["verdict"] = np.where(y[order], "scrap", "good")
    f["split"] = split(1500, 510)
    return dict(
        frame=f,
        opts={"label": "verdict"},
        truth=floor(draw(other(), 300_000)[1]),
        planted={"near-copies": {"rows": np.flatnonzero(order >= 1850)}},
        ok=set(),
        note="160 of 510 test rows are second readings of training specimens, with the reading error of the gauge",
    )


@plant("letters of the collection department among the loan's columns")
def loans(rng):
    def draw(r, n):
        income = np.round(np.clip(np.exp(r.normal(7.6, 0.4, n)), 600, 5200), -1)
        refused = r.random(n) < 0.08
        age = r.integers(19, 76, n)
        instalment = np.round(r.gamma(3, 60, n))
        channel = r.choice(["branch", "web", "broker"], n, p=[0.4, 0.4, 0.2])
        known = np.where(refused, 2000, income)
        p = sig(-1.0 + 4.0 * (instalment / known - 0.09) * 3 - 0.02 * (age - 45) + 0.6 * (channel == "broker"))
        y = r.random(n) < p
        letters = r.poisson(np.where(y, 2.6, 0.12))
        odds = p / (1 - p) * stats.poisson.pmf(letters, 2.6) / stats.poisson.pmf(letters, 0.12)
        return np.where(refused, 9999, income), age, instalment, channel, y, letters, odds / (1 + odds)

    income, age, instalment, channel, y, letters, _ = draw(rng, 2200)
    f = pd.DataFrame(
        {
            "income": income,
            "age": age,
            "instalment": instalment,
            "channel": channel,
            "letters_sent": letters,
            "outcome": np.where(y, "default", "paid"),
        }
    )
    return dict(
        frame=f,
        opts={"label": "outcome"},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={"leak-feature": {"columns": ["letters_sent"]}, "data": {"columns": ["income"]}},
        ok={"duplicates", "conflicting-labels"},
        note="dunning letters are sent after a default; 9999 is the code of a refused answer on income",
    )


@plant("examination done only after the diagnosis, and glucose in another unit in the second clinic")
def retina(rng):
    r1, r0 = 0.93, 0.05

    def draw(r, n):
        age = r.integers(35, 85, n)
        bmi = np.round(r.normal(27, 4, n), 1)
        systolic = np.round(r.normal(132, 15, n))
        glucose = np.round(r.gamma(18, 6, n))
        p = sig(-0.6 + 0.028 * (glucose - 108) + 0.12 * (bmi - 27) + 0.03 * (age - 60))
        y = r.random(n) < p
        seen = r.random(n) < np.where(y, r1, r0)
        grade = np.where(seen, r.integers(0, 5, n), np.nan)
        odds = p / (1 - p) * np.where(seen, r1 / r0, (1 - r1) / (1 - r0))
        return age, bmi, systolic, glucose, grade, y, odds / (1 + odds)

    age, bmi, systolic, glucose, grade, y, _ = draw(rng, 2000)
    second = np.arange(2000) >= 1500
    f = pd.DataFrame(
        {
            "age": age,
            "bmi": bmi,
            "systolic": systolic,
            "glucose": np.where(second, np.round(glucose / 18.016, 1), glucose),
            "retinopathy_grade": grade,
            "sex": rng.choice(["f", "m"], 2000),
            "diabetes": np.where(y, "yes", "no"),
            "split": split(1500, 500),
        }
    )
    return dict(
        frame=f,
        opts={"label": "diabetes"},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={"leak-feature": {"columns": ["retinopathy_grade"]}, "shift": {"columns": ["glucose"]}},
        ok=set(),
        note="the eye examination is missing unless diabetes was known; test glucose is in mmol/l, train in mg/dl",
    )


@plant("accession numbers given campaign by campaign, one soil type after another")
def accession(rng):
    means = [np.zeros(5), np.array([0.9, 0.5, 0, 0, 0.3]), np.array([0.2, -0.8, 0.7, 0, 0])]
    covs = [np.eye(5), np.diag([1.2, 0.8, 1, 1, 1]), 0.3 + 0.7 * np.eye(5)]
    y = np.repeat([0, 1, 2], [620, 520, 460])
    x = np.empty((1600, 5))
    for k in range(3):
        x[y == k] = rng.multivariate_normal(means[k], covs[k], (y == k).sum())
    f = pd.DataFrame(
        np.round(x * [2, 0.4, 11, 3, 0.9] + [20, 6.4, 120, 31, 5], 3),
        columns=["clay", "ph", "calcium", "sand", "humus"],
    )
    f.insert(0, "accession", 40113 + np.cumsum(rng.integers(1, 9, 1600)))
    f["soil"] = np.array(["luvisol", "cambisol", "gleysol"])[y]
    return dict(
        frame=f,
        opts={"label": "soil"},
        truth=gauss_floor([620, 520, 460], means, covs),  # numbers of new samples tell nothing
        planted={"index-feature": {"columns": ["accession"]}},
        ok={"order", "groups", "leak-feature"},
        note="the running number of the archive gives the soil type away, because it was given type by type",
    )


@plant("an afternoon with last year's code sheet", mode="train")
def codesheet(rng):
    means = np.array(
        [[0, 0, 0, 0, 0, 0], [2.6, 0.5, 0, 0, 1, 0], [0, 2.7, 1, 0, 0, -0.5], [1, 1, -1.0, 2.6, 0, 1.0]]
    )
    covs = [np.eye(6), np.diag([1, 0.7, 1, 1, 1.3, 1]), np.eye(6), np.diag([1.2, 1, 0.8, 1, 1, 1])]
    y = rng.integers(0, 4, 2100)
    x = np.empty((2100, 6))
    for k in range(4):
        x[y == k] = rng.multivariate_normal(means[k], covs[k], (y == k).sum())
    wrong = np.arange(700, 820)
    y[wrong] = (y[wrong] + 1) % 4
    f = pd.DataFrame(
        np.round(x * [3, 3, 1, 5, 2, 2] + [30, 24, 9, 60, 14, 12], 2),
        columns=["polar", "equator", "colpi", "exine", "lumina", "muri"],
    )
    f["pollen"] = np.array(["alnus", "betula", "corylus", "carpinus"])[y]
    f["split"] = split(1600, 500)
    return dict(
        frame=f,
        opts={"label": "pollen"},
        truth=gauss_floor([1, 1, 1, 1], list(means), covs),
        planted={"labels": {"rows": wrong}},
        ok={"order"},
        note="120 consecutive training rows have the next class's code; the test set is right",
    )


@plant("records entered by two clerks, and a second registry with other frequencies")
def clerks(rng):
    means = [np.zeros(4), np.array([1.1, 0.4, 0.0, 0.5]), np.array([1.9, -0.3, 0.9, 1.2])]
    covs = [np.eye(4), np.eye(4) * 1.1, np.eye(4) * 0.9]

    def draw(n, priors):
        y = rng.choice(3, n, p=priors)
        x = np.stack(means)[y] + rng.normal(size=(n, 4)) * np.sqrt([1, 1.1, 0.9])[y][:, None]
        return x, y

    x, y = draw(1500, [0.6, 0.3, 0.1])
    xt, yt = draw(500, [0.3, 0.35, 0.35])
    twice = rng.choice(1500, 140, replace=False)
    x2, y2 = x[twice], (y[twice] + rng.integers(1, 3, 140)) % 3
    place = rng.permutation(1640)
    xa, ya, source = (
        np.concatenate([x, x2])[place],
        np.concatenate([y, y2])[place],
        np.concatenate([np.arange(1500), twice])[place],
    )
    f = pd.DataFrame(
        np.round(np.concatenate([xa, xt]) * [9, 1.5, 30, 4] + [61, 7, 140, 22], 3),
        columns=["age_index", "ki67", "marker", "size_mm"],
    )
    f["grade"] = np.array(["G1", "G2", "G3"])[np.concatenate([ya, yt])]
    f["split"] = split(1640, 500)
    return dict(
        frame=f,
        opts={"label": "grade"},
        truth=gauss_floor([0.3, 0.35, 0.35], means, covs),
        planted={"conflicting-labels": {"rows": np.flatnonzero(np.isin(source, twice))}, "shift": {}},
        ok={"duplicates", "labels"},
        note="140 training records exist twice with different grades; the test registry has many more G3",
    )


@plant("senders who change their tricks month by month")
def drift(rng):
    n = 3000
    names = ["links", "capitals", "reply_delay", "domain_age", "length", "attachments"]

    def logit(x, t):
        a = t * np.pi * 0.8
        return 3.2 * (np.cos(a) * x[..., 0] + np.sin(a) * x[..., 1]) + 0.6 * x[..., 2]

    x = rng.normal(size=(n, 6))
    y = rng.random(n) < sig(logit(x, np.linspace(0, 1, n)))
    f = pd.DataFrame(np.round(x * [2, 5, 30, 100, 80, 1] + [6, 14, 90, 400, 300, 3], 3), columns=names)
    f["spam"] = np.where(y, "spam", "ham")
    z = other().normal(size=(40_000, 6))
    mean = np.mean([sig(logit(z, t)) for t in np.linspace(0, 1, 200)], 0)
    return dict(
        frame=f,
        opts={"label": "spam"},
        truth=floor(mean),  # of the mixture over the file, which a random split stands for
        planted={"order": {}},
        ok=set(),
        note="the rule turns slowly along the file; there is no column of time",
    )


@plant("records of fifty motors, shuffled, without the motor's number")
def motors(rng):
    motor = np.repeat(np.arange(50), 30)
    signature = rng.normal(size=(50, 8))
    supplier = rng.random(50) < sig(1.0 * signature[:, 0])
    supplier[:2] = [True, False]
    x = signature[motor] + rng.normal(0, 0.09, (1500, 8))
    mix = rng.permutation(1500)
    f = pd.DataFrame(np.round(x[mix] * 3 + 20, 4), columns=[f"band_{k}" for k in range(1, 9)])
    f["bearing"] = np.where(supplier[motor[mix]], "supplier A", "supplier B")
    return dict(
        frame=f,
        opts={"label": "bearing"},
        truth=None,
        planted={"groups": {}},
        ok={"leak-feature", "near-copies"},
        note="thirty records of each motor have its signature and its label; new motors are another matter",
    )


@plant("a genus split in two between the survey years, and a very rare one")
def taxonomy(rng):
    names = [
        "Carex nigra",
        "Carex flava agg.",
        "Juncus effusus",
        "Eleocharis mamillata",
        "Carex lepidocarpa",
        "Carex viridula",
    ]
    means = [
        np.zeros(4),
        None,
        np.array([2.2, 0.5, 0, 0.0]),
        np.array([0.5, -1.5, 1.5, 0.0]),
        np.array([0.0, 2.0, 0, 0.9]),
        np.array([0.0, 2.0, 0, -0.9]),
    ]

    def draw(k):
        m = np.stack([means[j] if means[j] is not None else means[0] for j in k])
        return m + rng.normal(size=(len(k), 4))

    hidden = np.concatenate([np.repeat(0, 760), rng.choice([4, 5], 420), np.repeat(2, 380), np.repeat(3, 15)])
    train = rng.permutation(len(hidden))
    hidden = hidden[train]
    old = np.where(hidden >= 4, 1, hidden)
    test = rng.permutation(
        np.concatenate([np.repeat(0, 240), np.repeat([4, 5], 70), np.repeat(2, 120), np.repeat(3, 5)])
    )
    x = np.concatenate([draw(hidden), draw(test)])
    f = pd.DataFrame(
        np.round(x * [1.2, 4, 0.3, 2] + [14, 30, 2.2, 9], 2), columns=["utricle", "leaf", "beak", "stem"]
    )
    f["species"] = np.array(names)[np.concatenate([old, test])]
    f["split"] = split(len(old), len(test))
    use = [0, 4, 5, 2, 3]
    return dict(
        frame=f,
        opts={"label": "species"},
        truth=gauss_floor([240, 70, 70, 120, 5], [means[k] for k in use], [np.eye(4)] * 5),
        planted={"missing-classes": {}, "imbalance": {}},
        ok={"shift"},
        note="train has the aggregate, test its two species; one species has 20 rows of 2,080",
    )


@plant("a tariff reform before the test year, and a chunk that the logger wrote twice")
def tariff(rng):
    names = ["tenure", "calls", "discount", "data_gb", "complaints_index", "age"]
    w = np.array([-0.7, 0.5, 2.0, 0.3, 0.8, 0.0])

    def draw(r, n, sign):
        x = r.normal(size=(n, 6))
        return x, sig(x @ (w * np.where(np.arange(6) == 2, sign, 1)))

    x, p = draw(rng, 1900, 1)
    y = rng.random(1900) < p
    x, y = np.concatenate([x[:850], x[600:]]), np.concatenate([y[:850], y[600:]])  # 600 to 849 again
    xt, pt = draw(rng, 600, -1)
    f = pd.DataFrame(
        np.round(np.concatenate([x, xt]) * [10, 40, 3, 4, 1, 12] + [40, 120, 9, 14, 5, 44], 3), columns=names
    )
    f["left"] = np.where(np.concatenate([y, rng.random(600) < pt]), "churned", "stayed")
    f["split"] = split(2150, 600)
    return dict(
        frame=f,
        opts={"label": "left"},
        truth=floor(draw(other(), 300_000, -1)[1]),
        planted={"shift": {}, "duplicates": {"rows": np.arange(600, 1100)}},
        ok={"order", "groups"},
        note="columns are drawn alike, but a discount means the opposite in test; 250 training rows were written twice in a row",
    )


@plant("test export that lost a field, so that later columns moved up")
def moved(rng):
    names = ["temperature", "humidity", "pressure", "wind", "rain"]

    def draw(r, n):
        temperature = np.round(r.normal(14, 6, n), 1)
        humidity = np.round(100 * r.beta(6, 3, n))
        pressure = np.round(r.normal(1013, 8, n), 1)
        wind = np.round(r.gamma(2, 2, n), 1)
        rain = np.round(np.where(r.random(n) < 0.6, 0, r.gamma(0.8, 4, n)), 1)
        rest = 0.09 * (humidity - 67) - 0.12 * (pressure - 1013) - 0.2 * (wind - 4)
        return np.stack([temperature, humidity, pressure, wind, rain], 1), 0.18 * (temperature - 14), rest

    x, a, b = draw(rng, 2100)
    y = rng.random(2100) < sig(a + b)
    bad = np.arange(1740, 2100)
    x[bad] = np.concatenate([x[bad, 1:], np.full((len(bad), 1), np.nan)], 1)
    f = pd.DataFrame(x, columns=names)
    f["fog"] = np.where(y, "fog", "clear")
    f["split"] = split(1500, 600)
    _, a, b = draw(other(), 40_000)
    nodes = stats.norm.ppf((np.arange(200) + 0.5) / 200) * 0.18 * 6
    without = np.mean([sig(b + v) for v in nodes], 0)
    return dict(
        frame=f,
        opts={"label": "fog"},
        truth=0.4 * floor(sig(a + b)) + 0.6 * floor(without),
        planted={"shift": {"columns": names}},
        ok=set(),
        note="in the last 360 of 600 test rows temperature is lost, the other columns stand one to the left, and rain is empty",
    )


# ------------------------------------------------------------------ honest


@plant("six questions with five answers")
def likert(rng):
    def draw(r, n):
        g = r.normal(size=(n, 1))
        items = np.digitize(0.75 * g + 0.66 * r.normal(size=(n, 6)), [-1.3, -0.5, 0.4, 1.2]) + 1
        p = sig(0.5 * (items @ np.array([1, 0.8, 0.5, -0.3, 0.2, 0.6]) - 8.2))
        return items, p

    items, p = draw(rng, 2400)
    f = pd.DataFrame(items, columns=[f"q{k}" for k in range(1, 7)])
    f["renews"] = np.where(rng.random(2400) < p, "yes", "no")
    f["split"] = rng.permutation(split(1700, 700))
    return dict(
        frame=f,
        opts={"label": "renews"},
        truth=floor(draw(other(), 300_000)[1]),
        planted={},
        ok={"duplicates", "conflicting-labels"},
        note="an honest survey: straight-liners repeat",
    )


@plant("shops of the test set are other shops")
def shops(rng):
    def draw(r, k, n):
        shop = np.repeat(np.arange(k), n)
        area = np.round(np.exp(r.normal(6, 0.6, k)))[shop]
        level = r.normal(0, 1, k)[shop]
        staff = r.integers(2, 12, k)[shop]
        footfall = np.round(200 + 60 * level + r.normal(0, 35, k * n))
        rain = np.round(np.where(r.random(k * n) < 0.5, 0, r.gamma(1, 5, k * n)), 1)
        promo = r.random(k * n) < 0.3
        p = sig(0.015 * (footfall - 200) + 1.1 * promo - 0.08 * rain + 0.1 * (staff - 7))
        return shop, area, staff, footfall, rain, promo, p

    shop, area, staff, footfall, rain, promo, p = draw(rng, 120, 20)
    f = pd.DataFrame(
        {
            "shop": [f"S{k:03d}" for k in shop],
            "area_m2": area,
            "staff": staff,
            "footfall": footfall,
            "rain_mm": rain,
            "promotion": np.where(promo, "yes", "no"),
            "target": np.where(rng.random(len(p)) < p, "reached", "missed"),
        }
    )
    f["split"] = np.where(np.isin(shop, rng.choice(120, 36, replace=False)), "test", "train")
    return dict(
        frame=f,
        opts={"label": "target"},
        truth=floor(draw(other(), 20_000, 10)[-1]),
        planted={},
        ok=set(),
        note="36 of 120 shops drawn at random are the test set, as one does; shops differ, the rule does not",
    )


@plant("germination trial whose test settings are others")
def germination(rng):
    grid = np.stack(
        np.meshgrid([5, 10, 15, 20, 25, 30], [0, 20, 40, 80, 120, 160], [0, 8, 16], np.arange(4), indexing="ij"), -1
    ).reshape(-1, 4)
    p = sig(
        1.2
        - ((grid[:, 0] - 18) / 7) ** 2
        - 0.018 * grid[:, 1]
        + 0.05 * grid[:, 2]
        + np.array([0.9, 0.2, -0.4, 1.4])[grid[:, 3]]
    )
    setting = np.repeat(np.arange(len(grid)), 8)
    held = rng.choice(len(grid), 100, replace=False)
    g = grid[setting]
    f = pd.DataFrame(
        {
            "temperature": g[:, 0],
            "salt_mM": g[:, 1],
            "light_h": g[:, 2],
            "species": np.array(["Salsola", "Atriplex", "Suaeda", "Aster"])[g[:, 3]],
            "seed": np.where(rng.random(len(g)) < p[setting], "germinated", "dormant"),
            "split": np.where(np.isin(setting, held), "test", "train"),
        }
    )
    return dict(
        frame=f,
        opts={"label": "seed"},
        truth=floor(p),
        planted={},
        ok={"duplicates", "conflicting-labels"},
        note="432 settings with eight seeds each; 100 settings drawn at random are held out whole",
    )


@plant("pump read every minute")
def pump(rng):
    def draw(r, n):
        x = np.empty((n, 4))
        x[0] = r.normal(size=4)
        phi = np.array([0.93, 0.9, 0.85, 0.0])
        for t in range(1, n):
            x[t] = phi * x[t - 1] + np.sqrt(1 - phi**2) * r.normal(size=4)
        return x, sig(2.0 * x[:, 0] - 1.2 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3])

    x, p = draw(rng, 3600)
    f = pd.DataFrame(
        np.round(x * [0.4, 6, 2.2, 15] + [3.1, 70, 18, 200], 2),
        columns=["flow", "temperature", "current", "torque"],
    )
    f["cavitation"] = np.where(rng.random(3600) < p, "on", "off")
    return dict(
        frame=f,
        opts={"label": "cavitation"},
        truth=floor(draw(other(), 100_000)[1]),
        planted={},
        ok={"order"},
        note="a stationary series: neighbours are alike, the state depends on the readings of the minute alone",
    )


@plant("claims that nobody can foresee")
def claims(rng):
    n = 4000
    age = rng.integers(18, 85, n)
    power = rng.choice([44, 55, 66, 77, 85, 110, 140], n, p=[0.1, 0.2, 0.2, 0.2, 0.15, 0.1, 0.05])
    earlier = rng.poisson(0.1, n)
    region = rng.choice(["A", "B", "C", "D"], n, p=[0.5, 0.3, 0.15, 0.05])

    def chance(age, power, earlier, region):
        return np.clip(
            0.03 + 0.03 * (age < 25) + 0.0003 * (power - 66) + 0.03 * earlier + 0.01 * (region == "D"), 0.005, 0.3
        )

    f = pd.DataFrame(
        {
            "age": age,
            "kw": power,
            "earlier_claims": earlier,
            "tyres": 4 + 4 * (rng.random(n) < 0.6),
            "region": region,
        }
    )
    f["claim"] = np.where(rng.random(n) < chance(age, power, earlier, region), "claim", "none")
    f["split"] = rng.permutation(split(3000, 1000))
    r = other()
    m = 300_000
    p = chance(
        r.integers(18, 85, m),
        r.choice([44, 55, 66, 77, 85, 110, 140], m, p=[0.1, 0.2, 0.2, 0.2, 0.15, 0.1, 0.05]),
        r.poisson(0.1, m),
        r.choice(["A", "B", "C", "D"], m, p=[0.5, 0.3, 0.15, 0.05]),
    )
    return dict(
        frame=f,
        opts={"label": "claim"},
        truth=floor(p),
        planted={},
        ok={"duplicates", "conflicting-labels", "imbalance"},
        note="about 4 % claims, never more likely than not: the best answer is always none",
    )


@plant("questionnaire that skips what does not apply")
def skips(rng):
    def draw(r, n):
        smoker = r.random(n) < 0.35
        cigarettes = np.where(smoker, 1 + r.negative_binomial(3, 0.18, n), np.nan)
        years = np.where(smoker, np.round(r.gamma(4, 5, n)), np.nan)
        employed = r.random(n) < 0.62
        hours = np.where(employed, np.clip(np.round(r.normal(36, 8, n)), 5, 70), np.nan)
        commute = np.where(employed & (r.random(n) < 0.9), np.round(r.gamma(2, 14, n)), np.nan)
        steps = np.round(r.gamma(4, 1800, n), -2)
        p = sig(
            -1.3
            + np.where(smoker, 1.6 + 0.05 * np.nan_to_num(cigarettes), 0)
            - 0.8 * employed
            - 0.00012 * (steps - 7200)
        )
        return cigarettes, years, hours, commute, steps, p

    cigarettes, years, hours, commute, steps, p = draw(rng, 2600)
    f = pd.DataFrame(
        {
            "cigarettes_per_day": cigarettes,
            "years_smoked": years,
            "weekly_hours": hours,
            "commute_min": commute,
            "steps": steps,
        }
    )
    f["cough"] = np.where(rng.random(2600) < p, "yes", "no")
    f["split"] = rng.permutation(split(1900, 700))
    return dict(
        frame=f,
        opts={"label": "cough"},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={},
        ok={"leak-feature", "duplicates", "conflicting-labels"},
        note="empty cells mean that the question did not apply, and say something honestly",
    )


@plant("three years of help desk tickets")
def tickets(rng):
    products = np.array(["mail", "vpn", "printer", "erp", "phone"])

    def draw(r, n):
        minutes = np.sort(r.integers(0, 3 * 365 * 24 * 60, n))
        opened = pd.Timestamp("2022-03-01") + pd.to_timedelta(minutes, unit="m")
        product = r.choice(5, n, p=[0.35, 0.25, 0.2, 0.12, 0.08])
        priority = r.choice(4, n, p=[0.1, 0.2, 0.5, 0.2])
        words = 5 + r.negative_binomial(2, 0.04, n)
        weekend = np.asarray(opened.weekday) >= 5
        p = sig(
            np.array([1.5, 0.6, -0.2, -1.3, 0.3])[product]
            + 0.6 * (1.8 - priority)
            - 1.3 * weekend
            - 0.008 * (words - 53)
        )
        return opened, product, priority, words, p

    opened, product, priority, words, p = draw(rng, 2800)
    f = pd.DataFrame(
        {
            "opened": opened,
            "product": products[product],
            "priority": priority + 1,
            "words": words,
            "in_time": np.where(rng.random(2800) < p, "met", "missed"),
        }
    )
    return dict(
        frame=f,
        opts={"label": "in_time", "columns": {"time": "opened"}},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={},
        ok={"index-feature", "duplicates", "conflicting-labels"},
        note="time is named, and nothing changes with it but the weekday",
    )


@plant("twenty-four moths, file sorted by species", mode="train")
def moths(rng):
    place = np.random.default_rng(24)  # the species themselves are the same in every draw
    means = place.normal(0, 1.5, (24, 7))
    scale = place.uniform(0.6, 1.3, (24, 7))
    y = np.sort(rng.choice(24, 2400))
    x = means[y] + scale[y] * rng.normal(size=(2400, 7))
    f = pd.DataFrame(
        np.round(x * 2 + 20, 1), columns=["wing", "span", "hue", "spots", "antenna", "abdomen", "flight_week"]
    )
    f["species"] = [f"moth {k:02d}" for k in y]
    f["split"] = np.where(np.isin(np.arange(2400), rng.choice(2400, 600, replace=False)), "test", "train")
    return dict(
        frame=f,
        opts={"label": "species"},
        truth=gauss_floor(np.ones(24), list(means), [np.diag(s**2) for s in scale], 40_000),
        planted={},
        ok={"order"},
        note="many overlapping classes, sorted, with a random split",
    )


@plant("every fourth customer of a sorted list")
def fourth(rng):
    def draw(r, n):
        age = np.round(18 + 62 * r.beta(1.5, 2.5, n), 1)
        spend = np.round(np.exp(r.normal(3.5, 0.9, n)), 2)
        visits = r.poisson(3, n)
        return age, spend, visits, sig(0.06 * (age - 41) + 0.9 * (np.log(spend) - 3.5) + 0.25 * (visits - 3))

    age, spend, visits, p = draw(rng, 1800)
    f = pd.DataFrame(
        {"age": age, "spend": spend, "visits": visits, "bought": np.where(rng.random(1800) < p, "yes", "no")}
    )
    f = f.sort_values(["bought", "age"], kind="stable").reset_index(drop=True)
    f["split"] = np.where(np.arange(1800) % 4 == 3, "test", "train")
    return dict(
        frame=f,
        opts={"label": "bought"},
        truth=floor(draw(other(), 300_000)[-1]),
        planted={},
        ok={"order"},
        note="a systematic sample of a list sorted by outcome and age is the test set: more alike than by chance, nothing copied",
    )


@plant("proteins that know nothing of the outcome")
def proteins(rng):
    n, d = 340, 150
    factor = rng.normal(size=(n, 6))
    x = np.exp(0.5 * (factor @ rng.normal(0, 0.7, (6, d)) + rng.standard_t(3, (n, d))))
    x[rng.random((n, d)) < 0.03] = np.nan
    f = pd.DataFrame(np.round(x, 4), columns=[f"P{k:05d}" for k in rng.choice(90000, d, replace=False)])
    f["relapse"] = np.where(rng.random(n) < 0.5, "yes", "no")
    f["split"] = rng.permutation(split(240, 100))
    return dict(
        frame=f,
        opts={"label": "relapse"},
        truth=0.5,
        planted={},
        ok=set(),
        note="coin tosses: with 150 columns some will look good",
    )
