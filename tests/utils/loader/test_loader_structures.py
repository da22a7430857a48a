"""Loaders of collections and mappings, dict_, and the errors that hold the errors of parts."""

import pickle

import pytest

from ding.utils.loader import (
    CollectionError,
    CompositeStructureError,
    DictError,
    MappingError,
    cofilter,
    collection,
    contains,
    dict_,
    interval,
    is_type,
    item,
    item_or,
    length,
    length_is,
    mapping,
    mpfilter,
    mpitems,
    mpkeys,
    mpvalues,
    plus,
    raw,
    to_type,
    tpselector,
    tuple_,
)


class Named(dict):
    """A dict of a type of its own."""


class OnlyKeys:
    """Has ``keys()`` and no ``[]``."""

    def keys(self):
        return []


def above_one(value: int) -> bool:
    return value > 1


@pytest.mark.parametrize(
    ("loader", "value", "expected"),
    [
        (collection(int), [], []),
        (collection(plus(1)), (1, 2), (2, 3)),
        (collection(plus(1)), {1, 2}, {2, 3}),
        (collection(plus(1), type_back=False), (1, 2), [2, 3]),
        (collection(int, False), range(3), [0, 1, 2]),
        (collection(1), [2, 3], [1, 1]),
        (tuple_(), (), ()),
        (tuple_(int, plus("x")), (1, "a"), (1, "ax")),
        (length(), [1], [1]),
        (length(1, 3), "abc", "abc"),
        (length(max_length=1), [1], [1]),
        (length_is(2), [1, 2], [1, 2]),
        (contains(1), [1, 2], [1, 2]),
        (contains("a"), {"a": 1}, {"a": 1}),
        (cofilter(above_one), (1, 2, 3), (2, 3)),
        (cofilter(above_one, type_back=False), {2}, [2]),
        (tpselector(2, 0, -1), (1, 2, 3), (3, 1, 3)),
        (tpselector(), (1, 2, 3), ()),
        (mapping(str, int), {}, {}),
        (mapping(plus("x"), plus(1)), {"a": 1}, {"ax": 2}),
        (mapping(str, int), Named(a=1), Named(a=1)),
        (mapping(str, int, type_back=False), Named(a=1), {"a": 1}),
        (mpfilter(lambda key, value: key + value > 3), {1: 2, 2: 2}, {2: 2}),
        (mpfilter(lambda key, value: True), Named(a=1), Named(a=1)),
        (mpfilter(lambda key, value: True, type_back=False), Named(a=1), {"a": 1}),
        (mpkeys(), {"a": 1, "b": 1}, {"a", "b"}),
        (mpvalues(), {"a": 1, "b": 1}, {1}),
        (mpitems(), {"a": 1, "b": 1}, {("a", 1), ("b", 1)}),
        (item("a"), {"a": 1}, 1),
        (item_or("a", 5), {"a": 1}, 1),
        (item_or("a", 5), {"b": 1}, 5),
        (item_or("a", int), {"b": 1}, int),
        (item_or(0, 5), [1], 5),
        (dict_(), 3, {}),
        (dict_(text=to_type(str), more=plus(1), five=5), 3, {"text": "3", "more": 4, "five": 5}),
    ],
)
def test_a_value_passes(loader, value, expected) -> None:
    loaded = loader(value)
    assert loaded == expected
    assert type(loaded) is type(expected)


@pytest.mark.parametrize(
    ("loader", "value", "error", "text"),
    [
        (collection(int), 3, TypeError, "type 'int' not support function '__iter__'"),
        (tuple_(int), [1], TypeError, "type not match, 'tuple' expected but 'list' found"),
        (tuple_(int, int), (1,), ValueError, "a length of at least 2 expected but 1 found"),
        (tuple_(int), (1, 2), ValueError, "a length of at most 1 expected but 2 found"),
        (tuple_(int, str), ("a", 1), TypeError, "type not match, 'int' expected but 'str' found"),
        (length(1), [], ValueError, "a length of at least 1 expected but 0 found"),
        (length(max_length=1), [1, 2], ValueError, "a length of at most 1 expected but 2 found"),
        (length(), 3, TypeError, "type 'int' not support function '__len__'"),
        (contains(3), [1, 2], ValueError, "3 not found in value"),
        (contains(3), 3, TypeError, "type 'int' not support function '__contains__'"),
        (cofilter(above_one), 3, TypeError, "type 'int' not support function '__iter__'"),
        (tpselector(5), (1, 2, 3), IndexError, "tuple index out of range"),
        (tpselector(0), [1], TypeError, "type not match, 'tuple' expected but 'list' found"),
        (mapping(str, int), [1], TypeError, "type 'list' not support function 'items'"),
        (mpfilter(above_one), [1], TypeError, "type 'list' not support function 'items'"),
        (mpkeys(), [1], TypeError, "type 'list' not support function 'keys'"),
        (mpvalues(), {"a": [1]}, TypeError, "unhashable type: 'list'"),
        (mpitems(), [1], TypeError, "type 'list' not support function 'items'"),
        (item("a"), {"b": 1}, KeyError, "key 'a' not found"),
        (item("a"), 3, TypeError, "type 'int' not support function '__getitem__'"),
        (item(0), [1], AttributeError, "'list' object has no attribute 'keys'"),
        (item_or("a", 5), OnlyKeys(), TypeError, "type 'OnlyKeys' not support function '__getitem__'"),
    ],
)
def test_a_value_does_not_pass(loader, value, error, text) -> None:
    with pytest.raises(error) as caught:
        loader(value)
    assert caught.value.args[0] == text
    assert not loader.check(value)


def same(left: object, right: object) -> bool:
    return repr(left) == repr(right)  # exceptions of one type and text are not equal


NO_INT = TypeError("type not match, 'int' expected but 'str' found")
NO_STR = TypeError("type not match, 'str' expected but 'int' found")


def test_a_collection_reports_each_item_that_does_not_pass() -> None:
    with pytest.raises(CollectionError) as caught:
        collection(int)([1, "a", 2, "b"])
    assert same(caught.value.errors, [(1, NO_INT), (3, NO_INT)])
    assert str(caught.value) == f"{[(1, NO_INT), (3, NO_INT)]} error(s) found in collection."


def test_a_mapping_reports_keys_and_values_that_do_not_pass() -> None:
    with pytest.raises(MappingError) as caught:
        mapping(str, int)({"a": "b", 1: 2, 2: "x"})
    keys, values = [(1, NO_STR), (2, NO_STR)], [("a", NO_INT), (2, NO_INT)]
    assert same(caught.value.key_errors(), keys)
    assert same(caught.value.value_errors(), values)
    assert same(caught.value.errors(), keys + values)
    assert str(caught.value) == f"{keys} error(s) found in keys, {values} in values of mapping."


def test_a_mapping_whose_loaded_keys_are_equal_keeps_the_last() -> None:
    assert mapping(raw("k"), int)({"a": 2, "b": 3}) == {"k": 3}


def test_dict_reports_each_loader_that_does_not_pass() -> None:
    with pytest.raises(DictError) as caught:
        dict_(a=item("a"), b=item("b"))({"a": 1})
    expected = {"b": KeyError("key 'b' not found")}
    assert same(caught.value.errors, expected)
    assert str(caught.value) == f"{expected} error(s) found in dict."


@pytest.mark.parametrize(
    "error", [CollectionError([(0, NO_INT)]), MappingError([("a", NO_STR)], [("b", NO_INT)]), DictError({"a": NO_INT})]
)
def test_errors_of_parts_are_value_errors_that_can_be_sent_to_another_process(error) -> None:
    assert isinstance(error, CompositeStructureError)
    assert isinstance(error, ValueError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - its own bytes


def test_the_example_of_the_package() -> None:
    port = is_type(int) & interval(1, 65535)
    address = is_type(str) | (None >> raw("localhost"))
    server = dict_(host=item("host") >> address, port=item_or("port", 80) >> port)
    assert server({"host": None}) == {"host": "localhost", "port": 80}
    assert not server.check({"host": "a", "port": 0})
