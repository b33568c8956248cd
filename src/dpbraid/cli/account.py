"""`dpbraid account`: the guarantee of a mechanism with its noise."""

from __future__ import annotations

from typing import Annotated

import typer

from dpbraid.cli import guarantee
from dpbraid.cli.words import Words


def command(
    words: Words,
    noise_std: Annotated[
        float | None,
        typer.Option(
            help="Noise std on the (mean) gradient; with --mechanism its own."
        ),
    ] = None,
    delta: Annotated[float | None, typer.Option(help="Print epsilon at delta.")] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Print delta at epsilon, instead of --delta.")
    ] = None,
    analysis: guarantee.Analysis = "best",
    json: guarantee.Json = False,
) -> None:
    """The privacy of a mechanism, with the theorem and every assumption."""
    from dpbraid.privacy import account

    if (delta is None) == (epsilon is None):
        raise guarantee.InvalidParameterError("give one of --delta and --epsilon")
    if words.mechanism is None and noise_std is None:
        raise guarantee.InvalidParameterError("--noise-std is needed")
    if words.mechanism is not None and noise_std is not None:
        raise guarantee.InvalidParameterError(
            "--noise-std does not go with --mechanism, which has its own"
        )
    mechanism = words.build(1.0 if noise_std is None else noise_std)
    profile = account(mechanism, analysis)
    if epsilon is None:
        assert delta is not None
        epsilon = profile.epsilon(delta)
    else:
        delta = profile.delta(epsilon)
    guarantee.show(mechanism, profile, epsilon, delta, json)
