"""calibrate, account, compare and verify on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dpbraid as db
from dpbraid.cli.words import variant
from dpbraid.losses import Loss
from dpbraid.numeric import numeric_model
from dpbraid.orders import Order
from dpbraid.penalties import Penalty
from dpbraid.privacy import calibrate
from dpbraid.privacy.certificate import certify
from dpbraid.release import NoiseSource
from tests.cli.run import dpbraid

WORDS = (
    "--schedule interleaved --n 1000 --private-steps 500 --epochs 50 --clip-norm 10 "
    "--order reshuffle --loss logistic --row-norm 1 --learning-rate 0.1 "
    "--penalty lasso:0.1"
).split()
TARGET = "--epsilon 1 --delta 1e-6".split()
DP = (
    "--schedule dp --n 1000 --epochs 50 --clip-norm 10 --row-norm 1 "
    "--learning-rate 0.1".split()
)


def found(capsys: Any, *args: str) -> dict[str, Any]:
    done = dpbraid(capsys, *args, "--json")
    assert done.code == 0, done.err
    result: dict[str, Any] = json.loads(done.out)
    return result


@pytest.mark.parametrize(
    ("analysis", "noise_std", "digits"),
    [
        ("paper", 756.60, 0.005),
        ("composition", 597.46, 0.005),
        ("hidden_state", 86.539, 0.0005),
        ("secret_order", 52.9, 0.05),
    ],
)
def test_noise_of_dp(
    capsys: Any, analysis: str, noise_std: float, digits: float
) -> None:
    result = found(capsys, "calibrate", *DP, *TARGET, "--analysis", analysis)
    assert result["noise_std"] == pytest.approx(noise_std, abs=digits)
    assert result["analysis"] == analysis
    assert (result["epsilon"], result["delta"]) == (1, 1e-6)
    assert {"name", "statement", "evidence"} == set(result["assumptions"][0])


def test_epoch_end_of_dp(capsys: Any) -> None:
    words = (*DP, *TARGET, "--placement", "epoch_end", "--analysis", "epoch_end")
    result = found(capsys, "calibrate", *words)
    assert result["released_std_over_learning_rate"] == pytest.approx(
        4224.68, abs=0.005
    )
    assert result["mu"] == pytest.approx(0.236704380663435709)


def test_account_undoes_calibrate(capsys: Any, tmp_path: Path) -> None:
    out = tmp_path / "mechanism.json"
    hidden = ("--analysis", "hidden_state")
    done = dpbraid(capsys, "calibrate", *WORDS, *TARGET, *hidden, "--out", out)
    assert done.code == 0
    assert "hidden_state" in done.out
    file = ("--mechanism", str(out))
    result = found(capsys, "account", *file, "--delta", "1e-6", *hidden)
    assert result["epsilon"] == pytest.approx(1, rel=1e-9)
    assert result["noise_std"] == pytest.approx(19.08, abs=0.005)
    again = found(capsys, "account", *file, "--epsilon", "1", *hidden)
    assert again["delta"] == pytest.approx(1e-6, rel=1e-6)
    assert db.Mechanism.from_json(again["mechanism"]) == db.Mechanism.loads(
        out.read_text()
    )
    other = dpbraid(capsys, "account", *file, "--delta", "1e-6", "--row-norm", "9")
    assert other.code == 2
    assert "--row-norm does not go with --mechanism" in other.err


def test_no_noise_is_no_guarantee_and_no_crash(capsys: Any) -> None:
    words = ("account", *DP, "--noise-std", "0", "--delta", "1e-6")
    result = found(capsys, *words)
    assert (result["epsilon"], result["mu"], result["noise_std"]) == (None, None, 0)
    assert dpbraid(capsys, *words).code == 0
    assert found(capsys, *words[:-2], "--epsilon", "1")["delta"] == 1


def test_best_says_why_the_others_lost(capsys: Any) -> None:
    result = found(capsys, "calibrate", *WORDS, *TARGET)
    assert result["analysis"] == "secret_order"
    reasons = {c["analysis"]: c["reason"] for c in result["considered"]}
    assert "not better" in reasons["hidden_state"]
    assert "not valid" in reasons["epoch_end"]


def test_a_known_order_refuses_the_secret(capsys: Any) -> None:
    secret = ("--analysis", "secret_order", "--order-known")
    done = dpbraid(capsys, "calibrate", *WORDS, *TARGET, *secret)
    assert done.code == 2
    assert done.err.startswith("dpbraid: ")
    assert "secret" in done.err
    assert "'hidden_state'" in done.err


def test_a_large_rate_names_number_limit_and_what_still_holds(capsys: Any) -> None:
    words = [*DP]
    words[words.index("--learning-rate") + 1] = "8.5"
    done = dpbraid(capsys, "calibrate", *words, *TARGET, "--analysis", "hidden_state")
    assert done.code == 2
    for part in ("8.5", "2/L = 8 ", "epoch 1", "'composition'"):
        assert part in done.err, done.err


def test_the_default_rate_is_one_over_the_smoothness(capsys: Any) -> None:
    words = [*DP]
    i = words.index("--learning-rate")
    del words[i : i + 2]
    result = found(capsys, "calibrate", *words, *TARGET)
    assert result["mechanism"]["epochs"][0]["learning_rate"] == 4.0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--n", "10"], "--n and --epochs are needed, or --mechanism with a file"),
        (
            ["--schedule", "zigzag", "--n", "3", "--epochs", "2"],
            "--schedule must be one of dp, interleaved, priv_pub, pub_priv, "
            "alternating, got 'zigzag'",
        ),
        (
            ["--n", "3", "--epochs", "2"],
            "--learning-rate is needed where no --row-norm gives the smoothness L",
        ),
        (
            ["--schedule", "interleaved", "--n", "3", "--epochs", "2"],
            "interleaved takes one of --private-steps and --private-fraction",
        ),
        (
            [
                "--schedule",
                "priv_pub",
                "--n",
                "3",
                "--epochs",
                "2",
                "--private-steps",
                1,
            ],
            "--private-steps does not go with priv_pub",
        ),
        (
            ["--n", "3", "--epochs", "2", "--private-steps", "2"],
            "dp uses all n=3 private rows in every epoch: leave out --private-steps "
            "and --private-fraction, or take interleaved",
        ),
        (
            ["--n", "3", "--epochs", "2", "--learning-rate", "1", "--loss", "cubed"],
            "loss kind must be one of mean, squared, logistic, huber, smoothed_hinge, "
            "got 'cubed'",
        ),
        (
            ["--n", "3", "--epochs", "2", "--learning-rate", 1, "--penalty", "lasso"],
            "penalty must read lasso:WEIGHT, got 'lasso'",
        ),
        (
            ["--n", "3", "--epochs", "2", "--learning-rate", 1, "--penalty", "box:0,x"],
            "a number was expected, got 'x'",
        ),
        (
            ["--mechanism", "nowhere.json"],
            "[Errno 2] No such file or directory: 'nowhere.json'",
        ),
    ],
)
def test_bad_words_are_one_sentence(
    capsys: Any, args: list[object], message: str
) -> None:
    done = dpbraid(capsys, "calibrate", *args, *TARGET)
    assert (done.code, done.err) == (2, f"dpbraid: {message}\n")


def test_variants_in_words() -> None:
    assert variant(Loss, "huber:0.5") == db.Huber(0.5)
    assert variant(Loss, "huber") == db.Huber()
    assert variant(Penalty, "elastic_net:0.1,2") == db.ElasticNet(0.1, 2)
    assert variant(Penalty, "box:-1,1") == db.Box(-1, 1)
    assert variant(Penalty, "none") == db.NoPenalty()
    assert variant(Order, "shuffle_buffer:7") == db.ShuffleBuffer(7)
    assert variant(Order, "shuffle_once") == db.ShuffleOnce()


def test_compare_prints_and_draws(capsys: Any, tmp_path: Path) -> None:
    out = tmp_path / "compare.png"
    words = "--n 40 --epochs 4 --private-steps 10 --clip-norm 1 --epsilon 1".split()
    done = dpbraid(capsys, "compare", *words, "--no-poisson", "--out", out)
    assert done.code == 0
    assert "Interleaved, n_d = 10" in done.out
    assert "bolt-on output perturbation" in done.out
    assert out.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("count", [0, 21])
def test_compare_refuses_a_count_out_of_range(capsys: Any, count: int) -> None:
    done = dpbraid(capsys, "compare", "--n", 20, "--private-steps", count)
    message = f"dpbraid: private_rows must be an integer in [1, 20], got {count}\n"
    assert (done.code, done.err) == (2, message)


def test_compare_gives_the_table_of_section_9(capsys: Any) -> None:
    """PRIVACY.md 9, at its printed digits."""
    result = found(capsys, "compare", "--no-poisson")
    rows = {(r["schedule"], r["method"]): r for r in result["rows"]}
    half, priv = "Interleaved, n_d = 500", "Priv-Pub or Pub-Priv, 25 private epochs"
    for key, noise, released in (
        (("DP", "paper"), (756.6, 161.1, 85.97), (169180, 36021, 19224)),
        (("DP", "composition"), (597.5, 138.6, 76.52), (133600, 30992, 17111)),
        (("DP", "hidden state"), (86.54, 20.08, 11.08), (19351, 4489, 2478.4)),
        (("DP", "secret order, fresh"), (52.86, 14.13, 8.319), (11821, 3160.3, 1860.1)),
        (("DP", "epoch end"), (597.5, 138.6, 76.52), (4224.7, 980.05, 541.09)),
        ((half, "paper"), (33.8, 7.197, 3.841), (7558.5, 1609.3, 858.85)),
        ((half, "composition"), (26.69, 6.192, 3.419), (5968.6, 1384.6, 764.45)),
        ((half, "hidden state"), (19.08, 4.426, 2.444), (4266.5, 989.76, 546.45)),
        ((half, "secret order, once"), (12.7, 3.83, 2.247), (2838.9, 856.33, 502.51)),
        ((priv, "paper"), (535, 113.9, 60.79), (84591, 18011, 9611.8)),
        ((priv, "hidden state"), (85.5, 19.83, 10.95), (13519, 3136.2, 1731.5)),
        ((priv, "epoch end"), (422.5, 98, 54.11), (2112.3, 490.02, 270.54)),
    ):
        assert rows[key]["noise_std"] == pytest.approx(noise, rel=5e-4), key
        assert rows[key]["released_std"] == pytest.approx(released, rel=5e-4), key


def test_verify_says_yes_or_no(capsys: Any, tmp_path: Path) -> None:
    mechanism = calibrate(
        db.dp(
            50,
            5,
            loss=db.Logistic(),
            learning_rate=0.1,
            row_norm=1,
            clip_norm=1,
            placement="epoch_end",
        ),
        epsilon=1,
        delta=1e-6,
    )
    certificate = certify(
        mechanism,
        delta=1e-6,
        noise_source=NoiseSource.OS_ENTROPY,
        numeric=numeric_model(mechanism, 3),
    )
    file = tmp_path / "certificate.json"
    file.write_text(certificate.dumps())
    done = dpbraid(capsys, "verify", file)
    assert done.code == 0
    assert "The certificate holds." in done.out
    data = certificate.to_json()
    data["guarantee"]["epsilon"] /= 2
    file.write_text(json.dumps(data))
    done = dpbraid(capsys, "verify", file, "--json")
    assert done.code == 1
    result = json.loads(done.out)
    assert not result["valid"]
    assert [c["field"] for c in result["checks"] if not c["holds"]] == ["epsilon"]
    file.write_bytes(b"\xff\xfe")
    done = dpbraid(capsys, "verify", file)
    assert (done.code, done.err) == (2, f"dpbraid: {file} is not a text file\n")
