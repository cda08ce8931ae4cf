"""Reads the YAML of the kubeconfigs that Pintle writes: block mappings, lists and strings. A YAML library is not needed."""

import json
from typing import Any

#: The indentation and the text of a line.
_Row = tuple[int, str]


def parse(text: str) -> dict[str, Any]:
    """Returns a kubeconfig that Pintle wrote as a dictionary."""
    rows = [(len(line) - len(line.lstrip(" ")), line.strip()) for line in text.splitlines() if line.strip()]
    return _mapping(rows)


def _mapping(rows: list[_Row]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    while rows:
        (indentation, text), rows = rows[0], rows[1:]
        key, _, value = text.partition(":")
        # A list has the indentation of its key.
        is_nested = [deeper > indentation or item.startswith("- ") for deeper, item in rows]
        end = is_nested.index(False) if False in is_nested else len(rows)
        result[key] = _scalar(value.strip()) if value else _nested(rows[:end])
        rows = rows[end:]
    return result


def _nested(rows: list[_Row]) -> Any:
    if not rows or not rows[0][1].startswith("- "):
        return _mapping(rows)
    starts = [i for i, (_, text) in enumerate(rows) if text.startswith("- ")]
    items = []
    for start, end in zip(starts, [*starts[1:], len(rows)]):
        indentation, text = rows[start]
        items.append(_mapping([(indentation + 2, text[2:]), *rows[start + 1 : end]]))
    return items


def _scalar(text: str) -> str:
    # Strings that YAML would read as something else are in double quotes, as in JSON.
    return str(json.loads(text)) if text.startswith('"') else text
