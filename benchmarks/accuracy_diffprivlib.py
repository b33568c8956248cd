"""The diffprivlib column of accuracy.py; runs in an environment that has diffprivlib.

Takes tables from one NPZ file and writes coefficients to another. diffprivlib promises
pure epsilon-differential privacy, a stronger guarantee than (epsilon, 1e-6).
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib import models, tools


def fit(facts, X, y, seed):
    epsilon, R = facts["epsilon"], facts["row_norm"]
    if facts["kind"] == "mean":
        return tools.mean(X, epsilon=epsilon, axis=0, bounds=(0, 1), random_state=seed)
    if facts["kind"] == "logistic":
        model = models.LogisticRegression(
            epsilon=epsilon,
            data_norm=R,
            C=1 / (facts["weight"] * len(X)),
            fit_intercept=False,
            random_state=seed,
        )
        return model.fit(X, y).coef_[0]
    bound = facts["label_bound"]
    model = models.LinearRegression(
        epsilon=epsilon,
        bounds_X=(0.0, 1.0),
        bounds_y=(0.0, bound),
        fit_intercept=False,
        random_state=seed,
    )
    return model.fit(X, y).coef_


def main():
    warnings.simplefilter("ignore")
    source, target = sys.argv[1:]
    found = {}
    with np.load(source) as data:
        facts = json.loads(str(data["facts"]))
        for seed in range(facts["seeds"]):
            for name in ("all", "part"):
                if f"X_{name}_{seed}" in data:
                    X = data[f"X_{name}_{seed}"]
                    y = data.get(f"y_{name}_{seed}")
                    if facts["kind"] == "logistic":
                        norms = np.linalg.norm(X, axis=1, keepdims=True)
                        X = X * np.minimum(
                            1, facts["row_norm"] / np.maximum(norms, 1e-9)
                        )
                    found[f"{name}_{seed}"] = fit(facts, X, y, seed)
    np.savez(target, **found)


if __name__ == "__main__":
    main()
