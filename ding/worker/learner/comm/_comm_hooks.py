"""Hooks that report a learner's progress to the rest of a run."""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ding.data.roles import attribute_of
from ding.torch_utils.weight_checks import check_weights
from ding.utils.checkpoint import read_checkpoint, remove_checkpoint
from ding.worker.learner.learner_hook import (
    Engine,
    LearnerHook,
    checked_freq,
    save_learner_checkpoint,
)


class CommEngine(Engine, Protocol):
    """A learner that a comm learner made, as its hooks see it."""

    priority_info: dict[str, Any]
    send_policy: Callable[[dict[str, Any]], object]
    send_learn_info: Callable[[dict[str, Any]], object]

    @property
    def learn_info(self) -> dict[str, Any]:
        """What the last train iteration brought."""

    def debug(self, s: str) -> None:
        """Log a line for debugging."""


class SendPolicyHook(LearnerHook):
    """Publish the policy on rank 0.

    In ``after_iter`` every ``send_policy_freq`` train iterations, as long as ``engine.policy_is_due()`` agrees (where
    the comm layer sets that function); in the other positions always. Weights that are not finite are never published:
    they raise ``NonFiniteError``.

    ``ext_args``: ``send_policy_freq`` (default 1).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._freq = checked_freq(self.name, {"freq": (ext_args or {}).get("send_policy_freq", 1)})

    def __call__(self, engine: CommEngine) -> None:  # type: ignore[override]
        if engine.rank != 0:
            return
        last_iter = engine.last_iter.val
        if self.position == "after_iter":
            due: Callable[[], bool] | None = getattr(engine, "policy_is_due", None)
            if last_iter % self._freq or (due is not None and not due()):
                return
        state = engine.policy.state_dict()
        model = state["model"]
        check_weights(model, attribute_of(engine.policy, "model"), f"the policy of train iteration {last_iter}")
        engine.send_policy({**published(state), "iter": last_iter})


def published(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what collectors and evaluators get of the state of a learner: the network, and the statistics of
    observations and rewards where there are some.
    """
    return {key: state[key] for key in ("model", "normalization") if key in state}


class SendLearnInfoHook(LearnerHook):
    """Tell the coordinator what the train iteration brought: every ``freq`` iterations, and always when there are
    priorities for the buffer or the learner is done.

    ``ext_args``: ``freq`` (default 1).
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._freq = checked_freq(self.name, ext_args)

    def __call__(self, engine: CommEngine) -> None:  # type: ignore[override]
        last_iter = engine.last_iter.val
        if self.position == "after_iter" and last_iter % self._freq and not engine.priority_info:
            return
        info = engine.learn_info
        plain = {
            key: value.tolist() if hasattr(value, "tolist") else value for key, value in info["priority_info"].items()
        }
        engine.send_learn_info({**info, "priority_info": plain})
        if last_iter % self._freq == 0:
            engine.debug(f"{engine.instance_name} sent its info of train iteration {last_iter}")


class ResumePoint(LearnerHook):
    """Save, before a train iteration, the checkpoint from which a learner that was killed goes on.

    ``ext_args``: ``name`` (of the file in the checkpoint folder), ``freq`` (iterations) and ``interval_s`` (seconds):
    whatever passes first.
    """

    def __init__(self, *args: Any, ext_args: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = ext_args["name"]
        self._freq = checked_freq(self.name, ext_args)
        self._interval_s = float(ext_args["interval_s"])
        self._last_iter: int | None = None
        self._last_time = 0.0

    def __call__(self, engine: Engine) -> None:
        now, train_iter = time.monotonic(), engine.last_iter.val
        if self._last_iter is None:  # what was loaded, or the very beginning: nothing to lose
            self._last_iter, self._last_time = train_iter, now
        elif train_iter - self._last_iter >= self._freq or now - self._last_time >= self._interval_s:
            self.save(engine)

    def save(self, engine: Engine) -> None:
        """Save now, on rank 0."""
        if engine.rank == 0:
            previous, engine.ckpt_name = engine.ckpt_name, self._name
            try:
                save_learner_checkpoint(engine)
            finally:
                engine.ckpt_name = previous
        self._last_iter, self._last_time = engine.last_iter.val, time.monotonic()

    def path(self, engine: Engine) -> str:
        """Where it is saved."""
        suffix = "" if engine.instance_name == "learner" else f"_{engine.instance_name}"
        return os.path.join(".", engine.exp_name, f"ckpt{suffix}", self._name)

    def load(self, engine: Engine) -> bool:
        """Go on from what was saved; False when there is nothing."""
        path = self.path(engine)
        if not os.path.isfile(path):
            return False
        state = read_checkpoint(path)
        engine.last_iter.update(state.pop("last_iter"))
        engine.collector_envstep = state.pop("last_step")
        engine.policy.load_state_dict(state)
        engine.info(f"{engine.instance_name} goes on at train iteration {engine.last_iter.val} from {path}")
        return True

    def remove(self, engine: Engine) -> None:
        """The task is over."""
        if engine.rank == 0:
            remove_checkpoint(self.path(engine))
