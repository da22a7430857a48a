"""Replay buffers: push, sample, prioritised sample and update, memory."""

from __future__ import annotations

from benchmarks._plan import ONE_THREAD, Measurement, OpSpec, Target, own, peer
from benchmarks._process import Contestant

TITLE = "Replay buffers"
SCRIPT = "ours/buffer.py"
LIMIT = "torch.index_select"
# Against the physical limit: at most 1.3 times its time.
WITHIN = 1 / 1.3
ONE = (ONE_THREAD,)


def measurements() -> list[Measurement]:
    """All measurements of the suite."""
    return [uniform_cartpole(), prioritised_cartpole(), *atari()]


def _target(against: str | None, at_least: float, subject: str = "ding") -> Target:
    return Target(3, against, at_least, subject=subject, modes=ONE)


def uniform_cartpole() -> Measurement:
    """Uniform sampling and pushing of small rows."""
    others = ("stable-baselines3", "tianshou", "torchrl", "cpprb")
    sample = {
        64: [_target("DI-engine naive", 10), _target("DI-engine advanced", 10), _target("DI-engine deque", 10)],
        256: [_target("DI-engine naive", 20), _target("DI-engine advanced", 20), _target("DI-engine deque", 20)],
        1024: [],
    }
    for size, targets in sample.items():
        targets += [_target(other, 1.0) for other in others]
        if size != 64:
            targets.append(_target(LIMIT, WITHIN))
    push = [_target(None, 15e6), _target("DI-engine naive", 1.0), *(_target(other, 1.0) for other in others)]
    dicts = [_target("DI-engine advanced", 1.0, subject="ding advanced")]
    return Measurement(
        "buffer_cartpole",
        "Replay buffer, 100,000 CartPole rows, uniform",
        (
            _own("ding", "cartpole", "--buffer", "naive"),
            _own("ding advanced", "cartpole"),
            _own("ding deque", "cartpole", "--buffer", "deque"),
            *_reference("cartpole", "naive", "advanced", "deque"),
            peer("sb3", "stable-baselines3", "peers/sb3_buffer.py", "cartpole"),
            peer("tianshou", "tianshou", "peers/tianshou_buffer.py", "cartpole"),
            peer("torchrl", "torchrl", "peers/torchrl_buffer.py", "cartpole"),
            peer("cpprb", "cpprb", "peers/cpprb_buffer.py", "cartpole"),
            peer("rlox", "rlox", "peers/rlox_buffer.py", "cartpole"),
            peer("ding", LIMIT, "peers/torch_buffer.py", "cartpole"),
        ),
        (
            *(_sample_op(size, tuple(targets)) for size, targets in sample.items()),
            _push_op("push64", "push 64 rows (columns)", tuple(push)),
            _push_op("push64_columns", "push 64 rows of separate columns"),
            _push_op("push64_dicts", "push 64 plain dicts", tuple(dicts)),
            OpSpec("push1", "push one dict", "rows", 0.4, quick=False),
            _memory_op("bytes_per_row", "bytes"),
        ),
        modes=ONE,
        quick=True,
        remark="A sample ends as training-ready torch tensors on every side. DI-engine has dicts only: its push of 64"
        " rows is one of 64 dicts. Rows that are pushed are made before the clock runs, those of ding by the store in"
        " which its collectors gather trajectories: they are records then. As separate columns they are a line of their"
        " own.",
    )


def prioritised_cartpole() -> Measurement:
    """Prioritised sampling with an update of the priorities."""
    targets = (
        _target("DI-engine advanced", 30),
        *(_target(other, 1.0) for other in ("tianshou", "torchrl", "cpprb", "rlox")),
    )
    return Measurement(
        "buffer_cartpole_priority",
        "Replay buffer, 100,000 CartPole rows, prioritised",
        (
            _own("ding", "cartpole"),
            *_reference("cartpole", "advanced"),
            peer("tianshou", "tianshou", "peers/tianshou_buffer.py", "cartpole", "--priority"),
            peer("torchrl", "torchrl", "peers/torchrl_buffer.py", "cartpole", "--priority"),
            peer("cpprb", "cpprb", "peers/cpprb_buffer.py", "cartpole", "--priority"),
            peer("rlox", "rlox", "peers/rlox_buffer.py", "cartpole", "--priority"),
        ),
        (
            OpSpec("psample256", "sample 256 and update", "batches", 0.4, targets=targets),
            _push_op("push64", "push 64 rows (columns)", (_target("DI-engine advanced", 20),)),
            _push_op("push64_dicts", "push 64 plain dicts"),
        ),
        modes=ONE,
        quick=True,
    )


def atari() -> list[Measurement]:
    """Image rows. Few sides at a time, for many hold a gigabyte."""
    plain = Measurement(
        "buffer_atari",
        "Replay buffer, 20,000 Atari rows, uniform",
        (
            _own("ding", "atari", "--buffer", "naive"),
            peer("ding_ref", "DI-engine naive", SCRIPT, "atari", "--buffer", "naive"),
            peer("sb3", "stable-baselines3", "peers/sb3_buffer.py", "atari"),
            peer("tianshou", "tianshou", "peers/tianshou_buffer.py", "atari"),
            peer("cpprb", "cpprb", "peers/cpprb_buffer.py", "atari"),
            peer("torchrl", "torchrl", "peers/torchrl_buffer.py", "atari"),
            peer("ding", LIMIT, "peers/torch_buffer.py", "atari"),
        ),
        (
            _sample_op(64, ()),
            _sample_op(
                256,
                (
                    *(_target(other, 1.0) for other in ("stable-baselines3", "cpprb", "tianshou", "torchrl")),
                    _target(LIMIT, WITHIN),
                ),
            ),
            _push_op("push64", "push 64 rows (columns)"),
        ),
        modes=ONE,
        remark="ding stores next_obs once, its default for large observations."
        " stable-baselines3 has one buffer for sampling and one for pushing here, so twice the memory.",
    )
    once, full = ("ding frames once", "ding next_obs once"), "ding full"
    not_slower = tuple(_target(full, 1.0, subject=label) for label in once)
    elision = Measurement(
        "buffer_atari_elision",
        "Replay buffer, 20,000 Atari rows: each frame stored once, each observation once, in full",
        (
            _own(once[0], "atari", "--buffer", "naive", "--layout", "frames-once"),
            _own(once[1], "atari", "--buffer", "naive", "--layout", "next-obs-once"),
            _own(full, "atari", "--buffer", "naive", "--layout", "full"),
            peer("ding_ref", "DI-engine naive", SCRIPT, "atari", "--buffer", "naive"),
            peer("tianshou", "tianshou last frame", "peers/tianshou_buffer.py", "atari", "--last-frame"),
            peer("cpprb", "cpprb", "peers/cpprb_buffer.py", "atari"),
        ),
        (
            _sample_op(64, not_slower),
            _sample_op(256, not_slower),
            _memory_op(
                "share_of_obs",
                "of obs and next_obs",
                Target(3, None, at_most=0.14, subject=once[0], modes=ONE),
                Target(3, None, at_most=0.51, subject=once[1], modes=ONE),
            ),
        ),
        modes=ONE,
        remark="Memory is measured once, when the buffer was filled, and is the same in every round."
        " tianshou's buffer of last frames gives obs and next_obs of a sample from neighbouring rows.",
    )
    return [plain, elision]


def _own(label: str, *args: object) -> Contestant:
    return own(SCRIPT, *args, label=label)


def _reference(task: str, *kinds: str) -> list[Contestant]:
    return [peer("ding_ref", f"DI-engine {kind}", SCRIPT, task, "--buffer", kind) for kind in kinds]


def _sample_op(size: int, targets: tuple[Target, ...]) -> OpSpec:
    return OpSpec(f"sample{size}", f"sample {size} to tensors", "batches", 0.4, quick=size == 256, targets=targets)


def _push_op(name: str, title: str, targets: tuple[Target, ...] = ()) -> OpSpec:
    return OpSpec(name, title, "rows/s", None, value="rows_per_s", quick=name == "push64", targets=targets)


def _memory_op(value: str, unit: str, *targets: Target) -> OpSpec:
    return OpSpec(
        "memory", "resident memory of a row", unit, None, value=value, lower=True, quick=False, targets=targets
    )
