"""Conversions of dicts."""

from collections.abc import Mapping
from typing import Any

from ding.utils.default_helper import map_nested


def convert_easy_dict_to_dict(easy_dict: Mapping[str, Any]) -> dict[str, Any]:
    """A plain dict, with every ``EasyDict`` inside (also inside lists and tuples) made a plain dict too."""
    return map_nested(lambda value: value, easy_dict)
