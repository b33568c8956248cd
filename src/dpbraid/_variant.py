"""Frozen families of named variants (losses, penalties, orders, start points).

A family is an abstract base class; each variant is a frozen dataclass below it with a
`kind` that names it in files. The family keeps the register of its kinds, so adding a
variant is adding one class, and JSON goes both ways without a table to maintain.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

from dpbraid._validate import InvalidParameterError, shown


class Variant:
    """Base of every family. A direct subclass is a family, its subclasses variants."""

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Variant in cls.__bases__:
            cls._kinds = {}
        elif "kind" in cls.__dict__:
            cls._kinds[cls.kind] = cls

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """The names of all variants of this family."""
        return tuple(cls._kinds)

    @classmethod
    def of_kind(cls, kind: str) -> type[Self]:
        """The variant of that name."""
        variant = cls._kinds.get(kind)
        if variant is None:
            raise InvalidParameterError(
                f"{cls.__name__.lower()} kind must be one of {', '.join(cls._kinds)}, "
                f"got {shown(kind)}"
            )
        return variant

    def to_json(self) -> dict[str, Any]:
        """The variant as a JSON object: its kind and its fields."""
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {"kind": self.kind, **{f.name: getattr(self, f.name) for f in fields}}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """The variant that `to_json` wrote; unknown kinds and fields are errors."""
        family = cls.__name__.lower()
        if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
            raise InvalidParameterError(
                f"{family} must be an object with a 'kind', got {shown(data)}"
            )
        variant: Any = cls.of_kind(data["kind"])
        names = {f.name for f in dataclasses.fields(variant)}
        given = set(data) - {"kind"}
        if given != names:
            raise InvalidParameterError(
                f"{family} {data['kind']!r} takes exactly the fields "
                f"{sorted(names)}, got {sorted(given)}"
            )
        built: Self = variant(**{name: data[name] for name in names})
        return built
