"""Sixteen table problems with known truth.

Conventions. `truth` is the Bayes error on fresh rows of NEW entities (new patients, customers, users), with the columns as the table has them; a row number says nothing
about fresh rows. Rows that are equal by coincidence (different entities, few possible rows) are not copies: there test-copies and duplicates are not in `ok`, because a
*problem* would be a false alarm, while a neutral note would be true.
"""

import numpy as np
import pandas as pd
from scipy import ndimage
from scipy.stats import norm

P = {}


def plant(name, mode="none"):
    def add(f):
        P[name] = (mode, f)
        return f

    return add


def sigmoid(t):
    return 1 / (1 + np.exp(-t))


def cut(rng, n, test=0.3):
    return np.where(rng.permutation(n) < round(test * n), "test", "train")


def equal_rows(frame, split, y):
    """From the table itself: test rows that equal a training row; rows repeated within their split; rows of groups with several labels."""
    key = pd.util.hash_pandas_object(frame, index=False).to_numpy()
    d = pd.DataFrame({"k": key, "s": split, "y": np.asarray(y)})
    copies = np.flatnonzero((d.s == "test") & d.k.isin(d.k[d.s == "train"]))
    twice = np.flatnonzero(d.duplicated(["k", "s"], keep=False))
    clash = np.flatnonzero(d.groupby("k").y.transform("nunique") > 1)
    return copies.tolist(), twice.tolist(), clash.tolist()


def least_error(log_joint):
    """Mean of 1 - the largest posterior; rows are draws of x, columns log(prior * density)."""
    p = np.exp(log_joint - log_joint.max(1, keepdims=True))
    return float(np.mean(1 - p.max(1) / p.sum(1)))


# ---------------------------------------------------------------- broken


@plant("customers multiplied by a join with their addresses, then split by rows")
def _(rng):
    def draw(n):
        tenure = rng.gamma(2.0, 18.0, n).round(2)
        spend = rng.lognormal(4.0, 0.6, n).round(2)
        tickets = rng.poisson(1.4, n)
        visits = rng.gamma(3.0, 4.0, n).round(3)
        contract = rng.choice(["monthly", "yearly", "prepaid"], n, p=[0.5, 0.35, 0.15])
        logit = (
            0.9
            - 0.03 * tenure
            + 0.75 * (tickets - 1.4)
            - 1.6 * (contract == "yearly")
            + 0.9 * (np.log(spend) - 4.0)
        )
        return pd.DataFrame(
            dict(
                tenure_months=tenure, mean_spend=spend, tickets=tickets, visits_per_month=visits, contract=contract
            )
        ), sigmoid(logit)

    x, p = draw(1300)
    x["churn"] = np.where(rng.random(1300) < p, "left", "stayed")
    times = rng.choice([1, 2, 3], 1300, p=[0.72, 0.2, 0.08])
    frame = (
        x.loc[np.repeat(np.arange(1300), times)]
        .sample(frac=1, random_state=int(rng.integers(2**31)))
        .reset_index(drop=True)
    )
    split = cut(rng, len(frame), 0.25)
    copies, twice, clash = equal_rows(frame.drop(columns="churn"), split, frame.churn)
    assert not clash
    frame["split"] = split
    big = draw(300_000)[1]
    return dict(
        frame=frame,
        opts=dict(label="churn"),
        truth=float(np.minimum(big, 1 - big).mean()),
        planted={"test-copies": dict(rows=copies), "duplicates": dict(rows=twice)},
        ok=set(),
        note="28 % of the customers have two or three addresses and so two or three equal rows, on both sides of the split.",
    )


@plant("cases rated twice, entered as two rows that may contradict each other")
def _(rng):
    levels = [3, 4, 5, 6, 3, 4, 5, 3, 4, 6, 3, 4, 5, 3, 4, 5, 3, 4]
    effect = [rng.normal(0, 0.75, k) if j % 2 == 0 else np.zeros(k) for j, k in enumerate(levels)]

    often = [rng.dirichlet(np.full(k, 6.0)) for k in levels]

    def draw(n):
        codes = np.stack([rng.choice(len(f), n, p=f) for f in often], 1)
        return codes, sigmoid(sum(e[codes[:, j]] for j, e in enumerate(effect)))

    codes, p = draw(1500)
    again = rng.choice(1500, 170, replace=False)  # sent to a second rater
    codes, p = np.concatenate([codes, codes[again]]), np.concatenate([p, p[again]])
    y = np.where(rng.random(len(p)) < p, "refer", "discharge")
    split = cut(rng, len(p))
    order = rng.permutation(len(p))
    words = np.array(["none", "mild", "patchy", "dense", "focal", "diffuse"])
    frame = pd.DataFrame({f"finding_{j + 1:02d}": words[codes[:, j]] for j in range(len(levels))})
    frame, y, split = frame.iloc[order].reset_index(drop=True), y[order], split[order]
    copies, twice, clash = equal_rows(frame, split, y)
    frame["decision"], frame["split"] = y, split
    _, big = draw(200_000)
    return dict(
        frame=frame,
        opts=dict(label="decision"),
        truth=float(np.minimum(big, 1 - big).mean()),
        planted={"test-copies": dict(rows=copies), "conflicting-labels": dict(rows=clash)},
        ok={"duplicates"},
        note="170 of 1,500 cases are there twice, each with its own rater's decision; equal rows by chance do not occur among 18 categorical columns.",
    )


@plant("discharge hour is missing if and only if the patient died")
def _(rng):
    n, prior, slip = 2200, 0.2, 0.003
    shift = np.array([0.9, 0.6, -0.5, 0.4])

    def draw(n):
        died = rng.random(n) < prior
        return died, rng.normal(size=(n, 4)) + died[:, None] * shift

    died, z = draw(n)
    hour = rng.normal(14.0, 2.5, n).round(1)
    hour[died ^ (rng.random(n) < slip)] = np.nan
    lactate = 1.8 + 0.7 * z[:, 3]
    lactate[rng.random(n) < 0.18] = np.nan  # missing at random
    frame = pd.DataFrame(
        dict(
            age=(66 + 11 * z[:, 0]).round(1),
            heart_rate=(84 + 14 * z[:, 1]).round(),
            systolic=(124 + 17 * z[:, 2]).round(),
            lactate=lactate.round(2),
            discharge_hour=hour,
            sex=rng.choice(["f", "m"], n),
            outcome=np.where(died, "died", "survived"),
        )
    )
    _, big = draw(300_000)
    seen = rng.random(300_000) >= 0.18
    ratio = big * shift - shift**2 / 2
    logit = np.log(prior / (1 - prior)) + ratio[:, :3].sum(1) + ratio[:, 3] * seen
    p = sigmoid(logit)
    truth = np.minimum(p * (1 - slip), (1 - p) * slip) + np.minimum(p * slip, (1 - p) * (1 - slip))
    return dict(
        frame=frame,
        opts=dict(label="outcome"),
        truth=float(truth.mean()),
        planted={"leak-feature": dict(columns=["discharge_hour"])},
        ok=set(),
        note="That discharge_hour is missing tells the outcome in 99.7 % of the rows; its values say nothing, and lactate is missing at random.",
    )


@plant("the label is computed from one column: potassium outside its normal range")
def _(rng):
    n = 1800
    load = rng.normal(size=n)
    potassium = (4.3 + 0.68 * (0.5 * load + np.sqrt(0.75) * rng.normal(size=n))).round(2)
    frame = pd.DataFrame(
        dict(
            sodium=(140 + 3.2 * (0.4 * load + 0.9 * rng.normal(size=n))).round(1),
            potassium=potassium,
            chloride=(102 + 3.0 * rng.normal(size=n)).round(1),
            creatinine=np.exp(0.1 + 0.3 * load + 0.3 * rng.normal(size=n)).round(2),
            urea=np.exp(1.7 + 0.35 * rng.normal(size=n)).round(2),
            age=rng.integers(19, 92, n),
            ward=rng.choice(["A", "B", "C", "D"], n),
        )
    )
    frame["flag"] = np.where((potassium < 3.5) | (potassium > 5.1), "abnormal", "normal")
    return dict(
        frame=frame,
        opts=dict(label="flag"),
        truth=0.0,
        planted={"leak-feature": dict(columns=["potassium"])},
        ok=set(),
        note="flag is 'abnormal' exactly where potassium is below 3.5 or above 5.1; both classes have nearly the same mean.",
    )


@plant("accession number with gaps in a file that was put together class by class")
def _(rng):
    n, d = 1400, 7
    means = rng.normal(0, 0.75, (4, d))
    y = np.sort(rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1]))
    x = means[y] + rng.normal(size=(n, d))
    frame = pd.DataFrame(
        x.round(4), columns=["area", "perimeter", "texture", "smoothness", "symmetry", "contrast", "entropy"]
    )
    frame.insert(0, "accession", 48_113 + np.cumsum(rng.integers(1, 40, n)))
    frame["scanner_year"] = 2019
    frame["tumour"] = np.array(["adeno", "squamous", "carcinoid", "other"])[y]
    big = rng.choice(4, 200_000, p=[0.4, 0.3, 0.2, 0.1])
    z = means[big] + rng.normal(size=(200_000, d))
    joint = np.log([0.4, 0.3, 0.2, 0.1]) + z @ means.T - (means**2).sum(1) / 2
    return dict(
        frame=frame,
        opts=dict(label="tumour"),
        truth=least_error(joint),
        planted={"index-feature": dict(columns=["accession"]), "constant-columns": dict(columns=["scanner_year"])},
        ok={"leak-feature", "order"},
        note="Rows are sorted by class and accession numbers ascend, so the number gives the class away in this file and says nothing about fresh rows; scanner_year is constant.",
    )


@plant("gait windows of 48 users, the label belongs to the user", mode="train")
def _(rng):
    users, each, d, within = 48, 40, 10, 0.35
    trait = rng.permutation(np.arange(users) % 2)
    shift = np.zeros(d)
    shift[:3] = 0.35
    centre = (2 * trait[:, None] - 1) * shift + rng.normal(size=(users, d))
    who = rng.permutation(np.repeat(np.arange(users), each))
    x = centre[who] + within * rng.normal(size=(len(who), d))
    frame = pd.DataFrame(x.round(5), columns=[f"gait_{k}" for k in range(d)])
    frame["user"] = [f"u{k:02d}" for k in who]
    frame["fall_risk"] = np.where(trait[who] == 1, "high", "low")
    return dict(
        frame=frame,
        opts=dict(label="fall_risk", group="user"),
        truth=float(norm.cdf(-np.linalg.norm(shift) / np.sqrt(1 + within**2))),
        planted={"groups": {}},
        ok=set(),
        note="40 windows per user lie close together, so a random split has almost no errors; the least error on a new user's window is about 28 %.",
    )


@plant("some patients came twice, there is no patient column, and rows were split at random", mode="train")
def _(rng):
    people, d, eps = 1150, 13, 0.1
    w = np.zeros(d)
    w[:6] = [1.0, -0.8, 0.7, 0.6, -0.5, 0.5]
    z, sex = rng.normal(size=(people, d)), rng.integers(0, 2, people)
    ill = rng.random(people) < sigmoid(z @ w + 0.8 * sex - 0.4)
    who = rng.permutation(np.concatenate([np.arange(people), rng.choice(people, 400, replace=False)]))
    x = z[who] + eps * rng.normal(size=(len(who), d))
    split = cut(rng, len(who), 0.3)
    again = np.flatnonzero((split == "test") & np.isin(who, who[split == "train"])).tolist()
    names = [
        "height",
        "leg_length",
        "bone_density",
        "ferritin",
        "hdl",
        "ldl",
        "hba1c",
        "vitamin_d",
        "egfr",
        "albumin",
        "tsh",
        "grip",
        "waist",
    ]
    frame = pd.DataFrame((x * np.linspace(3, 9, d) + 60).round(2), columns=names)
    frame["sex"], frame["diagnosis"], frame["split"] = (
        np.array(["f", "m"])[sex[who]],
        np.where(ill[who], "ill", "healthy"),
        split,
    )
    # new patients: w·z given the measurements is normal; integrate over it
    n = 100_000
    m = rng.normal(0, np.sqrt(1 + eps**2), (n, d)) @ w / (1 + eps**2) + 0.8 * rng.integers(0, 2, n) - 0.4
    node, weight = np.polynomial.hermite_e.hermegauss(9)
    p = sigmoid(m[:, None] + np.linalg.norm(w) * eps / np.sqrt(1 + eps**2) * node) @ (weight / weight.sum())
    return dict(
        frame=frame,
        opts=dict(label="diagnosis"),
        truth=float(np.minimum(p, 1 - p).mean()),
        planted={"near-copies": dict(rows=again)},
        ok={"groups"},
        note="400 of 1,150 patients have a second visit with nearly the same values and the same diagnosis; the rows given are test visits whose other visit is in train.",
    )


@plant("card payments with one fraud in about 80")
def _(rng):
    def draw(n):
        amount = rng.lognormal(3.4, 1.1, n)
        hour = rng.choice(24, n, p=np.r_[np.full(7, 0.012), np.full(17, 0.916 / 17)])
        shop = rng.choice(12, n, p=rng.permutation(np.arange(1, 13)) / 78)
        abroad = rng.random(n) < 0.07
        since = rng.exponential(30.0, n)
        logit = (
            -7.9
            + 0.9 * (np.log(amount) - 3.4)
            + 1.5 * (hour < 7)
            + 2.6 * abroad
            + 1.1 * np.isin(shop, [3, 8])
            - 0.02 * (since - 30)
        )
        x = pd.DataFrame(
            dict(
                amount=amount.round(2),
                hour=hour,
                abroad=abroad.astype(int),
                minutes_since_last=since.round(2),
                shop=[f"mcc{5000 + 37 * s}" for s in shop],
            )
        )
        return x, logit

    x, logit = draw(60_000)  # the table is its first rows; the rest is for the rate and the least error
    low, high = -3.0, 6.0
    for _ in range(40):  # an intercept with 1.25 % fraud
        mid = (low + high) / 2
        low, high = (mid, high) if sigmoid(logit + mid).mean() < 0.0125 else (low, mid)
    p = sigmoid(logit + mid)
    y = rng.random(5500) < p[:5500]
    frame = x[:5500].copy()
    frame["fraud"] = np.where(y, "yes", "no")
    return dict(
        frame=frame,
        opts=dict(label="fraud"),
        truth=float(np.minimum(p, 1 - p).mean()),
        planted={"imbalance": {}},
        ok=set(),
        note="About 1.25 % of the payments are fraud; everything else is honest, and few models beat the rule that answers no.",
    )


# ---------------------------------------------------------------- honest


@plant("six-item questionnaire: many people give the same answers")
def _(rng):
    hard = np.sort(rng.normal(0, 0.9, (6, 3)), 1)

    def draw(n):
        trait = rng.normal(size=n)
        items = (trait[:, None, None] * 1.1 + rng.logistic(0, 0.8, (n, 6))[:, :, None] > hard).sum(2)
        return items, sigmoid(0.45 * (items.sum(1) - 9))

    items, p = draw(2600)
    y = (rng.random(2600) < p).astype(int)
    _, big = draw(300_000)
    return dict(
        x=items,
        y=y,
        opts={},
        truth=float(np.minimum(big, 1 - big).mean()),
        planted={},
        ok={"conflicting-labels"},
        note="Every row is another person; with 4,096 possible rows and correlated items, equal rows, also with different outcomes, are coincidence and no copies.",
    )


@plant("counts of 36 words in short messages: many rows are all zero")
def _(rng):
    d, n, prior = 36, 3000, 0.35
    rate = np.exp(rng.normal(-3.1, 0.8, (2, d)))
    rate[1, : d // 2] = rate[0, : d // 2] * np.exp(rng.normal(0.3, 0.3, d // 2))

    def draw(n):
        y = (rng.random(n) < prior).astype(int)
        return y, rng.poisson(rate[y])

    y, x = draw(n)
    _, big = draw(200_000)
    joint = np.log([1 - prior, prior]) + big @ np.log(rate).T - rate.sum(1)
    frame = pd.DataFrame(x, columns=[f"word_{k:02d}" for k in range(d)])
    frame["kind"] = np.where(y == 1, "complaint", "question")
    frame["split"] = cut(rng, n)
    return dict(
        frame=frame,
        opts=dict(label="kind"),
        truth=least_error(joint),
        planted={},
        ok={"conflicting-labels"},
        note="Independent messages; those that have none or one of the 36 words are equal to others by coincidence, in both classes.",
    )


@plant("lactate is measured more often in sicker patients")
def _(rng):
    n, prior, miss = 2400, 0.3, np.array([0.72, 0.24])
    mean = np.array([[86.0, 17.5, 37.1, 7.2], [97.0, 21.0, 37.6, 9.4]])
    sd = np.array([15.0, 3.6, 0.7, 3.1])

    def draw(n):
        y = (rng.random(n) < prior).astype(int)
        z = mean[y] + sd * rng.normal(size=(n, 4))
        lactate = rng.lognormal(np.array([0.35, 0.9])[y], 0.5)
        lactate[rng.random(n) < miss[y]] = np.nan
        return y, z, lactate

    y, z, lactate = draw(n)
    frame = pd.DataFrame(z, columns=["heart_rate", "respiration", "temperature", "leukocytes"]).round(1)
    frame["lactate"], frame["sepsis"] = lactate.round(3), np.where(y == 1, "yes", "no")
    _, zz, ll = draw(300_000)
    joint = np.empty((300_000, 2))
    for k in (0, 1):
        got = np.log1p(-miss[k]) - (np.log(np.where(np.isnan(ll), 1.0, ll)) - (0.35, 0.9)[k]) ** 2 / 0.5
        joint[:, k] = (
            np.log((1 - prior, prior)[k])
            - (((zz - mean[k]) / sd) ** 2).sum(1) / 2
            + np.where(np.isnan(ll), np.log(miss[k]), got)
        )
    return dict(
        frame=frame,
        opts=dict(label="sepsis"),
        truth=least_error(joint),
        planted={},
        ok=set(),
        note="That lactate is missing is informative (72 % against 24 %) because doctors order it when in doubt; it is known in time and far from telling the label.",
    )


@plant("a strong marker among weaker ones, and a postal code that says nothing", mode="train")
def _(rng):
    n, half = (
        1600,
        np.array([1.2, 0.55, 0.55, 0.55, 0.55, 0.55]),
    )  # half the distance of the class means in standard deviations
    y = (rng.random(n) < 0.5).astype(int)
    z = (2 * y[:, None] - 1) * half + rng.normal(size=(n, 6))
    frame = pd.DataFrame(
        (z * [40, 3, 12, 0.8, 5, 0.2] + [150, 24, 80, 4.8, 39, 1.1]).round(3),
        columns=["troponin", "ck_mb", "ldh", "bnp_log", "st_shift", "creatinine"],
    )
    frame["postal"] = [f"P{k}" for k in rng.choice(np.arange(1000, 1070), n)]
    frame["infarct"] = np.where(y == 1, "yes", "no")
    return dict(
        frame=frame,
        opts=dict(label="infarct"),
        truth=float(norm.cdf(-np.linalg.norm(half))),
        planted={},
        ok=set(),
        note="troponin alone has 11.5 % error, all markers together 4 %: a good test, known before the diagnosis, and no leak.",
    )


@plant("loan table sorted by age, with an income that differs in every row")
def _(rng):
    def draw(n):
        age = rng.integers(19, 76, n)
        income = rng.lognormal(8.0 + 0.006 * (age - 45), 0.5, n)
        debt = rng.gamma(1.6, 0.2, n)
        years = np.minimum(rng.gamma(1.5, 5.0, n), age - 18.0)
        home = rng.choice(["rent", "own", "family"], n, p=[0.5, 0.35, 0.15])
        logit = (
            -0.3 - 0.045 * (age - 45) - 1.3 * (np.log(income) - 8.0) + 2.0 * (debt - 0.32) - 0.7 * (home == "own")
        )
        return pd.DataFrame(
            dict(
                age=age,
                income_cents=(100 * income).astype(int),
                debt_ratio=debt.round(3),
                years_employed=years.round(1),
                home=home,
            )
        ), sigmoid(logit)

    x, p = draw(2700)
    x["default"] = np.where(rng.random(2700) < p, "yes", "no")
    x = x.drop_duplicates("income_cents")[:2600].sort_values("age", kind="stable").reset_index(drop=True)
    _, big = draw(300_000)
    return dict(
        frame=x,
        opts=dict(label="default"),
        truth=float(np.minimum(big, 1 - big).mean()),
        planted={},
        ok={"order"},
        note="The file is sorted by a real feature, so the label changes slowly along it; neither age nor the income in cents is an index.",
    )


@plant("24 clinics with devices of their own, but one rule for all", mode="train")
def _(rng):
    clinics, n, half = 24, 1680, np.array([0.7, 0.6, 0.5, 0.5, 0.3])
    where = rng.integers(0, clinics, n)
    y = (rng.random(n) < 0.5).astype(int)
    z = (2 * y[:, None] - 1) * half + rng.normal(size=(n, 5))
    device = rng.normal(0, 2.0, (clinics, 4))[where] + 0.4 * rng.normal(
        size=(n, 4)
    )  # tells the clinic, not the label
    frame = pd.DataFrame(
        np.c_[z, device].round(4),
        columns=["pain", "swelling", "crp", "esr", "stiffness", "tube_voltage", "exposure", "gain", "room_temp"],
    )
    frame["clinic"], frame["arthritis"] = [f"clinic-{k:02d}" for k in where], np.where(y == 1, "yes", "no")
    return dict(
        frame=frame,
        opts=dict(label="arthritis", group="clinic"),
        truth=float(norm.cdf(-np.linalg.norm(half))),
        planted={},
        ok=set(),
        note="Four columns tell the clinics apart, but every clinic has the same proportion of cases and the same rule, so new clinics are no harder.",
    )


@plant("filled 6 x 6 Hex boards: who has connected the sides?", mode="train")
def _(rng):
    n, k = 2800, 6
    boards = np.unique((rng.random((n + 50, k * k)).argsort(1) < k * k // 2).astype(np.int8), axis=0)
    boards = boards[rng.permutation(len(boards))[:n]]
    near = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    y = np.empty(len(boards), int)
    for i, b in enumerate(boards):
        parts, _ = ndimage.label(b.reshape(k, k), near)
        y[i] = np.intersect1d(parts[:, 0][parts[:, 0] > 0], parts[:, -1]).size > 0
    return dict(
        x=2 * boards.astype(int) - 1,
        y=y,
        opts={},
        truth=0.0,
        planted={},
        ok=set(),
        note="Every label is right by the rules of the game and every board occurs once; the rule (a connected path) is hard to learn, so models will doubt correct labels.",
    )


@plant("sensor log with time stamps, a season in one column and rare but not very rare faults")
def _(rng):
    n, prior = 3200, np.array([0.8, 0.12, 0.08])
    mean = np.array([[0.0, 0, 0, 0, 0], [1.5, 0.8, 0, -0.6, 0], [0, 0.9, 1.8, 0, 0.9]])
    y = rng.choice(3, n, p=prior)
    z = mean[y] + rng.normal(size=(n, 5))
    minutes = np.cumsum(rng.integers(60, 260, n))
    day = minutes / 1440
    ambient = (
        12 + 9 * np.sin(2 * np.pi * (day / 365 - 0.3)) + 4 * np.sin(2 * np.pi * day) + 0.8 * rng.normal(size=n)
    )
    frame = pd.DataFrame(
        (z * [0.2, 4, 0.05, 11, 1.5] + [1.1, 61, 0.4, 230, 7]).round(4),
        columns=["vibration", "bearing_temp", "leak_rate", "voltage", "current"],
    )
    frame.insert(0, "stamp", pd.Timestamp("2021-03-01") + pd.to_timedelta(minutes, unit="min"))
    frame["ambient"] = ambient.round(2)
    frame["state"] = np.array(["ok", "bearing", "seal"])[y]
    big = rng.choice(3, 200_000, p=prior)
    x = mean[big] + rng.normal(size=(200_000, 5))
    return dict(
        frame=frame,
        opts=dict(label="state", columns={"time": "stamp"}),
        truth=least_error(np.log(prior) + x @ mean.T - (mean**2).sum(1) / 2),
        planted={},
        ok={"index-feature"},
        note="Stamps ascend and the ambient temperature follows the season, but labels and rule do not change over time; 10 to 1 is the largest ratio of classes.",
    )
