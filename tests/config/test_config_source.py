"""The serialiser: what is written reads back equal, value by value and type by type."""

import collections
import functools
import inspect
import math
import pathlib
import signal

import numpy as np
import pytest
from easydict import EasyDict
from hypothesis import given
from hypothesis import strategies as st

from ding.config import ConfigNotSerializableError, ConfigValueError, read_config, read_config_directly, save_config
from ding.config.source import config_to_source

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=8)
    | st.complex_numbers(allow_nan=False)
)
KEYS = st.text(alphabet="abcdefgh_", min_size=1, max_size=6).filter(lambda k: not k.startswith("__"))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
        | st.frozensets(st.integers(), max_size=3)
        | st.sets(st.text(max_size=3), max_size=3)
    ),
    max_leaves=12,
)


def same(a, b):
    """Equal in value and in type, at every depth (a dict and an EasyDict are one type here)."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a == b)


def written_and_read(value, tmp_path):
    path = tmp_path / "config.py"
    save_config(EasyDict(exp_name="x", value=value), path, create_cfg={})
    return read_config(path)[0].value


@given(value=st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_plain_data_survives(value, tmp_path_factory):
    expected = EasyDict(value=value).value
    assert same(written_and_read(value, tmp_path_factory.mktemp("config")), expected)


@pytest.mark.parametrize("where", ["last", "first", "list", "tuple", "alone"])
def test_infinity_survives_wherever_it_stands(where, tmp_path):
    inf = float("inf")
    value = {"last": {"a": 1, "b": inf}, "first": {"a": -inf, "b": 1}, "list": [1, inf], "tuple": (inf,), "alone": inf}
    assert same(written_and_read(value[where], tmp_path), value[where])


def test_nan_survives(tmp_path):
    assert math.isnan(written_and_read(float("nan"), tmp_path))


def test_numpy_scalars_become_python_scalars(tmp_path):
    value = {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.float64(1e-3)}
    assert same(written_and_read(value, tmp_path), {"a": 0.5, "b": 3, "c": True, "d": 1e-3})


@pytest.mark.parametrize("array", [np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 4)), np.array([np.inf, 1])])
def test_arrays_keep_shape_and_dtype(array, tmp_path):
    back = written_and_read(array, tmp_path)
    assert back.dtype == array.dtype
    np.testing.assert_array_equal(back, array, strict=True)


def test_importable_callables_and_objects_survive(tmp_path):
    value = {
        "function": math.hypot,
        "class": collections.OrderedDict,
        "builtin": max,
        "method": pathlib.Path.home,
        "partial": functools.partial(math.pow, 2.0),
        "path": pathlib.Path("a/b"),
        "enum": signal.Signals.SIGINT,
        "named": inspect.FullArgSpec([1], None, (2,), None, [], None, {}),
    }
    back = written_and_read(value, tmp_path)
    assert back.function is math.hypot
    assert back["class"] is collections.OrderedDict
    assert back.builtin is max
    assert back.method == pathlib.Path.home
    assert back.partial(3.0) == 8.0
    assert back.path == pathlib.Path("a/b")
    assert back["enum"] is signal.Signals.SIGINT
    assert same(back.named, value["named"])
    assert type(back.named) is inspect.FullArgSpec


def test_a_lambda_is_refused_with_its_key(tmp_path):
    path = tmp_path / "config.py"
    with pytest.raises(ConfigNotSerializableError, match=r"main_config\.env\.env_wrapper\[0\]: cannot be saved"):
        save_config({"env": {"env_wrapper": [lambda env: env]}}, path)
    assert not path.exists()


def test_what_was_not_saved_asks_for_itself_when_it_is_read(tmp_path):
    path = tmp_path / "config.py"
    save_config({"env": {"wrapper": lambda env: env}}, path, strict=False)
    with pytest.raises(ConfigValueError, match=r"main_config\.env\.wrapper: the value was not saved"):
        read_config_directly(path)


def test_a_subclass_of_list_is_refused():
    class MyList(list):
        pass

    with pytest.raises(ConfigNotSerializableError, match="read back as another type"):
        config_to_source({"a": MyList()}, {})


def test_lines_stay_readable():
    text = config_to_source({"a": {"b": [1, 2], "c": {}}}, {"policy": {"type": "dqn_command"}})
    assert (
        text.split("exp_config = ")[1]
        == """{
    'a': {
        'b': [1, 2],
        'c': {},
    },
}

main_config = EasyDict(exp_config)
create_config = EasyDict({
    'policy': {
        'type': 'dqn',
    },
})
"""
    )
