"""A model as a page for a reviewer: what it promises, what it reads, what it gives."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from dpbraid.estimators.column_rules import Boolean, Category, ColumnRule, Number
from dpbraid.estimators.files import from_json
from dpbraid.estimators.from_files import rules_of
from dpbraid.estimators.table_rules import TableRules
from dpbraid.privacy.certificate import Certificate, Section, page


def explained(data: Any, *, html: bool = False) -> str:
    """The page of a model's JSON object, or of a certificate's, as text or as HTML."""
    if isinstance(data, dict) and "certificate" in data:
        model = from_json(data)
        rules = rules_of(model, data["table"])
        title = f"PRIVACY CERTIFICATE of a {type(model).__name__}"
        sections = model.certificate_.sections() + _model(model, rules)
    else:
        title = "PRIVACY CERTIFICATE"
        sections = Certificate.from_json(data).sections()
    return _html(title, sections) if html else page(title, sections)


def _model(model: Any, rules: TableRules | None) -> list[Section]:
    columns = ["Arrays of numbers; the file has no rules for the columns of a table."]
    if rules is not None:
        columns = [_words(rule) for rule in rules.columns]
        if rules.target is not None:
            columns.append(f"Predicted: {rules.target.name}.")
    return [("8. The columns", columns), ("9. The release", _released(model, rules))]


def _words(rule: ColumnRule) -> str:
    if isinstance(rule, Number):
        return (
            f"{rule.name}: a number, as (x - {rule.center:g}) / {rule.scale:g}; "
            f"anything else counts as {rule.missing:g}."
        )
    if isinstance(rule, Category):
        return (
            f"{rule.name}: one of {', '.join(rule.categories)}; anything else counts "
            "as none of them."
        )
    assert isinstance(rule, Boolean)
    missing = "true" if rule.missing else "false"
    return f"{rule.name}: true or false; anything else counts as {missing}."


def _released(model: Any, rules: TableRules | None) -> list[str]:
    """Each released number, by its feature's name; a mean in its column's units."""
    names = [] if rules is None else list(rules.features)
    if hasattr(model, "mean_"):
        values = model.mean_ if rules is None else rules.in_units(model.mean_)
        return list(_named("mean", names, values))
    coef = np.atleast_2d(model.coef_)
    intercepts = np.atleast_1d(model.intercept_)
    heads = ["coefficient"]
    if hasattr(model, "classes_"):
        positive = model.classes_[1:] if len(coef) == 1 else model.classes_
        heads = [f"coefficient for {name}" for name in positive]
    points: list[str] = []
    for head, row, intercept in zip(heads, coef, intercepts, strict=True):
        points += _named(head, names, row)
        points.append(f"{head}, intercept: {intercept:+.6g}")
    return points


def _named(head: str, names: list[str], values: Iterable[float]) -> Iterable[str]:
    for number, value in enumerate(values):
        name = names[number] if names else f"feature {number + 1}"
        yield f"{head}, {name}: {value:+.6g}"


def _html(title: str, sections: list[Section]) -> str:
    """One page without scripts, styles from elsewhere, or anything else to load."""
    body = []
    for heading, points in sections:
        body.append(f"<h2>{escape(heading)}</h2>\n<ul>")
        body += [f"<li>{escape(point)}</li>" for point in points]
        body.append("</ul>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


_STYLE = (
    "body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; "
    "padding: 0 1em; overflow-wrap: anywhere } h2 { font-size: 1.1em }"
)
