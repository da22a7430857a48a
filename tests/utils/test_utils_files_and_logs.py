import copy
import gc
import logging
import os
import pickle
import subprocess
import sys
import threading
from typing import ClassVar

import numpy as np
import pytest
import torch
from easydict import EasyDict
from hypothesis import given
from hypothesis import strategies as st

from ding.entry.view.event_files import iter_records
from ding.utils import (
    CloudPickleWrapper,
    DistributedWriter,
    LazyWriter,
    LockContext,
    LockContextType,
    LoggerFactory,
    atomic_write,
    build_logger,
    get_data_compressor,
    get_data_decompressor,
    get_file_lock,
    get_rw_file_lock,
    init_console,
    pretty_print,
    read_file,
    remove_file,
    save_file,
    write_scalars,
)


def same(left, right):
    if isinstance(left, np.ndarray):
        return type(right) is np.ndarray and left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), st.text(max_size=5),
    st.sampled_from([
        np.arange(6, dtype=np.uint16).reshape(2, 3), np.zeros((0, 2)), np.array(3.5), np.array(["a", "bcd"]),
        np.array([1, 2], dtype=">i4"), np.array([True, False]),
        torch.arange(3), torch.zeros(2, 2, dtype=torch.bfloat16), torch.tensor(True), b"\x00raw",
    ]),
)  # fmt: skip
data = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(data)
def test_plain_data_survives_compression(value):
    raw = get_data_compressor("zlib")(value)
    assert isinstance(raw, bytes)
    assert same(value, get_data_decompressor("zlib")(raw))


def test_files_round_trip(tmp_path):
    path = str(tmp_path / "f.pth")
    save_file(path, EasyDict(a=1, b=[EasyDict(c=torch.ones(2))]), use_lock=True)
    loaded = read_file(path, use_lock=True)
    assert type(loaded) is dict
    assert type(loaded["b"][0]) is dict
    assert torch.equal(loaded["b"][0]["c"], torch.ones(2))
    save_file(path, {"n": np.float32(1.5), "p": torch.nn.Parameter(torch.ones(1))})
    assert read_file(path) == {"n": 1.5, "p": torch.ones(1)}
    assert sorted(os.listdir(tmp_path)) == ["f.pth", "f.pth.lock"]


def test_unsafe_data_is_refused_and_the_old_file_stays(tmp_path):
    path = str(tmp_path / "f.pth")
    save_file(path, {"a": 1})
    with pytest.raises(TypeError, match=r"data\['a'\]\[1\] is a object"):
        save_file(path, {"a": [1, object()]})
    with pytest.raises(TypeError, match="array of object"):
        save_file(path, np.array([object()]))
    assert read_file(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["f.pth"]


def test_reading_runs_nothing(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, ("touch pwned",)

    path = str(tmp_path / "evil")
    torch.save(Evil(), path)
    with pytest.raises(pickle.UnpicklingError):
        read_file(path)


def test_other_file_systems_are_refused(tmp_path):
    for call in (read_file, remove_file):
        with pytest.raises(ValueError, match="only local files"):
            call("s3://bucket/x")
    with pytest.raises(ValueError, match="'mc'"):
        save_file(str(tmp_path / "x"), 1, fs_type="mc")


def test_atomic_write_is_all_or_nothing(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o600)

    def fail():
        with atomic_write(path) as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_bytes() == b"old"
    with atomic_write(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_remove_file_takes_names_literally(tmp_path):
    nasty = tmp_path / "a; touch b"
    nasty.write_text("x")
    remove_file(str(nasty))
    remove_file(str(nasty))
    assert os.listdir(tmp_path) == []
    folder, link = tmp_path / "folder", tmp_path / "link"
    (folder / "deep").mkdir(parents=True)
    link.symlink_to(folder)
    remove_file(str(link))
    assert os.listdir(tmp_path) == ["folder"], "of a link only the link"
    remove_file(str(folder))
    assert os.listdir(tmp_path) == []


def test_compressor_names():
    assert get_data_compressor("none")([1]) == [1]
    with pytest.raises(KeyError, match="Did you mean 'zlib'"):
        get_data_compressor("zlb")
    with pytest.raises(KeyError):
        get_data_decompressor("zip")


def test_cloudpickle_wrapper_carries_closures():
    number = 41
    copied = pickle.loads(pickle.dumps(CloudPickleWrapper(lambda: number + 1)))  # noqa: S301
    assert copied.data() == 42


@pytest.mark.parametrize("kind", list(LockContextType))
def test_lock_context(kind):
    lock = LockContext(kind)
    with lock:
        assert lock.acquire(timeout=0.001) is False
    assert lock.acquire(timeout=1) is True
    lock.release()


def test_file_lock_excludes(tmp_path):
    path = str(tmp_path / "f")
    order = []
    held = threading.Event()

    def other():
        held.wait(10)
        with get_file_lock(path, "write"):
            order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    with get_rw_file_lock(path, "read"):
        held.set()
        order.append("first")
    thread.join(10)
    assert order == ["first", "other"]
    with pytest.raises(KeyError, match="append"):
        get_file_lock(path, "append")


def test_logger_files_and_tables(tmp_path):
    logger, writer = build_logger(str(tmp_path / "log"), "learner")
    logger.info("hello %d", 3)
    text = (tmp_path / "log" / "learner_logger.txt").read_text()
    assert text.endswith("hello 3\n")
    assert logger.name == "learner_logger"
    assert not os.path.exists(tmp_path / "log" / "learner_tb_logger")
    assert writer.logdir == str(tmp_path / "log" / "learner_tb_logger")
    assert logger.get_tabulate_vars({"a": 1, "b": 2.5}) == (
        "\n+------+----------+\n| Name | Value    |\n+======+==========+\n"
        "| a    | 1.000000 |\n+------+----------+\n| b    | 2.500000 |\n+------+----------+"
    )
    table = logger.get_tabulate_vars_hor({name: i for i, name in enumerate("abcde")}).splitlines()
    assert table[2] == "| Name  | a        | b        | c        | d        |"
    assert table[8] == "| Value | 4.000000 |          |          |          |"
    assert LoggerFactory.get_tabulate_vars_hor({}) == "\n"
    # As an evaluator of DI-engine has them.
    others = logger.get_tabulate_vars_hor({"each_reward": [1.0, 2.5], "ckpt_name": "ckpt"}).splitlines()
    assert others[4] == "| Value | [1.0, 2.5]  | ckpt      |"


def test_loggers_are_keyed_by_path(tmp_path):
    one, _ = build_logger(str(tmp_path / "exp1"), "learner", need_tb=False)
    two, none = build_logger(str(tmp_path / "exp2"), "learner", need_tb=False)
    again, _ = build_logger(str(tmp_path / "exp1"), "learner", need_tb=False)
    assert none is None
    assert one is not two
    assert again is one
    assert len(one.handlers) == 1
    one.info("first")
    two.info("second")
    assert "second" not in (tmp_path / "exp1" / "learner_logger.txt").read_text()
    assert copy.deepcopy(one) is one
    assert pickle.loads(pickle.dumps(two)) is two  # noqa: S301


def test_logger_propagates_and_closes_its_file(tmp_path, caplog):
    logger, _ = build_logger(str(tmp_path), need_tb=False, text_level="WARNING")
    logger.info("quiet")
    logger.warning("loud")
    assert "loud" in caplog.text
    assert "quiet" not in (tmp_path / "default_logger.txt").read_text()
    handler = logger.handlers[0]
    del logger
    gc.collect()
    assert handler.stream is None or handler.stream.closed
    with pytest.raises(ValueError, match="text_level"):
        build_logger(str(tmp_path), text_level="LOUD")


def test_writer_is_lazy_and_shared_per_folder(tmp_path):
    _, writer = build_logger(str(tmp_path), "w", need_text=False)
    _, same_writer = build_logger(str(tmp_path), "w", need_text=False)
    assert same_writer is writer
    writer.flush()
    assert not writer.is_open
    writer.add_scalar("loss", 1.0, 3)
    assert writer.is_open
    writer.close()
    writer.close()
    assert len(os.listdir(tmp_path / "w_tb_logger")) == 1
    assert copy.deepcopy(writer) is writer
    with pytest.raises(AttributeError, match="no attribute 'remove'"):
        writer.remove


def _written(folder):
    """``(step, {tag: value})`` of each event with values."""
    from tensorboardX.proto.event_pb2 import Event

    paths = sorted(folder.glob("events.*"))
    events = [Event.FromString(data) for path in paths for data in iter_records(path)]
    return [(e.step, {v.tag: v.simple_value for v in e.summary.value}) for e in events if e.summary.value]


@pytest.mark.parametrize("lazy", [False, True])
def test_scalars_of_one_step(tmp_path, lazy):
    from tensorboardX import SummaryWriter

    writer = LazyWriter(str(tmp_path)) if lazy else SummaryWriter(str(tmp_path))
    write_scalars(writer, "a/", {}, 6)
    assert not (lazy and writer.is_open)
    write_scalars(writer, "a/", {"x": 1, "y": np.float32(2.5), "z": torch.tensor([0.5], requires_grad=True)}, 7)
    write_scalars(writer, "", {"c": 2.0}, 9)
    writer.close()
    points = {"a/x": 1.0, "a/y": 2.5, "a/z": 0.5}
    assert _written(tmp_path) == [(7, points), (9, {"c": 2.0})]


def test_scalars_reach_a_writer_that_does_more_than_to_write_them_by_its_method(tmp_path):
    from tensorboardX import SummaryWriter

    class Own(SummaryWriter):
        seen: ClassVar[list] = []

        def add_scalar(self, tag, *args, **kwargs):
            self.seen.append(tag)
            super().add_scalar(tag, *args, **kwargs)

    writers = [Own(str(tmp_path / "own")), SummaryWriter(str(tmp_path / "patched"))]
    patched = []
    writers[1].add_scalar = lambda tag, value, step: patched.append(tag)
    for writer in writers:
        write_scalars(writer, "a/", {"x": 1, "y": 2}, 3)
        writer.close()
    assert Own.seen == patched == ["a/x", "a/y"]
    assert _written(tmp_path / "own") == [(3, {"a/x": 1.0}), (3, {"a/y": 2.0})]
    # A closed writer begins another file.
    again = SummaryWriter(str(tmp_path / "again"))
    again.close()
    write_scalars(again, "", {"x": 1}, 4)
    again.close()
    assert _written(tmp_path / "again") == [(4, {"x": 1.0})]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files")
def test_logs_and_curves_outlast_a_time_without_space(tmp_path):
    """No file may grow for a while, as on a full disk: nothing blocks, nothing is lost, one warning for each file."""
    code = """
import resource
from ding.utils import build_logger

size, most = resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)
logger, writer = build_logger("run", "x")
for limit, steps in ((most, [0]), ((1, most[1]), range(1, 600)), (most, [600])):
    if limit != most:
        writer.flush()
    resource.setrlimit(size, limit)
    for step in steps:
        logger.info("step %d", step)
        writer.add_scalar("curve", step, step)
writer.close()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.count("waits in memory") for line in done.stderr.splitlines()] == [1, 1], done.stderr
    lines = (tmp_path / "run" / "x_logger.txt").read_text().splitlines()
    assert [line.rpartition("] ")[2] for line in lines] == [f"step {step}" for step in range(601)]
    assert _written(tmp_path / "run" / "x_tb_logger") == [(step, {"curve": float(step)}) for step in range(601)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the size of files")
def test_what_is_said_of_a_file_without_space_may_go_to_that_file(tmp_path):
    code = """
import logging, resource
from ding.utils import build_logger

size, most = resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE)
logger, _ = build_logger("run", "x", need_tb=False)
logging.getLogger("ding").addHandler(logger.handlers[0])
resource.setrlimit(size, (1, most[1]))
logger.info("refused")
resource.setrlimit(size, most)
logger.info("later")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "run" / "x_logger.txt").read_text()
    assert text.index("refused") < text.index("waits in memory") < text.index("] later")


def test_tensorboardx_is_not_imported_early(tmp_path):
    code = (
        "import sys\nfrom ding.utils import build_logger, DistributedWriter\n"
        f"build_logger({str(tmp_path)!r}, 'x'); DistributedWriter({str(tmp_path)!r})\n"
        "assert 'tensorboardX' not in sys.modules and 'cloudpickle' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class FakeRouter:
    def __init__(self, is_active=True):
        self.is_active = is_active
        self.handlers = {}
        self.sent = []

    def on(self, event, fn):
        self.handlers[event] = fn

    def emit(self, event, *args, **kwargs):
        self.sent.append((event, args, kwargs))


def test_distributed_writer_forwards_to_the_writer(tmp_path):
    router = FakeRouter()
    worker = DistributedWriter(str(tmp_path / "a")).plugin(router)
    main = DistributedWriter(str(tmp_path / "b")).plugin(router, is_writer=True)
    worker.add_scalar("x", 1.0, global_step=2)
    assert router.sent == [("distributed_writer", ("add_scalar", "x", 1.0), {"global_step": 2})]
    assert not worker.is_open
    event, args, kwargs = router.sent[0]
    router.handlers[event](*args, **kwargs)
    assert main.is_open
    router.handlers[event]("close")
    assert main.is_open  # only add_* can be asked for
    write_scalars(worker, "y/", {"a": 2.0, "b": 3.0}, 4)
    event, args, kwargs = router.sent[1]
    router.handlers[event](*args, **kwargs)
    router.is_active = False  # else there may be more to come, and closing waits for none of it
    main.close()
    assert os.listdir(tmp_path) == ["b"]
    assert _written(tmp_path / "b") == [(2, {"x": 1.0}), (4, {"y/a": 2.0, "y/b": 3.0})]


def test_distributed_writer_root(tmp_path):
    DistributedWriter.reset_root()
    assert DistributedWriter.get_instance() is None
    root = DistributedWriter.get_instance(str(tmp_path / "r"))
    other = DistributedWriter.get_instance(str(tmp_path / "o"))
    assert DistributedWriter.get_instance() is root
    assert other is not root
    assert root.plugin(FakeRouter(is_active=False)) is root
    root.initialize()
    assert root.is_open
    DistributedWriter.reset_root()
    assert DistributedWriter.get_instance() is None
    assert not root.is_open


def test_pretty_print(capsys):
    text = pretty_print({"a": 1, "b": {"c": [1, {"d": "x"}], "e": {}}, "n": None})
    assert text == "a: 1\nb:\n  c:\n    - 1\n    - d: x\n  e: {}\n"
    assert capsys.readouterr().out == text + "\n"
    with pytest.raises(TypeError):
        pretty_print({"a": object()}, direct_print=False)


def test_init_console_leaves_an_application_alone():
    logger = logging.getLogger("ding")
    before = list(logger.handlers), logger.level
    try:
        init_console()  # pytest has set handlers on the root logger
        assert logger.handlers == before[0]
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before[1])
