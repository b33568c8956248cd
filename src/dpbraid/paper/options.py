"""What the paper leaves open about its data, as named options with a reason each.

One frozen class a task. The defaults are the choices behind the reference results of
an independent reproduction. Every field carries the sentence why; `describe` lists
them, so that a command line or a report has no second copy to keep.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from dpbraid import _validate
from dpbraid._validate import InvalidParameterError
from dpbraid._variant import Variant


def _why(reason: str) -> dict[str, str]:
    return {"why": reason}


@dataclass(frozen=True)
class OptionInfo:
    """One open choice: its name, its default, what else it can be, and why."""

    name: str
    default: Any
    allowed: str
    why: str


class RowBound(StrEnum):
    """Where the bound on the norm of the rows comes from."""

    DATA = "data"
    PUBLIC = "public"


class Half(StrEnum):
    """Which half of the complete Crime rows is private."""

    FIRST = "first"
    LAST = "last"


class CrimeColumns(StrEnum):
    """Which Crime columns are features."""

    ALL = "all"
    PREDICTIVE = "predictive"


class Rotation(StrEnum):
    """What is done to the public Crime rows."""

    LITERAL = "literal"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class TaskOptions(Variant, ABC):
    """The open choices of one task."""

    row_bound: RowBound = field(
        default=RowBound.DATA,
        metadata=_why(
            "data: the largest row of each table, known only by looking at private "
            "rows (research); public: the largest public row, private rows beyond it "
            "are scaled down to it (fit for a certificate)"
        ),
    )

    def __post_init__(self) -> None:
        for name, default in _defaults(self).items():
            given = {name: getattr(self, name)}
            if isinstance(default, StrEnum):
                object.__setattr__(self, name, _validate.choice(type(default), **given))
            elif isinstance(default, int):
                _validate.integer(0, **given)
            else:
                _validate.positive(**given)
        _validate.plain(self)

    @classmethod
    def describe(cls) -> tuple[OptionInfo, ...]:
        """Every option of the task with its default and its reason."""
        return tuple(
            OptionInfo(f.name, f.default, _allowed(f.default), f.metadata["why"])
            for f in dataclasses.fields(cls)
        )

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Self:
        """Options from ``name -> text``, as a command line has them."""
        defaults = _defaults(cls)
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in defaults:
                raise InvalidParameterError(
                    f"{cls.kind} has the options {', '.join(defaults)}, got {name!r}"
                )
            default = defaults[name]
            if isinstance(default, StrEnum):
                values[name] = text
                continue
            try:
                values[name] = type(default)(text)
            except ValueError:
                raise InvalidParameterError(
                    f"{name} must be {_allowed(default)}, got {text!r}"
                ) from None
        return cls(**values)


def _defaults(options: TaskOptions | type[TaskOptions]) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(options)}


def _allowed(default: Any) -> str:
    if isinstance(default, StrEnum):
        return ", ".join(member.value for member in type(default))
    return "an integer >= 0" if isinstance(default, int) else "a number > 0"


@dataclass(frozen=True, kw_only=True)
class CrimeOptions(TaskOptions):
    """Open choices of the Crime ridge task."""

    kind = "crime"

    private_half: Half = field(
        default=Half.FIRST,
        metadata=_why(
            "the paper says 'one half'; the first 159 of the 319 complete rows, in the "
            "order of the file, give the reference optimum"
        ),
    )
    columns: CrimeColumns = field(
        default=CrimeColumns.ALL,
        metadata=_why(
            "all: d = 124 as the paper says, which keeps the numbers of state and fold "
            "among the features; predictive: without these two, d = 122"
        ),
    )
    rotation: Rotation = field(
        default=Rotation.LITERAL,
        metadata=_why(
            "literal: public rows times I + N(0, 1), as printed, which is no rotation "
            "and not small; none: the public half as it is"
        ),
    )
    rotation_seed: int = field(
        default=0,
        metadata=_why(
            "the paper fixes no seed; one fixed draw of the matrix for all runs"
        ),
    )
    ridge: float = field(default=0.1, metadata=_why("lambda_r = 0.1 in the paper"))
