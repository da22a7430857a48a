"""Through how many files one transition of a parallel run goes; ``python -m benchmarks.hops`` prints it.

Coordinator, learner and collector of the CartPole config run as threads of this process (``type: inproc``). Followed
is the way from the env manager's timestep to the batch in ``learner.train``. It has three legs, which a function of
``ding/{rollout,parallel,interaction,worker,data}`` belongs to when one of its arguments or its result holds, up to four
containers deep,

* ``data``: timesteps, a batch of transitions, or their columns (a dict with ``obs``): from the env through the data
  plane to the learner, past the coordinator;
* ``reference``: a chunk's id (in a reference, a message or the list of a batch): from the data plane through the
  coordinator and back to it;
* ``index``: a batch of rows of the coordinator's buffer, of which each is the number of a chunk and of a row there: the
  replay engine, which draws them as it draws those of a serial run.

A file may belong to several legs. Not counted: what comes before the timestep (the policy's actions) and what
``learner.train`` does with the batch; bodies of policies, models, losses and envs; logging; and the first passes of a
run, in which caches and layouts are made.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import re
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = str(ROOT / "ding") + os.sep
PARTS = ("rollout", "parallel", "interaction", "worker", "data")
CONFIG = "configs/cartpole/parallel/cartpole_dqn_config.py"
WARM_UP_ITERS = 200
TRACED_ITERS = 800
# Seen less often, a function was called where the tracing began, or in an exceptional case.
LEAST_CALLS = 3
_DEPTH = 4
_LOGGING = ("_StepTimes.add",)
LEGS = ("data", "reference", "index")
_CHUNK = re.compile(r"w[0-9a-f]{12}-\d+\.[0-9a-f]{8}")


class CarrierTracer:
    """Notes the functions of the counted parts that data or references go through, in all threads, while it is on."""

    def __init__(self) -> None:
        from ding.data import TimestepBatch, TransitionBatch
        from ding.envs import BaseEnvTimestep

        self._kinds = (TimestepBatch, TransitionBatch, BaseEnvTimestep)
        # What the learner does with a batch is not followed.
        self._in_train = threading.local()
        self._prefixes = tuple(PACKAGE + part + os.sep for part in PARTS)
        self.on = False
        self.calls: collections.Counter[tuple[str, str, str]] = collections.Counter()

    def install(self) -> None:
        """Trace all threads that begin from now on."""
        threading.setprofile(self._event)

    def uninstall(self) -> None:
        """Trace no thread that begins from now on."""
        self.on = False
        threading.setprofile(None)  # type: ignore[arg-type]

    def _event(self, frame: FrameType, event: str, arg: Any) -> None:
        if not self.on or event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(self._prefixes) or code.co_name.endswith(("comp>", "genexpr>")):
            return
        name = getattr(code, "co_qualname", code.co_name)
        if name in _LOGGING:
            return
        trains = name == "BaseLearner.train"
        if getattr(self._in_train, "now", False) and not trains:
            return
        self._in_train.now = trains and event == "call"
        if event == "call":
            # Variadic arguments come after the named ones.
            count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
            values = [frame.f_locals.get(name) for name in code.co_varnames[:count] if name not in ("self", "cls")]
        else:
            values = [arg]
        for leg in {leg for value in values for leg in self._carried(value, _DEPTH)}:
            self.calls[leg, code.co_filename.removeprefix(PACKAGE), name] += 1

    def _carried(self, value: object, depth: int) -> set[str]:
        """The legs to which a value belongs."""
        if isinstance(value, self._kinds):
            columns = getattr(getattr(value, "_table", None), "columns", None)
            return {"index" if columns is not None and "chunk" in columns else "data"}
        if isinstance(value, str):
            return {"reference"} if len(value) < 200 and _CHUNK.search(value) is not None else set()
        if depth == 0:
            return set()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._carried(vars(value) if hasattr(value, "__dict__") else None, depth)
        if isinstance(value, dict):
            inner = list(value.values())[:20]
        elif isinstance(value, (list, tuple)):
            inner = list(value[:3])
        else:
            return set()
        found = {"data"} if isinstance(value, dict) and "obs" in value else set()
        return found.union(*(self._carried(item, depth - 1) for item in inner))


def transition_carriers() -> collections.Counter[tuple[str, str, str]]:
    """Return the calls by (leg, file below ``ding/``, function) in a run in which all roles are threads."""
    from easydict import EasyDict

    from ding.config import compile_config_parallel
    from ding.entry.parallel_entry import load_parallel_input
    from ding.worker.collector.comm import create_comm_collector
    from ding.worker.coordinator import Coordinator
    from ding.worker.coordinator.master_hub import MasterHub
    from ding.worker.learner.comm import create_comm_learner

    main, create, system = load_parallel_input(str(ROOT / CONFIG))
    main.policy.learn.learner.learner_num = main.policy.collect.collector.collector_num = 1
    main.policy.other.commander.eval_interval = 10**6
    main.env.stop_value = 10**6
    cfg = compile_config_parallel(main, create, system, seed=0)
    own = cfg.system.coordinator
    own.update(learner={}, collector={}, planes="inproc", path_data="hops", transport="inproc", host="hops")
    tracer = CarrierTracer()
    tracer.install()
    hub = MasterHub(own)
    coordinator = Coordinator(cfg, hub=hub)
    workers = []
    try:
        coordinator.start()
        where = {"type": "inproc", "path_data": "hops", "path_policy": "hops", "host": "hops"}
        for kind, make in (("learner", create_comm_learner), ("collector", create_comm_collector)):
            address = {"coordinator_address": hub.my_address, "name": f"{kind}0"}
            workers.append(make(EasyDict({**where, **address})))
            workers[-1].start()
        _wait(coordinator, WARM_UP_ITERS)
        tracer.on = True
        _wait(coordinator, WARM_UP_ITERS + TRACED_ITERS)
    finally:
        tracer.uninstall()
        for worker in workers:
            worker.close()
        coordinator.close()
        sys.setprofile(None)
    return collections.Counter({key: count for key, count in tracer.calls.items() if count >= LEAST_CALLS})


def _wait(coordinator: Any, train_iter: int, timeout_s: float = 120.0) -> None:
    deadline = time.monotonic() + timeout_s
    while coordinator.status()["train_iter"] < train_iter:
        if coordinator.exception is not None:
            raise coordinator.exception
        if time.monotonic() > deadline:
            raise TimeoutError(f"train iteration {train_iter} was not reached in {timeout_s:.0f} s")
        time.sleep(0.05)
