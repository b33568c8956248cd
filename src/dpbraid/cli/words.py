"""A mechanism in words: the options that several commands share, and their meaning."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Option

from dpbraid import _json, _validate, mechanism
from dpbraid._validate import InvalidParameterError
from dpbraid._variant import Variant
from dpbraid.losses import Loss
from dpbraid.mechanism import Mechanism
from dpbraid.orders import Order, Reshuffle, ShuffleOnce
from dpbraid.penalties import Penalty

SCHEDULES = ("dp", "interleaved", "priv_pub", "pub_priv", "alternating")


@dataclass(frozen=True)
class Words:
    """The options that describe a mechanism on the command line."""

    mechanism: Annotated[
        Path | None, Option(help="A mechanism's JSON file, instead of the words below.")
    ] = None
    schedule: Annotated[str, Option(help=f"One of {', '.join(SCHEDULES)}.")] = "dp"
    n: Annotated[int | None, Option("--n", help="Private rows.")] = None
    epochs: Annotated[int | None, Option(help="Number of epochs K.")] = None
    private_steps: Annotated[
        int | None,
        Option(
            "--private-steps",
            "--private-rows",
            help="interleaved: private rows an epoch, n_d.",
        ),
    ] = None
    private_epochs: Annotated[
        int | None, Option(help="priv_pub, pub_priv, alternating: private epochs, S.")
    ] = None
    private_fraction: Annotated[
        float | None, Option(help="p = n_d/n or S/K, instead of the two above.")
    ] = None
    learning_rate: Annotated[
        float | None, Option(help="Learning rate; 1/L where it is left out.")
    ] = None
    clip_norm: Annotated[
        float | None, Option(help="Each gradient is scaled down to this norm.")
    ] = None
    batch_size: Annotated[int, Option(help="Rows a step.")] = 1
    order: Annotated[
        str, Option(help="incremental, shuffle_once, reshuffle, shuffle_buffer:SIZE.")
    ] = "reshuffle"
    order_known: Annotated[
        bool, Option("--order-known", help="Somebody may know the shuffled order.")
    ] = False
    placement: Annotated[str, Option(help="every_step or epoch_end.")] = "every_step"
    loss: Annotated[
        str, Option(help="mean, squared, logistic, huber:T, smoothed_hinge:W.")
    ] = "logistic"
    penalty: Annotated[
        str,
        Option(help="none, ridge:W, lasso:W, elastic_net:L1,L2, ball:R, box:LOW,HIGH."),
    ] = "none"
    row_norm: Annotated[
        float | None, Option(help="Public bound on the norm of private rows.")
    ] = None
    public_row_norm: Annotated[
        float | None, Option(help="The same for public rows; --row-norm if left out.")
    ] = None

    def build(self, noise_std: float = 1.0) -> Mechanism:
        """The mechanism; noise_std for every epoch with private rows."""
        if self.mechanism is not None:
            return self._in_file(self.mechanism)
        if self.n is None or self.epochs is None:
            raise InvalidParameterError(
                "--n and --epochs are needed, or --mechanism with a file"
            )
        _validate.integer(1, n=self.n, epochs=self.epochs)
        if self.schedule not in SCHEDULES:
            raise InvalidParameterError(
                f"--schedule must be one of {', '.join(SCHEDULES)}, "
                f"got {self.schedule!r}"
            )
        loss: Loss = variant(Loss, self.loss)
        built: Mechanism = getattr(mechanism, self.schedule)(
            self.n,
            self.epochs,
            **self._fraction(self.n, self.epochs),
            learning_rate=self._rate(loss),
            noise_std=noise_std,
            placement=self.placement,
            loss=loss,
            penalty=variant(Penalty, self.penalty),
            order=self._order(),
            clip_norm=self.clip_norm,
            batch_size=self.batch_size,
            row_norm=self.row_norm,
            public_row_norm=self.public_row_norm,
        )
        return built

    def row_bounds(self) -> tuple[float | None, float | None]:
        """The bounds on private and on public rows; a mechanism's file has its own."""
        if self.mechanism is not None:
            built = self._in_file(self.mechanism)
            return built.row_norm, built.public_bound
        return self.row_norm, self.public_row_norm or self.row_norm

    def _in_file(self, path: Path) -> Mechanism:
        for field in dataclasses.fields(self):
            if field.name != "mechanism" and getattr(self, field.name) != field.default:
                raise InvalidParameterError(
                    f"--{field.name.replace('_', '-')} does not go with --mechanism: "
                    "its file says all about the mechanism"
                )
        return Mechanism.from_json(_json.read(path))

    def _fraction(self, n: int, epochs: int) -> dict[str, float]:
        rows = ("private_steps", "--private-steps", self.private_steps, n)
        passes = ("private_epochs", "--private-epochs", self.private_epochs, epochs)
        (name, option, count, whole), (_, other, unused, _) = (
            (rows, passes) if self.schedule in ("dp", "interleaved") else (passes, rows)
        )
        if unused is not None:
            raise InvalidParameterError(f"{other} does not go with {self.schedule}")
        if count is not None:
            _validate.integer(0, whole, **{name: count})
        if self.schedule == "dp":
            if count not in (None, n) or self.private_fraction not in (None, 1):
                raise InvalidParameterError(
                    f"dp uses all n={n} private rows in every epoch: leave out "
                    f"{option} and --private-fraction, or take interleaved"
                )
            return {}
        if (count is None) == (self.private_fraction is None):
            raise InvalidParameterError(
                f"{self.schedule} takes one of {option} and --private-fraction"
            )
        if self.private_fraction is not None:
            return {"private_fraction": self.private_fraction}
        assert count is not None
        return {"private_fraction": count / whole}

    def _rate(self, loss: Loss) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        bounds = [b for b in (self.row_norm, self.public_row_norm) if b is not None]
        if self.row_norm is None:
            raise InvalidParameterError(
                "--learning-rate is needed where no --row-norm gives the smoothness L"
            )
        return 1 / loss.smoothness(max(bounds))

    def _order(self) -> Order:
        order: Order = variant(Order, self.order)
        if not self.order_known:
            return order
        if not isinstance(order, ShuffleOnce | Reshuffle):
            raise InvalidParameterError(
                "--order-known goes with shuffle_once and reshuffle, "
                f"got {self.order!r}"
            )
        return dataclasses.replace(order, secret=False)


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, for each parameter that is a dataclass, all of its options."""
    own = inspect.signature(command, eval_str=True).parameters
    groups = {n: p.annotation for n, p in own.items() if _is_group(p.annotation)}
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        if name not in groups:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        hints = get_type_hints(groups[name], include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=hints[field.name],
            )
            for field in dataclasses.fields(groups[name])
        ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        for name, group in groups.items():
            names = [field.name for field in dataclasses.fields(group)]
            values[name] = group(**{n: values.pop(n) for n in names})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    del wrapper.__wrapped__
    return wrapper


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def variant(family: type[Variant], word: str) -> Any:
    """A variant from ``kind`` or ``kind:number,number``, in the order of its fields."""
    kind, _, values = word.partition(":")
    chosen: Any = family.of_kind(kind)
    fields = [f for f in dataclasses.fields(chosen) if f.type in ("int", "float")]
    texts = values.split(",") if values else []
    needed = sum(f.default is dataclasses.MISSING for f in fields)
    if not needed <= len(texts) <= len(fields):
        form = ",".join(f.name.upper() for f in fields)
        raise InvalidParameterError(
            f"{family.__name__.lower()} must read {kind}{':' + form if form else ''}, "
            f"got {word!r}"
        )
    return chosen(**{f.name: _number(t) for f, t in zip(fields, texts, strict=False)})


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise InvalidParameterError(f"a number was expected, got {text!r}") from None
