"""fit, predict, explain, verify, rules and ledger on the command line."""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpbraid.estimators import from_files
from dpbraid.estimators.table_files import open_table
from dpbraid.privacy import ledger
from tests.cli.run import Done, dpbraid

ENGINE = import_module("dpbraid.engine.once")
HEAD = b"age city member amount label".split()
TARGET = ("--epsilon", 3, "--delta", 1e-6)


def table(rows: int, seed: int) -> list[list[bytes]]:
    """People whose label and amount lean on age and city."""
    rng = random.Random(seed)
    people = []
    for _ in range(rows):
        age, city = rng.randint(18, 80), rng.choice(["Oslo", "Rome", "Lima"])
        score = (age - 50) / 15 + (city == "Oslo") + rng.gauss(0, 0.5)
        member = rng.choice(["true", "false"])
        label = "yes" if score > 0 else "no"
        cells = [str(age), city, member, f"{score:.3f}", label]
        people.append([cell.encode() for cell in cells])
    return people


def write(path: Path, rows: list[list[bytes]]) -> Path:
    """CSV with every cell quoted, so that any bytes can stand in one."""
    lines = [b",".join(b'"%s"' % c.replace(b'"', b'""') for c in r) for r in rows]
    path.write_bytes(b"\n".join([b",".join(HEAD), *lines]) + b"\n")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(Path("private.csv"), table(400, 1))
    write(Path("public.csv"), table(100, 2))
    return tmp_path


def fit(capsys: Any, *more: object, task: str = "logistic") -> Done:
    words: list[object] = ["private.csv", "--task", task, *TARGET, "-o", "model.json"]
    if "--rules" not in more:
        words += ["--public", "public.csv"]
        target = "amount" if task in ("ridge", "huber") else "label"
        other = "label" if task in ("ridge", "huber") else "amount"
        if task == "mean":
            words += ["--leave-out", "label"]
        else:
            words += ["--target", target, "--leave-out", other]
    return dpbraid(capsys, "fit", *words, *more)


# -- what a fit prints and writes ------------------------------------------------------


def test_a_model_from_two_tables(capsys: Any, here: Path) -> None:
    done = fit(capsys, "--row-norm", 2)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == (
        "Guarantee for replacing one of the 400 private rows: epsilon 3 at delta "
        "1e-06, by the analysis 'epoch_end'."
    )
    assert lines[1].startswith("On 100 public rows: accuracy 0.")
    assert lines[2] == "Model: model.json"
    model, rules = from_files.load(Path("model.json"))
    quality = from_files.quality(model, rules, open_table("public.csv"))
    assert f"accuracy {quality.value:.4g}; " in lines[1]
    assert rules.declaration in model.certificate_.declarations
    assert model.certificate_.mechanism.n == 400
    verified = dpbraid(capsys, "verify", "model.json")
    assert verified.code == 0, verified.out


def test_json_for_programs(capsys: Any, here: Path) -> None:
    ledger.new("budget.json", "people", epsilon=5, delta=1e-6)
    done = fit(capsys, "--json", "--ledger", "budget.json")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["private"]
    assert facts["private_rows"] == 400
    assert facts["epsilon"] == pytest.approx(3, rel=1e-6)
    assert facts["ledger"]["releases"] == 1
    assert facts["ledger"]["spent"] == pytest.approx(3, rel=1e-6)
    assert facts["public"]["rows"] == 100


def test_parquet_is_the_same(capsys: Any, here: Path) -> None:
    for name in ("private", "public"):
        columns = pyarrow.csv.read_csv(f"{name}.csv")
        pq.write_table(columns, f"{name}.parquet")
    seed = ("--seed", 7)
    fit(capsys, *seed)
    from_csv = json.loads(Path("model.json").read_text())
    words = (*TARGET, *seed, "--target", "label", "--leave-out", "amount")
    words = ("private.parquet", "--public", "public.parquet", *words)
    done = dpbraid(capsys, "fit", *words, "--task", "logistic", "-o", "model.json")
    assert done.code == 0, done.err
    assert json.loads(Path("model.json").read_text()) == from_csv


def test_a_seed_makes_it_not_private(capsys: Any, here: Path) -> None:
    done = fit(capsys, "--seed", 7)
    assert done.code == 0
    assert done.out.startswith("NOT PRIVATE: the noise came from a seed.")
    assert dpbraid(capsys, "verify", "model.json").code == 1
    assert "NOT CERTIFIED" in dpbraid(capsys, "explain", "model.json").out


def test_rules_instead_of_a_public_table(capsys: Any, here: Path) -> None:
    words = ("--task", "logistic", "--target", "label", "--leave-out", "amount")
    printed = dpbraid(capsys, "rules", "public.csv", *words)
    written = dpbraid(capsys, "rules", "public.csv", *words, "-o", "rules.json")
    assert (printed.code, written.code, written.out) == (0, 0, "")
    assert printed.out == Path("rules.json").read_text()
    done = fit(capsys, "--rules", "rules.json", "--row-norm", 2)
    assert done.code == 0, done.err
    assert "public rows" not in done.out
    done = fit(capsys, "--rules", "rules.json", "--row-norm", 2, "--target", "label")
    assert done.code == 2
    assert "do not go with --rules" in done.err


@pytest.mark.parametrize("task", ["ridge", "huber", "mean"])
def test_other_tasks(capsys: Any, here: Path, task: str) -> None:
    done = fit(capsys, task=task)
    assert done.code == 0, done.err
    measure = "distance to the public mean" if task == "mean" else "root mean squared"
    assert measure in done.out
    assert dpbraid(capsys, "verify", "model.json").code == 0


def test_several_classes(capsys: Any, here: Path) -> None:
    words = ("--task", "svc", "--target", "city", *TARGET, "--public", "public.csv")
    done = dpbraid(capsys, "fit", "private.csv", *words, "-o", "model.json")
    assert done.code == 0, done.err
    assert "accuracy" in done.out
    page = dpbraid(capsys, "explain", "model.json").out
    assert "3 runs, composed exactly" in page
    assert "coefficient for Oslo, age" in page
    assert dpbraid(capsys, "verify", "model.json").code == 0


def test_progress_counts_steps_on_stderr(capsys: Any, here: Path) -> None:
    done = fit(capsys, "--progress", "--epochs", 5, "--batch-size", 100)
    assert done.code == 0, done.err
    assert "20/20" in done.err
    assert "Guarantee" in done.out


# -- nothing but the released numbers --------------------------------------------------


def released_out(text: str) -> Any:
    """A model's file without its released numbers."""
    model = json.loads(text)
    assert len(model.pop("coef")) == 1
    return model


CELL = st.one_of(
    st.binary(max_size=30),
    st.sampled_from(
        [b"", b"1e308", b"-1e400", b"nan", b"inf", b"Paris", b"maybe", b"9" * 5000]
    ),
)


@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(row=st.integers(0, 399), cells=st.lists(CELL, min_size=5, max_size=5))
@pytest.mark.parametrize("task", ["logistic", "ridge", "mean"])
def test_a_private_row_changes_nothing_but_the_numbers(
    capsys: Any, here: Path, task: str, row: int, cells: list[bytes]
) -> None:
    """Any bytes in any cells of a row: same outputs, exit code, file but for coef.

    The line on public rows is a function of the model and the public table (tested
    above), so it is left out here by giving rules.
    """
    if not Path("rules.json").exists():
        target = () if task == "mean" else ("--target", "amount")
        if task == "logistic":
            target = ("--target", "label")
        words = ("--task", task, *target, "-o", "rules.json")
        assert dpbraid(capsys, "rules", "public.csv", *words).code == 0
    people = table(400, 1)
    found = []
    for changed in (people, [*people[:row], cells, *people[row + 1 :]]):
        write(Path("private.csv"), changed)
        more = ("--row-norm", 2, "--rules", "rules.json", "--progress")
        if task == "ridge":
            more = (*more, "--label-bound", 3)
        done = fit(capsys, *more, task=task)
        model = Path("model.json")
        found.append((done, model.stat().st_size, released_out(model.read_text())))
    assert found[0][0].code == 0, found[0][0].err
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda table: table.set_column(
            0, "age", pa.array([None, np.inf, -1e300, np.nan] * 100, pa.float64())
        ),
        lambda table: table.set_column(0, "age", pa.array(["SECRET"] * 400)),
        lambda table: table.set_column(1, "city", pa.array([7.5] * 400)),
        lambda table: table.set_column(1, "city", pa.array([b"\xff"] * 400)),
        lambda table: table.set_column(4, "label", pa.nulls(400)),
    ],
    ids="age text number bytes null".split(),
)
def test_parquet_cells_change_nothing_but_the_numbers(
    capsys: Any, here: Path, spoil: Callable[[pa.Table], pa.Table]
) -> None:
    people = pyarrow.csv.read_csv("private.csv")
    words = ("--task", "logistic", "--target", "label")
    dpbraid(capsys, "rules", "public.csv", *words, "-o", "rules.json")
    words = ("--task", "logistic", "--rules", "rules.json", "--row-norm", 2)
    found = []
    for table in (people, spoil(people)):
        pq.write_table(table, "private.parquet")
        done = dpbraid(
            capsys, "fit", "private.parquet", *words, *TARGET, "-o", "model.json"
        )
        found.append((done, released_out(Path("model.json").read_text())))
    assert found[0][0].code == 0, found[0][0].err
    assert found[0] == found[1]


# -- the ledger ------------------------------------------------------------------------


def test_a_ledger_counts_and_refuses(capsys: Any, here: Path) -> None:
    words = ("--data-set", "people", "--epsilon", 4, "--delta", 1e-6)
    done = dpbraid(capsys, "ledger", "new", "budget.json", *words)
    assert (done.code, done.out) == (0, "Ledger for 'people': budget.json\n")
    done = fit(capsys, "--ledger", "budget.json")
    assert done.code == 0, done.err
    assert "Charged to 'people', release 1: together epsilon 3 of 4" in done.out
    Path("model.json").unlink()
    done = fit(capsys, "--ledger", "budget.json")
    assert done.code == 2
    assert done.err.startswith("dpbraid: the release would pass the limit")
    assert done.out == ""
    assert not Path("model.json").exists()
    shown = dpbraid(capsys, "ledger", "show", "budget.json")
    assert "Together epsilon 3 of 4 at delta 1e-06" in shown.out
    facts = json.loads(dpbraid(capsys, "ledger", "show", "budget.json", "--json").out)
    assert [r["note"] for r in facts["releases"]] == ["model.json"]
    assert facts["spent"] == pytest.approx(3, rel=1e-6)
    again = dpbraid(capsys, "ledger", "new", "budget.json", *words)
    assert again.code == 2
    assert "exists already" in again.err


def test_a_refused_charge_draws_no_noise(
    capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("the engine was run")

    monkeypatch.setattr(ENGINE, "run", never)
    ledger.new("budget.json", "people", epsilon=1, delta=1e-6)
    assert fit(capsys, "--ledger", "budget.json").code == 2
    assert ledger.read("budget.json").charges == ()
    monkeypatch.undo()


def test_the_charge_is_on_the_disk_before_the_run(
    capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that dies is charged, and leaves no model."""
    seen = []

    def dies(*_: object, **__: object) -> None:
        seen.append(len(ledger.read(here / "budget.json").charges))
        raise OSError("the power went")

    monkeypatch.setattr(ENGINE, "run", dies)
    ledger.new("budget.json", "people", epsilon=5, delta=1e-6)
    done = fit(capsys, "--ledger", "budget.json")
    assert (done.code, done.err) == (2, "dpbraid: the power went\n")
    assert seen == [1]
    assert not Path("model.json").exists()


CHILD = """
import sys
from dpbraid.cli import main
words = "fit private.csv --public public.csv --target label --task logistic"
words += " --epsilon 1 --delta 1e-6 --ledger budget.json -o model{}.json"
for number in range(1000):
    sys.argv = ["dpbraid", *words.format(number).split()]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


@pytest.mark.slow
def test_a_killed_fit_is_in_the_ledger_or_released_nothing(here: Path) -> None:
    """Fits one after the other, killed at a random time; 2 or 12 times over."""
    times = random.Random(6)
    for _ in range(12 if os.environ.get("DPBRAID_FULL") else 2):
        for file in Path().glob("*.json"):
            file.unlink()
        ledger.new("budget.json", "people", epsilon=1e6, delta=1e-6)
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", CHILD], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("Guarantee")
        time.sleep(times.uniform(0, 0.6))
        process.kill()
        process.communicate()
        models = list(Path().glob("model*.json"))
        charges = ledger.read("budget.json").charges
        assert 1 <= len(models) <= len(charges) <= len(models) + 1
        for model in models:
            from_files.load(model)  # whole


# -- predict, explain ------------------------------------------------------------------


def test_predictions_on_rows(capsys: Any, here: Path) -> None:
    fit(capsys)
    with Path("rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["city", "age", "member"], ["Oslo", "75", "true"], ["x", "", "SECRET"]]
        )
    done = dpbraid(capsys, "predict", "model.json", "rows.csv", "--probabilities")
    assert done.code == 0, done.err
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [set(row) for row in rows] == [
        {"prediction", "probability of no", "probability of yes"}
    ] * 2
    model, rules = from_files.load(Path("model.json"))
    X = rules.read_features(open_table("rows.csv"))
    assert [row["prediction"] for row in rows] == model.predict(X).tolist()
    assert float(rows[0]["probability of yes"]) == model.predict_proba(X)[0, 1]
    for name in ("out.csv", "out.parquet"):
        done = dpbraid(capsys, "predict", "model.json", "rows.csv", "-o", name)
        assert (done.code, done.out) == (0, "")
    parquet = pq.read_table("out.parquet")
    assert parquet == pyarrow.csv.read_csv("out.csv")
    assert parquet.column_names == ["prediction"]


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "body":
            self.text = ""

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_of_text_and_of_html(capsys: Any, here: Path) -> None:
    fit(capsys)
    text = dpbraid(capsys, "explain", "model.json").out
    done = dpbraid(capsys, "explain", "model.json", "--html", "-o", "page.html")
    assert (done.code, done.out) == (0, "")
    page = _Text()
    page.feed(Path("page.html").read_text())
    assert "script" not in page.tags
    assert page.tags.count("li") == text.count("\n  - ")
    flat = " ".join(text.replace("\n  - ", " ").split())
    assert flat == " ".join(page.text.split())
    for part in (
        "free_last(penalty=ridge(weight=",
        "city: one of Lima, Oslo, Rome",
        "coefficient for yes, city=Oslo: ",
    ):
        assert part in text
    certificate = json.loads(Path("model.json").read_text())["certificate"]
    Path("certificate.json").write_text(json.dumps(certificate))
    alone = dpbraid(capsys, "explain", "certificate.json").out
    assert alone.startswith("PRIVACY CERTIFICATE\n")
    assert "8. The columns" not in alone


def test_a_changed_model_does_not_verify(capsys: Any, here: Path) -> None:
    fit(capsys)
    model = json.loads(Path("model.json").read_text())
    model["certificate"]["guarantee"]["epsilon"] = 1.0
    Path("model.json").write_text(json.dumps(model))
    assert dpbraid(capsys, "verify", "model.json").code == 1
    model["table"]["columns"][0]["center"] += 1
    Path("model.json").write_text(json.dumps(model))
    for command in (["verify"], ["explain"], ["predict", "public.csv"]):
        done = dpbraid(capsys, command[0], "model.json", *command[1:])
        assert done.code == 2
        assert "not those that its certificate names" in done.err
    model["coef"] = [["x"]]
    Path("model.json").write_text(json.dumps(model))
    assert dpbraid(capsys, "verify", "model.json").code == 2


# -- what people get wrong -------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--task", "magic"], "task must be one of logistic, svc, ridge"),
        (["--label-bound", 3], "label_bound does not go with task 'logistic'"),
        (["--seed", 1, "--ledger", "b.json"], "--seed does not go with --ledger"),
        (["--ledger", "b.json"], "there is no ledger"),
        (["-o", "nowhere/model.json"], "out must be a .json file in a folder"),
        (["-o", "private.csv"], "out must be a .json file in a folder"),
        (["--public", "./private.csv"], "table are one file"),
        (["--target", "height"], "public.csv has no column 'height'"),
        (["--leave-out", "height"], "public.csv has no column 'height'"),
        (["--public", "nowhere.csv"], "No such file or directory: 'nowhere.csv'"),
        (["--public", "readme.txt"], "must end in .csv or .parquet, got readme.txt"),
        (["--epsilon", 0], "epsilon must be a finite number > 0, got 0.0"),
        (["--analysis", "luck"], "analysis must be one of 'best'"),
        (["--schedule", "zigzag"], "schedule must be one of dp"),
    ],
)
def test_errors_are_one_sentence(
    capsys: Any, here: Path, more: list[object], message: str
) -> None:
    Path("readme.txt").write_text("")
    done = fit(capsys, *more)
    assert done.code == 2
    assert message in done.err
    assert done.err.startswith("dpbraid: ")
    assert done.err.count("\n") == 1
    assert done.out == ""
    assert not Path("model.json").exists()


def test_no_public_table_and_no_rules(capsys: Any, here: Path) -> None:
    words = ("private.csv", "--task", "mean", *TARGET, "-o", "model.json")
    done = dpbraid(capsys, "fit", *words)
    assert done.code == 2
    assert "must not be learned from private rows" in done.err


def test_a_private_table_without_a_column(capsys: Any, here: Path) -> None:
    Path("private.csv").write_text("age,city\nSECRET,SECRET\n")
    done = fit(capsys)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "dpbraid: private.csv has no column 'member', which is needed; its columns are "
        "'age', 'city'\n"
    )
    Path("private.csv").write_bytes(b",".join(HEAD) + b"\nSECRET\n")
    done = fit(capsys)
    assert done.code == 2
    assert "every record must have 5 cells" in done.err
    assert "SECRET" not in done.err


def test_the_text_of_an_unforeseen_error_is_withheld(
    capsys: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        warnings.warn("SECRET", stacklevel=1)
        raise KeyError("SECRET")

    monkeypatch.setattr(ENGINE, "run", fails)
    done = fit(capsys)
    assert done.code == 2
    assert "an error that nobody foresaw (KeyError)" in done.err
    assert "SECRET" not in done.err + done.out


def test_a_model_from_arrays_has_no_columns(capsys: Any, here: Path) -> None:
    fit(capsys)
    model = json.loads(Path("model.json").read_text())
    model["table"] = None
    Path("model.json").write_text(json.dumps(model))
    done = dpbraid(capsys, "predict", "model.json", "public.csv")
    assert done.code == 2
    assert "has no column rules" in done.err
    assert dpbraid(capsys, "explain", "model.json").code == 0
