from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from dpbraid import DpbraidError, InvalidParameterError
from dpbraid.mechanism import Placement
from dpbraid.paper import panels, results, study, sweep
from dpbraid.paper.options import CreditCardOptions
from dpbraid.paper.panels import PANELS, Algorithm
from dpbraid.paper.store import Configuration, Run, Store, StoreError
from dpbraid.paper.study import Folder, Study, StudyError
from dpbraid.paper.sweep import Settings


def test_words_choose_panels():
    assert study.choose(["all"]) == tuple(PANELS.values())
    assert len(study.choose(["fig2"])) == 10
    assert len(study.choose(["ig", "so"])) == 8
    assert len(study.choose(["p25", "p75"])) == 8
    assert len(study.choose(["epochs"])) == 4
    assert sum(len(study.choose([word])) for word in study.groups()) == 30
    names = [panel.id for panel in study.choose(["so-mnist69", "fig2-crime-eps1"])]
    assert names == ["so-mnist69-eps5", "so-mnist69-eps10", "fig2-crime-eps1"]
    # each once
    assert len(study.choose(["fig2-crime", "fig2"])) == 10


@pytest.mark.parametrize("word", ["fig", "fig3", "crime", "fig2-crime-eps", ""])
def test_other_words_are_errors(word):
    with pytest.raises(InvalidParameterError, match="panel must be all, one of fig2"):
        study.choose([word])


def test_panels_vary():
    chosen = study.choose(["fig2-crime"])
    varied = study.vary(
        chosen,
        runs=3,
        epsilons=[2.0, 0.5],
        learning_rates=[1e-5, 1e-6],
        extra=["dp_gd", "dp"],
    )
    # both panels of the paper become the same two
    assert [p.id for p in varied] == ["fig2-crime-eps2", "fig2-crime-eps0.5"]
    assert [p.epsilon for p in varied] == [2.0, 0.5]
    for panel in varied:
        assert panel.runs == 3
        assert panel.learning_rates == (1e-5, 1e-6)
        assert panel.algorithms == (*panels.PAPER, Algorithm.DP_GD)
    assert study.vary(chosen) == chosen


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"runs": 0}, "runs must be an integer >= 1"),
        ({"epsilons": [0.0]}, "epsilon must be a finite number > 0"),
        ({"learning_rates": [-1.0]}, "grid must be a finite number > 0"),
        ({"extra": ["adam"]}, "extra must be one of"),
    ],
)
def test_panels_do_not_vary_beyond_what_runs(change, words):
    with pytest.raises(InvalidParameterError, match=words):
        study.vary(study.choose(["fig2-crime"]), **change)


def test_options_of_the_tasks():
    chosen = study.choose(["fig2"])
    options = study.task_options(
        chosen, lasso=0.001, words=["crime.rotation=none", "creditcard.order_seed=3"]
    )
    by_name = {o.kind: o for o in options}
    assert list(by_name) == ["mnist69", "cifar10", "crime", "compas", "creditcard"]
    assert by_name["compas"].lasso == 0.001
    assert by_name["creditcard"] == CreditCardOptions(lasso=0.001, order_seed=3)
    assert by_name["crime"].rotation == "none"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lasso": 0.1}, "lasso goes with lasso tasks"),
        ({"words": ["rotation=none"]}, "set must read TASK.OPTION=VALUE"),
        ({"words": ["crime.rotation"]}, "set must read TASK.OPTION=VALUE"),
        ({"words": ["compas.lasso=1"]}, "set must name a task of the panels"),
        ({"words": ["crime.colour=red"]}, "crime has the options"),
    ],
)
def test_options_of_other_tasks_are_errors(change, words):
    with pytest.raises(InvalidParameterError, match=words):
        study.task_options(study.choose(["fig2-crime"]), **change)


@pytest.fixture
def asked():
    chosen = study.vary(study.choose(["so-creditcard", "epochs-crime"]), runs=2)
    return Study(
        chosen,
        study.task_options(chosen, lasso=0.001),
        Settings(analysis="best", placement="epoch_end", seed=3, precision="float64"),
        beside=True,
        data_dir="somewhere",
    )


def test_a_study_comes_back_as_it_was(asked, tmp_path):
    path = tmp_path / "study.json"
    asked.save(path)
    assert Study.load(path) == asked


def test_runs_are_found_again_by_the_noise_they_had(small, monkeypatch):
    """A later accountant may differ in the last digits, and be slow."""
    tasks = small.study.tasks()
    fixed = small.study.with_noise(tasks)
    fixed.save(small.folder.study)
    again = Study.load(small.folder.study)
    assert again == fixed
    monkeypatch.setattr(sweep, "_noise", lambda *_: pytest.fail("not again"))
    with Store(small.folder.store, again.version) as store:
        for which, before in enumerate((small.results, small.beside)):
            for ours, theirs in zip(
                results.read(again, tasks, store, which), before, strict=True
            ):
                assert [c.best.final for c in ours.curves] == [
                    c.best.final for c in theirs.curves
                ]


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda noise: noise.pop(), id="a settings too few"),
        pytest.param(lambda noise: noise[0].pop(), id="a panel too few"),
        pytest.param(lambda noise: noise[0][0].pop("dp"), id="an algorithm too few"),
        pytest.param(lambda noise: noise[0][0]["dp"].pop(), id="a rate too few"),
        pytest.param(lambda noise: noise[0][0].update(dp=[1, -1, 1]), id="negative"),
        pytest.param(lambda noise: noise[0][0].update(dp=["1", 1, 1]), id="a text"),
        pytest.param(lambda noise: noise[0][0].update(dp=3), id="no list"),
        pytest.param(lambda noise: noise.__setitem__(0, 3), id="no tables"),
    ],
)
def test_noise_of_another_study_is_one_sentence(small, tmp_path, spoil):
    path = tmp_path / "study.json"
    small.study.with_noise(small.study.tasks()).save(path)
    data = json.loads(path.read_text())
    spoil(data["noise"])
    path.write_text(json.dumps(data))
    with pytest.raises(DpbraidError, match=r"noise|is no study"):
        Study.load(path)


def test_rates_that_the_analysis_refuses_stay_out(small):
    tasks = small.study.tasks()
    only = replace(
        small.study, settings=Settings(analysis="epoch_end", placement="epoch_end")
    )
    fixed = only.with_noise(tasks)
    for panel, table in zip(fixed.panels, fixed.noise[0], strict=True):
        assert table["dp"][0] is None  # 1e-2 is above 2/L
        assert table["dp"][2] > 0
        rates = [c.learning_rate for c in fixed.cells(tasks, 0)[0]]
        assert panel.learning_rates[0] in rates  # of Public Only, which has no noise


def test_the_second_settings_differ_in_placement_and_analysis(asked):
    plain = replace(asked, settings=Settings(seed=3))
    first, second = plain.all_settings
    assert first == plain.settings
    assert second == Settings(analysis="best", placement=Placement.EPOCH_END, seed=3)
    assert replace(plain, beside=False).all_settings == (first,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not a JSON file"),
        ("{}", "is no study"),
        ("[]", "is no study"),
        ('{"format": 99}', "has the format 99"),
    ],
)
def test_what_is_no_study_is_one_sentence(tmp_path, text, words):
    path = tmp_path / "study.json"
    path.write_text(text)
    with pytest.raises(StudyError, match=words):
        Study.load(path)


def test_a_field_too_few(asked, tmp_path):
    path = tmp_path / "study.json"
    asked.save(path)
    data = json.loads(path.read_text())
    del data["panels"]
    path.write_text(json.dumps(data))
    with pytest.raises(StudyError, match="is no study: KeyError"):
        Study.load(path)


def test_no_study(tmp_path):
    with pytest.raises(StudyError, match="run `dpbraid paper --out"):
        Study.load(tmp_path / "study.json")


def test_a_fresh_start_removes_runs_and_nothing_else(tmp_path):
    folder = Folder(tmp_path)
    folder.clear()  # nothing is there
    configuration = Configuration.of({"a": 1}, guarantee_void=False)
    with Store(folder.store, "v1") as store, Store(folder.store, "v2") as other:
        other.write([Run(configuration, 0, "seed", 1.0, np.zeros(2))])
        folder.clear()  # while others have it open
        store.write([Run(configuration, 1, "seed", 1.0, np.zeros(2))])
        assert other.done() == set()
        assert store.done() == {(configuration.key, 1)}
    folder.store.unlink()
    folder.store.write_text("my notes")
    with pytest.raises(StoreError, match="no result store"):
        folder.clear()
    assert folder.store.read_text() == "my notes"
