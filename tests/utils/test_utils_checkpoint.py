"""Checkpoints under attack: whatever is done to their files, what is read is what was written, or it is refused."""

import errno
import os
import random
import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ding.utils import checkpoint
from ding.utils.checkpoint import (
    checked_manifest,
    good_beside,
    good_numbered,
    keep_newest,
    numbered,
    read_checkpoint,
    save_checkpoint,
    train_iter_of,
)
from ding.utils.file_helper import FileRefusedError, read_file, save_file

STATE = {"model": {"w": torch.arange(8.0)}, "last_iter": 3, "last_step": 12}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def state(number: float) -> dict:
    return {"model": {"w": torch.full((8,), float(number))}, "last_iter": int(number), "last_step": 0}


def saved(name: str = "ckpt/iteration_1.pth.tar", number: float = 1) -> Path:
    Path(name).parent.mkdir(exist_ok=True)
    save_checkpoint(name, state(number), {"train_iter": int(number)})
    return Path(name)


def number_in(path) -> float:
    return float(read_checkpoint(path)["model"]["w"][0])


def test_a_checkpoint_is_a_folder_and_a_classic_file() -> None:
    path = saved()
    assert number_in(path) == number_in("ckpt/iteration_1") == 1
    # Any torch, and DI-engine, reads the classic file.
    assert torch.load(path, weights_only=True)["last_iter"] == 1
    manifest = checked_manifest("ckpt/iteration_1")
    assert manifest.notes == {"train_iter": 1}
    assert set(manifest.versions) == {"ding", "torch", "numpy", "python"}
    assert manifest.parts["learner.pth.tar"]["bytes"] == path.stat().st_size


def test_no_single_flipped_bit_is_loaded() -> None:
    path = Path("one.pth.tar")
    save_file(str(path), STATE)
    whole = path.read_bytes()
    size = 8 * len(whole)
    bits = [*random.Random(0).sample(range(size), 60), *range(0, 64, 3), *range(size - 800, size, 13)]
    for bit in bits:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(FileRefusedError, match=r"one\.pth\.tar"):
            read_file(str(path))


@pytest.mark.parametrize("part", ["manifest.json", "learner.pth.tar"])
def test_no_damage_to_a_folder_is_loaded(part) -> None:
    saved()
    file = Path("ckpt/iteration_1") / part
    whole = file.read_bytes()
    for bit in range(0, 8 * len(whole), 97):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(FileRefusedError, match="ckpt/iteration_1"):
            read_checkpoint("ckpt/iteration_1")
    file.unlink()
    with pytest.raises((FileRefusedError, FileNotFoundError), match="iteration_1"):
        read_checkpoint("ckpt/iteration_1")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def damage_png(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(5000))


def damage_pickle(path: Path) -> None:
    class Payload:
        def __reduce__(self):
            return os.mkdir, ("executed",)

    torch.save({"model": Payload()}, path)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(b""), "is empty"),
        (truncated, "truncated or damaged"),
        (damage_png, "is no file of torch.save"),
        (damage_pickle, "only tensors, numbers, texts and their containers are loaded"),
        (lambda path: torch.save([1, 2], path), "it holds a list"),
    ],
)
def test_a_damaged_one_is_refused_in_a_sentence_that_offers_a_good_one(damage, said) -> None:
    older, newer = saved(), saved("ckpt/iteration_2.pth.tar", 2)
    data = newer.read_bytes()
    newer.unlink()  # a file of its own, not the one in the folder
    newer.write_bytes(data)
    damage(newer)
    with pytest.raises(FileRefusedError) as refused:
        read_checkpoint(newer)
    text = str(refused.value)
    assert said in text
    assert text.endswith(f"the newest good one beside it is {older}")
    assert "\n" not in text
    assert "weights_only" not in text
    assert not Path("executed").exists()


def test_files_of_others_are_read_and_their_contents_checked() -> None:
    torch.save(state(4), "theirs.pth.tar")
    assert number_in("theirs.pth.tar") == 4
    raw = bytearray(Path("theirs.pth.tar").read_bytes())
    at = raw.index(np.full(8, 4, np.float32).tobytes())
    raw[at + 3] ^= 1
    Path("theirs.pth.tar").write_bytes(raw)
    with pytest.raises(FileRefusedError, match="CRC-32"):
        read_checkpoint("theirs.pth.tar")
    torch.save(state(5), "old.pth.tar", _use_new_zipfile_serialization=False)
    assert number_in("old.pth.tar") == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
def test_killed_between_any_two_writes_the_old_one_or_the_new_one_is_there() -> None:
    path, writes = saved("ckpt/ckpt_best.pth.tar", 1), 0
    found = set()
    while True:
        writes += 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                die_at(writes)
                save_checkpoint(path, state(2), {})
                code = 0
            finally:
                # Neither an exception nor a signal with a handler: the child would run the tests that follow.
                os._exit(code)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ended in (0, -signal.SIGKILL)
        found.add((number_in(path), number_in("ckpt/ckpt_best")))
        if ended == 0:
            break
    assert writes > 8
    assert found == {(1, 1), (1, 2), (2, 2)}
    # What the killed ones left is removed by the next.
    saved("ckpt/ckpt_best.pth.tar", 3)
    assert len(list(Path("ckpt/ckpt_best").iterdir())) == 2


def die_at(number: int) -> None:
    """Kill this process at its ``number``-th change of a file system."""
    seen = 0

    def hook(event: str, args: tuple) -> None:
        nonlocal seen
        writes = event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.chmod")
        if writes or (event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def test_no_space_leaves_the_old_one_whole(monkeypatch) -> None:
    path = saved()

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            save_checkpoint(path, state(2), {})
    assert number_in(path) == number_in("ckpt/iteration_1") == 1


def test_where_there_are_no_links_the_classic_file_is_a_copy(monkeypatch) -> None:
    def refused(*args: object) -> None:
        raise PermissionError(errno.EPERM, "no links")

    monkeypatch.setattr(checkpoint.os, "link", refused)
    assert number_in(saved()) == 1


def test_the_newest_stay_and_so_do_those_with_names() -> None:
    for number in (9, 10, 100):
        saved(f"ckpt/iteration_{number}.pth.tar", number)
    saved("ckpt/ckpt_best.pth.tar")
    Path("ckpt/iteration_x.txt").touch()
    keep_newest("ckpt/ckpt_best.pth.tar", 1)
    keep_newest("ckpt/iteration_100.pth.tar", 2)
    names = {path.name for path in Path("ckpt").iterdir()}
    kept = ["ckpt_best", "iteration_10", "iteration_100"]
    assert names == {*kept, *(f"{name}.pth.tar" for name in kept), "iteration_x.txt"}
    beside = [path.name for path in good_beside("ckpt/iteration_9.pth.tar")]
    assert beside == ["iteration_100.pth.tar", "iteration_10.pth.tar", "ckpt_best.pth.tar"]


def test_the_newest_one_is_that_of_the_most_iterations_whatever_the_clock_says() -> None:
    saved("ckpt/ckpt_best.pth.tar", 100)
    for number, time_s in ((9, 3000), (10, 2000), (100, 1000)):
        os.utime(saved(f"ckpt/iteration_{number}.pth.tar", number), (time_s, time_s))
    save_file("ckpt/of_a_script.pth.tar", state(500))
    beside = [path.name for path in good_beside("ckpt/iteration_9.pth.tar")]
    # Among equals the time counts; what says nothing of iterations comes last.
    assert beside == [f"{name}.pth.tar" for name in ("ckpt_best", "iteration_100", "iteration_10", "of_a_script")]
    # As DI-engine writes them: the name says it.
    shutil.rmtree("ckpt/iteration_100")
    numbers = [
        train_iter_of(f"ckpt/{name}") for name in ("iteration_100.pth.tar", "iteration_10", "of_a_script.pth.tar")
    ]
    assert numbers == [100, 10, None]


def test_a_run_that_goes_on_from_an_older_one_keeps_what_it_saves() -> None:
    for number in (1, 2, 3, 30, 40):
        saved(f"ckpt/iteration_{number}.pth.tar", number)
    keep_newest("ckpt/iteration_3.pth.tar", 2)
    assert [number for number, _ in numbered("ckpt", "iteration")] == [2, 3, 30, 40]
    Path("ckpt/iteration_40/learner.pth.tar").write_bytes(b"damaged")
    assert [manifest.folder.name for manifest in good_numbered("ckpt", "iteration")][:2] == [
        "iteration_30",
        "iteration_3",
    ]
