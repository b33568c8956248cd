"""bound and advise on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbraid as db
from dpbraid.paper import tasks
from dpbraid.theory.advise import advise
from dpbraid.theory.bounds import TERMS, convergence_bound, largest_learning_rate
from dpbraid.theory.constants import constants_not_private
from tests.cli.run import dpbraid

FACTS = (
    "--n 2000 --dimension 5 --epsilon 1 --delta 1e-6 --radius 1 --max-epochs 16".split()
)
LOGISTIC = "--loss logistic --row-norm 2".split()
CRIME = (
    "--task crime --schedule interleaved --private-fraction 0.5 --epochs 4 "
    "--penalty ball:1 --noise-std 2".split()
)


def found(capsys: Any, *args: object) -> dict[str, Any]:
    done = dpbraid(capsys, *args, "--json")
    assert done.code == 0, done.err
    result: dict[str, Any] = json.loads(done.out)
    return result


def write_csv(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    names = ",".join([*(f"x{j}" for j in range(X.shape[1])), "label"])
    rows = [",".join(map(repr, map(float, row))) for row in np.column_stack([X, y])]
    path.write_text("\n".join([names, *rows]) + "\n")


class TestBound:
    def test_terms_of_a_task_are_those_of_the_library(
        self, capsys: Any, tmp_path: Path
    ) -> None:
        out = tmp_path / "bound.png"
        result = found(capsys, "bound", *CRIME, "--out", out)
        assert "NOT PRIVATE" in result["warning"]
        mechanism = db.Mechanism.from_json(result["mechanism"])
        assert mechanism.loss == db.Squared()
        assert mechanism.penalty == db.Ball(1)
        task = tasks.load("crime")
        constants = constants_not_private(mechanism, task.private, task.public)
        bound = convergence_bound(constants, mechanism)
        iterated = result["forms"]["iterated"]
        for term in TERMS:
            assert iterated[term] == pytest.approx(getattr(bound, term))
        assert iterated["total"] == pytest.approx(bound.total)
        assert iterated["is_theorem"]
        assert not result["forms"]["printed_theorem"]["is_theorem"]
        assert result["by_epoch"][-1]["total"] == iterated["total"]
        assert len(result["by_epoch"]) == 4
        assert result["constants"]["epochs"][0]["repeat"] == 4
        assert all(c["holds"] for c in result["conditions"])
        assert out.read_bytes().startswith(b"\x89PNG")

    def test_the_rate_that_is_left_out_has_the_least_bound(self, capsys: Any) -> None:
        best = found(capsys, "bound", *CRIME)
        mechanism = db.Mechanism.from_json(best["mechanism"])
        task = tasks.load("crime")
        constants = constants_not_private(mechanism, task.private, task.public)
        limit = largest_learning_rate(constants, "iterated", 4)
        assert 0 < best["learning_rate"] <= limit
        for factor in np.geomspace(1e-3, 1, 30):
            rate = float(limit * factor)
            other = convergence_bound(constants, mechanism, learning_rate=rate).total
            assert best["forms"]["iterated"]["total"] <= other * 1.01

    def test_what_people_see_says_that_it_is_not_private(self, capsys: Any) -> None:
        done = dpbraid(capsys, "bound", *CRIME)
        assert done.code == 0
        assert done.out.startswith("Research only: computed from private rows, NOT")
        text = " ".join(done.out.split())
        assert "holds: domain" in text
        assert "FAILS for the printed forms: noise lemma" in text
        help_text = " ".join(dpbraid(capsys, "bound", "--help").out.split())
        assert "Research only, NOT PRIVATE" in help_text

    def test_tables_from_files_with_a_mechanism_from_calibrate(
        self, capsys: Any, tmp_path: Path
    ) -> None:
        rng = np.random.default_rng(0)
        X, P = rng.standard_normal((2, 20, 2)) / 4
        y, py = np.sign(rng.standard_normal((2, 20)))
        private, public = tmp_path / "private.csv", tmp_path / "public.csv"
        write_csv(private, X, y)
        write_csv(public, P, py)
        file = tmp_path / "mechanism.json"
        words = (
            "--schedule priv_pub --private-fraction 0.5 --n 20 --epochs 4 --row-norm 2 "
            "--learning-rate 0.001 --penalty ball:1 --epsilon 1 --delta 1e-6"
        ).split()
        assert dpbraid(capsys, "calibrate", *words, "--out", file).code == 0
        tables = ("--private", private, "--public", public, "--target", "label")
        mechanism = db.Mechanism.loads(file.read_text())
        # rows get the bound that the mechanism asks for
        result = found(capsys, "bound", *tables, "--mechanism", file)
        rows = [db.Rows.bounded(A, b, row_norm=2.0) for A, b in ((X, y), (P, py))]
        bound = convergence_bound(constants_not_private(mechanism, *rows), mechanism)
        assert result["forms"]["iterated"]["total"] == pytest.approx(bound.total)

    def test_a_lasso_needs_an_offset_for_the_printed_forms_alone(
        self, capsys: Any
    ) -> None:
        words = "--task compas --epochs 3 --noise-std 1".split()
        result = found(capsys, "bound", *words)
        assert result["mechanism"]["penalty"]["kind"] == "lasso"
        assert set(result["forms"]) == {"iterated", "theorem", "corollary"}
        assert result["forms"]["iterated"]["is_theorem"]
        result = found(capsys, "bound", *words, "--l1-offset", "0.5")
        assert result["forms"]["printed_theorem"]["additional"] > 0

    def test_an_infinite_bound_is_no_json_number(self, capsys: Any) -> None:
        words = "--task crime --schedule interleaved --private-fraction 0.5".split()
        result = found(capsys, "bound", *words, "--epochs", "2", "--noise-std", "1")
        assert result["forms"]["iterated"]["total"] is None
        failed = [c["name"] for c in result["conditions"] if not c["holds"]]
        assert "domain" in failed

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            ("--epochs 2 --noise-std 1", "--task and --private"),
            ("--task crime --private x.csv --epochs 2 --noise-std 1", "one of"),
            ("--task moon --epochs 2 --noise-std 1", "'moon'"),
            ("--task crime --epochs 2", "--noise-std is needed"),
            ("--task crime --target y --epochs 2 --noise-std 1", "--target"),
            ("--task crime --noise-std 1", "--epochs"),
            ("--task crime --epochs 2 --noise-std 1 --batch-size 2", "batch_size"),
            ("--task crime --epochs 2 --noise-std 1 --out b.txt", ".png"),
            ("--task compas --epochs 2 --noise-std 1 --l1-offset -1", "l1_offset"),
            ("--task compas --epochs 2 --noise-std 1 --l1-offset nan", "l1_offset"),
            ("--private no.csv --epochs 2 --noise-std 1", "no.csv"),
            ("--private bad.csv --epochs 2 --noise-std 1", "bad.csv"),
            ("--private text.csv --epochs 2 --noise-std 1", "finite"),
            ("--private empty.csv --epochs 2 --noise-std 1", "n >= 1"),
            ("--private text.csv --target a --epochs 2 --noise-std 1", "finite"),
            ("--private one.csv --target a --epochs 2 --noise-std 1", "no column"),
            ("--private text.csv --target z --epochs 2 --noise-std 1", "'z'"),
        ],
    )
    def test_errors_are_one_line(
        self,
        capsys: Any,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        words: str,
        part: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("bad.csv").write_bytes(bytes(range(256)))
        Path("text.csv").write_text("a,b\n1,SECRET\n2,3\n")
        Path("one.csv").write_text("a\n1\n")
        Path("empty.csv").write_text("a,b\n")
        done = dpbraid(capsys, "bound", *words.split())
        assert done.code == 2
        assert done.err.startswith("dpbraid: ")
        assert done.err.count("\n") == 1
        assert part in done.err
        assert "SECRET" not in done.err


class TestAdvise:
    def test_it_is_the_advice_of_the_library(self, capsys: Any) -> None:
        public = ("--public-rows", 2000, "--public-gap", 0.01)
        result = found(capsys, "advise", *FACTS, *LOGISTIC, *public, "--table")
        advice = advise(
            n=2000, dimension=5, epsilon=1.0, delta=1e-6, radius=1.0,
            smoothness=1.0, lipschitz=2.0, max_epochs=16, public_rows=2000,
            public_gap=0.01,
        )  # fmt: skip
        assert result["schedule"] == advice.schedule
        assert result["bound"] == advice.bound.total
        assert result["reason"] == advice.reason
        assert len(result["candidates"]) == 11
        assert result["start_point"] == 2.0
        proved = [row["proved"] for row in result["table"]]
        assert proved == 4 * [False] + 8 * [True]
        # L and G may be given instead
        same = ("--smoothness", 1, "--lipschitz", 2)
        assert (
            found(capsys, "advise", *FACTS, *same, *public)["bound"]
            == (result["bound"])
        )

    def test_what_people_see(self, capsys: Any, tmp_path: Path) -> None:
        for against in ("epsilon", "n"):
            out = tmp_path / f"{against}.svg"
            done = dpbraid(
                capsys, "advise", *FACTS, *LOGISTIC, "--table", "--against", against,
                "--public-rows", 1000, "--out", out,
            )  # fmt: skip
            assert done.code == 0
            assert "<svg" in out.read_text()
        text = " ".join(done.out.split())
        assert "Without a bound on public_gap no public row is relied on" in text
        assert "as if their gap were 0" in text
        assert "the paper's table, NOT proved" in text
        assert "sqrt(d/(n [(1-p)n+1]))/eps + (C_n)^2/(n^2 beta)" in text

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            ("", "--loss and --row-norm"),
            ("--smoothness 1", "--lipschitz"),
            ("--loss logistic", "--row-norm"),
            ("--loss logistic --row-norm -1", "row_norm"),
            ("--loss squared --row-norm 1", "--lipschitz is needed"),
            ("--loss logistic --row-norm 1 --public-gap -1", "public_gap"),
            ("--loss logistic --row-norm 1 --out a.txt", ".png"),
            ("--loss moon --row-norm 1", "moon"),
        ],
    )
    def test_errors_are_one_line(self, capsys: Any, words: str, part: str) -> None:
        done = dpbraid(capsys, "advise", *FACTS, *words.split())
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert part in done.err
