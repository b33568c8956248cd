"""`dpbraid paper` and `dpbraid data`, from words to files."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from dpbraid.paper import panels, tasks
from tests.cli.run import dpbraid

SMALL = (
    *("paper", "--panel", "fig2-crime-eps1", "--runs", 2, "--grid", "1e-6,1e-7"),
    *("--jobs", 1, "--out"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli") / "study"


@pytest.fixture
def ran(capsys, folder):
    done = dpbraid(capsys, *SMALL, folder)
    assert done.code == 0, done.err
    return done


def runs(folder: Path) -> int:
    file = sqlite3.connect(folder / "store.sqlite")
    (count,) = file.execute("SELECT count(*) FROM run").fetchone()
    file.close()
    return int(count)


def test_a_panel_from_words_to_files(folder, ran):
    names = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert names == {
        "study.json",
        "store.sqlite",
        "report.html",
        "figures/fig2-crime-eps1.png",
        "figures/fig2-crime-eps1.svg",
    }
    assert runs(folder) == 5 * 2 * 2  # algorithms, rates, runs
    # the noise of the lemma and the guarantee of the accountant
    for noise in ("84.5906", "534.998", "756.601"):
        assert noise in ran.out
    assert ran.out.count("(1, 1e-06)") == 4


def test_the_same_command_works_once(capsys, folder, ran):
    before = (folder / "store.sqlite").read_bytes()
    again = dpbraid(capsys, *SMALL, folder)
    assert again.code == 0
    assert "0 runs to do: all of them are in the store" in again.out
    assert (folder / "store.sqlite").read_bytes() == before


def test_figures_and_report_come_from_the_store(capsys, folder, ran):
    kept = {}
    for name in ("report.html", "figures/fig2-crime-eps1.png"):
        kept[name] = (folder / name).read_bytes()
        (folder / name).unlink()
    assert dpbraid(capsys, "paper", "figures", "--out", folder).code == 0
    assert dpbraid(capsys, "paper", "report", "--out", folder).code == 0
    for name, content in kept.items():
        assert (folder / name).read_bytes() == content


def test_fresh_starts_over(capsys, folder, ran):
    more = dpbraid(capsys, *SMALL, folder, "--panel", "fig2-crime-eps5")
    assert more.code == 0
    assert runs(folder) == 36  # Public Only's four runs are in both panels
    assert dpbraid(capsys, *SMALL, folder, "--fresh").code == 0
    assert runs(folder) == 20


def test_options_reach_the_runs(capsys, tmp_path):
    done = dpbraid(
        capsys,
        *("paper", "run", "--panel", "so-creditcard-eps5", "--epsilon", 2),
        *("--runs", 1, "--grid", "1e-6", "--lasso", 0.001, "--extra", "dp_gd"),
        *("--analysis", "best", "--placement", "epoch_end", "--seed", 4),
        *("--set", "creditcard.order=file", "--precision", "float64"),
        *("--out", tmp_path),
    )
    assert done.code == 0, done.err
    file = sqlite3.connect(tmp_path / "store.sqlite")
    found = [
        json.loads(text) for (text,) in file.execute("SELECT json FROM configuration")
    ]
    file.close()
    assert len(found) == 6
    for configuration in found:
        assert configuration["task"]["lasso"] == 0.001
        assert configuration["task"]["order"] == "file"
        assert configuration["seed"] == 4
        assert configuration["precision"] == "float64"
        assert configuration["mechanism"]["order"]["kind"] == "shuffle_once"
    assert "so-creditcard-eps2" in done.out
    assert "(2, 1e-06)" in done.out


def test_the_second_report(capsys, tmp_path):
    done = dpbraid(capsys, *SMALL, tmp_path, "--beside")
    assert done.code == 0, done.err
    assert (tmp_path / "beside.html").exists()
    assert (tmp_path / "figures" / "fig2-crime-eps1-beside.svg").exists()


def test_doubled_noise(capsys, tmp_path):
    done = dpbraid(capsys, *SMALL, tmp_path, "--analysis", "paper-code")
    assert done.code == 0, done.err
    assert "1513.2" in done.out  # twice 756.601


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--panel", "fig9"), "panel must be all, one of fig2, ig, so, p25, p75,"),
        (("--grid", "fast"), "grid must be numbers with commas between them"),
        (("--runs", 0), "runs must be an integer >= 1, got 0"),
        (("--jobs", 0), "jobs must be an integer >= 1, got 0"),
        (("--extra", "adam"), "extra must be one of 'interleaved'"),
        (("--set", "crime.x=1"), "crime has the options"),
        (("--placement", "never"), "placement must be one of"),
        (("--precision", "float16"), "precision must be one of"),
        (("--analysis", "guess"), "analysis must be one of"),
        (("--data-dir", "nowhere"), "nowhere"),
    ],
)
def test_wrong_words_are_one_sentence_and_make_nothing(
    capsys, tmp_path, words, sentence
):
    out = tmp_path / "new"
    done = dpbraid(capsys, "paper", "--panel", "fig2-crime", *words, "--out", out)
    assert done.code == 2
    assert done.err.startswith("dpbraid: ")
    assert done.err.count("\n") == 1
    assert sentence in done.err
    assert not out.exists()


def test_a_foreign_store_is_left_alone(capsys, tmp_path):
    (tmp_path / "store.sqlite").write_text("my notes")
    for more in ((), ("--fresh",)):
        done = dpbraid(capsys, *SMALL, tmp_path, *more)
        assert done.code == 2
        assert "no result store or is damaged" in done.err
        assert [p.name for p in tmp_path.iterdir()] == ["store.sqlite"]
        assert (tmp_path / "store.sqlite").read_text() == "my notes"


def test_reports_of_an_empty_folder(capsys, tmp_path):
    done = dpbraid(capsys, "paper", "report", "--out", tmp_path)
    assert done.code == 2
    assert "run `dpbraid paper --out" in done.err


def test_the_list_of_panels(capsys):
    done = dpbraid(capsys, "paper", "list")
    assert done.code == 0
    for name in panels.PANELS:
        assert name in done.out


# -- data ----------------------------------------------------------------------------


def test_data_list(capsys):
    done = dpbraid(capsys, "data", "list")
    assert done.code == 0
    for name in tasks.names():
        assert name in done.out
    assert "3072" in done.out


def test_data_show_gives_every_choice_with_its_reason(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for name in tasks.names():
        done = dpbraid(capsys, "data", "show", name)
        assert done.code == 0
        for option in tasks.source(name).options.describe():
            assert option.name in done.out
            assert option.why[:60] in done.out


def test_data_show_takes_options(capsys):
    done = dpbraid(capsys, "data", "show", "compas", "--set", "lasso=0.001")
    assert done.code == 0
    assert "Lasso(weight=0.001)" in done.out
    done = dpbraid(capsys, "data", "show", "compas", "--set", "lasso")
    assert done.code == 2
    assert "set must read OPTION=VALUE" in done.err


def test_data_build_takes_one_source(capsys, tmp_path):
    for words in ((), ("--openml", "--data-dir", tmp_path)):
        done = dpbraid(capsys, "data", "build", *words)
        assert done.code == 2
        assert "build takes one of --data-dir and --openml" in done.err


def test_data_build_from_the_originals(capsys, tmp_path, originals):
    done = dpbraid(
        capsys,
        *("data", "build", "--data-dir", originals, "--task", "crime"),
        *("--task", "compas", "--out", tmp_path),
    )
    assert done.code == 0, done.err
    assert done.out.count("as embedded") == 2
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"crime.npz", "compas.npz", "checksums.json"}
