"""Conversions of dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def convert_easy_dict_to_dict(easy_dict: Mapping[str, Any]) -> dict[str, Any]:
    """A plain dict, with every ``EasyDict`` inside (also inside lists and tuples) made a plain dict too."""

    def convert(value: object) -> Any:
        if isinstance(value, Mapping):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            return type(value)(convert(item) for item in value)
        return value

    return convert(easy_dict)
