import json
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ding.data import TransitionBatch, safe_file
from ding.data._maps import private_map
from ding.data.safe_file import SafeFileError, read_tree, write_tree
from ding.data.tree_codec import PickedRows


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert torch.equal(a, b)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, TransitionBatch):
        same(a.columns, b.columns)
    else:
        assert a == b


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from(["i1", "u2", "f4", "f8", "?", "i8", "f2", "c8"]).flatmap(
        lambda code: st.lists(st.integers(0, 3), max_size=3).map(lambda shape: np.ones(shape, code))
    ),
    st.lists(st.integers(0, 3), max_size=3).map(lambda shape: torch.full(shape, 1.5, dtype=torch.bfloat16)),
    st.lists(st.integers(0, 3), max_size=3).map(lambda shape: torch.ones(shape, dtype=torch.int64)),
    st.just(np.float32(2.5)),
)  # fmt: skip
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=3), st.integers(-3, 3)), inner, max_size=4),
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_round_trip(tmp_path, tree):
    path = tmp_path / "file.rb"
    write_tree(path, tree, "test")
    same(read_tree(path, "test"), tree)


def test_batches_keep_columns_lengths_and_writable_memory(tmp_path):
    data = TransitionBatch({"obs": {"a": torch.arange(6.0).reshape(3, 2)}, "info": ["x", None, {"k": 1}]}, [1, 2])
    write_tree(tmp_path / "f", [data, TransitionBatch.from_rows([])], "test")
    loaded, empty = read_tree(tmp_path / "f", "test")
    same(loaded, data)
    assert loaded.lengths.tolist() == [1, 2]
    assert len(empty) == 0
    loaded.columns["obs"]["a"] += 1
    assert torch.equal(data.columns["obs"]["a"], torch.arange(6.0).reshape(3, 2))


def test_any_reader_of_the_format_finds_the_arrays(tmp_path):
    from safetensors.numpy import load_file

    write_tree(tmp_path / "f", {"a": np.arange(5), "b": torch.ones(2, 3)}, "test")
    arrays = load_file(tmp_path / "f")
    np.testing.assert_array_equal(arrays["a0"], np.arange(5))
    np.testing.assert_array_equal(arrays["a1"], np.ones((2, 3), np.float32))


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [object()]}, r"data\['a'\]\[0\]"),
        ([{1.5: 2}], r"data\[0\]"),
        ([np.array(["text"])], r"data\[0\]"),
        (np.ones(2, np.complex128), "complex128"),
        ([lambda: 1], r"data\[0\]"),
    ],
)
def test_what_has_no_safe_form_is_named_and_leaves_the_old_file(tmp_path, value, where):
    path = tmp_path / "sub" / "f"
    write_tree(path, 1, "test")
    with pytest.raises(SafeFileError, match=where):
        write_tree(path, value, "test")
    assert read_tree(path, "test") == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["f"]


def test_every_damage_is_found(tmp_path):
    path, bad = tmp_path / "good", tmp_path / "bad"
    tree = {"rows": np.arange(7, dtype=np.int16), "name": "x", "more": [torch.ones(3)]}
    write_tree(path, tree, "test")
    raw = path.read_bytes()
    for at in range(len(raw)):
        bad.write_bytes(raw[:at] + bytes([raw[at] ^ 0x10]) + raw[at + 1 :])
        try:
            loaded = read_tree(bad, "test")
        except SafeFileError:
            continue
        # Blanks of the padding, or the name of an unused key, do not carry meaning.
        same(loaded, tree)
        assert at < 8 + int.from_bytes(raw[:8], "little")
    for length in range(len(raw)):
        bad.write_bytes(raw[:length])
        with pytest.raises(SafeFileError):
            read_tree(bad, "test")
    bad.write_bytes(raw + b"\0")
    with pytest.raises(SafeFileError, match="belong to no array"):
        read_tree(bad, "test")


def test_foreign_files_are_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.ones(3)}, tmp_path / "other")
    with pytest.raises(SafeFileError, match="not one that this library wrote"):
        read_tree(tmp_path / "other", "test")
    torch.save({"a": 1}, tmp_path / "pickle")
    with pytest.raises(SafeFileError, match="pickle"):
        read_tree(tmp_path / "pickle", "test")
    write_tree(tmp_path / "kind", 1, "something else")
    with pytest.raises(SafeFileError, match="something else"):
        read_tree(tmp_path / "kind", "test")
    with pytest.raises(FileNotFoundError):
        read_tree(tmp_path / "none", "test")


def test_a_forged_structure_is_refused(tmp_path):
    import hashlib

    structure = json.dumps(["a", 5])
    header = {"__metadata__": {
        "format": "ding", "version": "1", "kind": "test", "structure": structure,
        "sha256": hashlib.sha256(structure.encode()).hexdigest(),
    }}  # fmt: skip
    text = json.dumps(header).encode()
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(SafeFileError, match="structure"):
        read_tree(tmp_path / "f", "test")


def forge(path, structure, change=None):
    """A file whose digest is right, whatever its header says."""
    import hashlib

    header = {"__metadata__": {
        "format": "ding", "version": "1", "kind": "test", "structure": structure,
        "sha256": hashlib.sha256(structure.encode(errors="replace")).hexdigest(),
    }}  # fmt: skip
    text = json.dumps({**header, **(change or {})}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)


@pytest.mark.parametrize(
    "structure",
    [
        "[" * 100_000, '["l",[' * 900 + '["v",1]' + "]]" * 900, '["a",0]', '["T",0,"bfloat16"]', '["v"]', "5", "[]",
        '["B",["d",[["x",["l",[["v",1]]]]]],1,[1e999]]', '["B",["d",[["x",["l",[["v",1]]]]]],1,[99999999999999999999]]',
        '["d",5]', '["v", "\ud800"]',
    ],
)  # fmt: skip
def test_forged_structures_are_refused(tmp_path, structure):
    forge(tmp_path / "f", structure)
    with pytest.raises(SafeFileError, match="damaged"):
        read_tree(tmp_path / "f", "test")


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [float("inf")], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [10**30], "data_offsets": [0, 4 * 10**30]},
        {"dtype": "F32", "shape": [-1, 0], "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": "0", "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0] * 65, "data_offsets": [0, 0]},
        {"dtype": "F32", "shape": [0], "data_offsets": [0, 0, 0]},
        {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4 << 40]},
        {"dtype": ["F32"], "shape": [0], "data_offsets": [0, 0]},
        [1, 2],
    ],
)
def test_forged_arrays_are_refused(tmp_path, entry):
    forge(tmp_path / "f", '["v",1]', change={"a0": entry})
    with pytest.raises(SafeFileError, match="array 0"):
        read_tree(tmp_path / "f", "test")


def test_a_deep_header_is_refused(tmp_path):
    text = b"[" * 100_000
    (tmp_path / "f").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(SafeFileError, match="no JSON"):
        read_tree(tmp_path / "f", "test")


def test_what_is_no_file_of_ours_is_refused_unread(tmp_path):
    """A sparse file of a terabyte: whoever reads its bytes runs out of memory."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}).encode()
    with open(tmp_path / "weights", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))
    with pytest.raises(SafeFileError, match="not one that this library wrote"):
        read_tree(tmp_path / "weights", "test")


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (torch.ones(2).to(torch.float8_e4m3fn), r"data\[0\] is a tensor"),
        (np.ma.masked_array([1.0], [True]), r"data\[0\] is MaskedArray"),
    ],
)
def test_what_an_array_cannot_hold_is_named(tmp_path, value, where):
    with pytest.raises(SafeFileError, match=where):
        write_tree(tmp_path / "f", [value], "test")


def test_mapped_arrays_are_those_of_the_file_and_may_be_written_to(tmp_path):
    tree = [np.ones(3, np.uint8), torch.arange(3.0), torch.ones(2, dtype=torch.bfloat16), np.float32(2.5), "text"]
    write_tree(tmp_path / "f", tree, "test")
    mapped = read_tree(tmp_path / "f", "test", mapped=True)
    same(mapped, tree)
    mapped[0][:] = 9
    same(read_tree(tmp_path / "f", "test"), tree)
    assert mapped[0].tolist() == [9, 9, 9]


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems refuse what they may not be able to hold"
)
def test_a_file_larger_than_memory_can_be_mapped(tmp_path):
    with open("/proc/sys/vm/overcommit_memory") as file:
        if file.read().strip() == "2":
            pytest.skip("this machine never promises more memory than it has")
    with open(tmp_path / "f", "w+b") as file:
        file.truncate(1 << 43)
        assert private_map(file, 1 << 43)[-1] == 0


def test_arrays_are_written_in_parts_of_whole_rows(tmp_path, monkeypatch):
    tree = [np.arange(90).reshape(30, 3).T, np.ones((4, 0)), np.ones((0, 4)), np.array(3), torch.ones(7, 5).double()]
    write_tree(tmp_path / "whole", tree, "test")
    monkeypatch.setattr(safe_file, "_PART_BYTES", 50)
    write_tree(tmp_path / "parts", tree, "test")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "parts").read_bytes()
    same(read_tree(tmp_path / "parts", "test"), tree)


def test_rows_that_are_picked_while_they_are_written_are_as_those_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(safe_file, "_PART_BYTES", 50)
    source, positions = np.arange(60, dtype=np.int16).reshape(20, 3), np.array([5, 19, 0, 0, 7])
    picked = [PickedRows(source, positions), PickedRows(source, positions, tensor=True)]
    picked += [PickedRows(source, positions, True, torch.bfloat16), PickedRows(source, positions[:0])]
    write_tree(tmp_path / "picked", picked, "test")
    write_tree(tmp_path / "whole", [rows.whole() for rows in picked], "test")
    assert (tmp_path / "picked").read_bytes() == (tmp_path / "whole").read_bytes()
    np.testing.assert_array_equal(read_tree(tmp_path / "picked", "test")[0], source[positions])


def test_the_digest_is_found_where_texts_look_like_it(tmp_path):
    tree = {"sha256": "0" * 64, '"sha256": "': '"sha256": "' + "0" * 64}
    write_tree(tmp_path / "f", tree, "test", layout="0" * 64)
    same(read_tree(tmp_path / "f", "test"), tree)


def test_what_holds_itself_is_refused(tmp_path):
    value = []
    value.append(value)
    with pytest.raises(SafeFileError, match="recursion"):
        write_tree(tmp_path / "f", value, "test")
    assert not (tmp_path / "f").exists()


def test_lazily_conjugated_tensors_are_saved(tmp_path):
    tensor = torch.tensor([1 + 2j]).conj()
    write_tree(tmp_path / "f", tensor, "test")
    assert read_tree(tmp_path / "f", "test").tolist() == [1 - 2j]


def test_arrays_are_read_to_aligned_memory_in_the_order_of_this_machine(tmp_path):
    tree = [np.ones(3, np.uint8), torch.ones(3, dtype=torch.float64), np.arange(3, dtype=">f4")]
    write_tree(tmp_path / "f", tree, "test")
    odd, wide, swapped = read_tree(tmp_path / "f", "test")
    same(odd, tree[0])
    same(wide, tree[1])
    same(swapped, tree[2].astype("<f4"))
    assert wide.data_ptr() % 8 == 0
    assert swapped.flags.aligned


@pytest.mark.parametrize(("old", "new"), [(b'"F32"', b'"I32"'), (b"[2, 3]", b"[3, 2]")])
def test_other_dtypes_and_shapes_of_the_same_size_are_no_match_for_the_digest(tmp_path, old, new):
    write_tree(tmp_path / "f", np.ones((2, 3), np.float32), "test")
    raw = (tmp_path / "f").read_bytes()
    assert raw.count(old) == 1
    (tmp_path / "f").write_bytes(raw.replace(old, new))
    with pytest.raises(SafeFileError, match="SHA-256"):
        read_tree(tmp_path / "f", "test")


def test_the_header_ends_where_the_widest_number_may_begin(tmp_path):
    for length in range(8):
        write_tree(tmp_path / "f", "x" * length, "test")
        assert int.from_bytes((tmp_path / "f").read_bytes()[:8], "little") % 8 == 0
