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
    """Interface of a comm learner's learner for its hooks."""

    priority_info: dict[str, Any]
    send_policy: Callable[[dict[str, Any]], object]
    send_learn_info: Callable[[dict[str, Any]], object]

    @property
    def learn_info(self) -> dict[str, Any]:
        """Info of the last train iteration."""

    def debug(self, s: str) -> None:
        """Log a line at debug level."""


class SendPolicyHook(LearnerHook):
    """Publish the policy on rank 0.

    At ``after_iter`` it publishes every ``send_policy_freq`` train iterations, provided that ``engine.policy_is_due()``
    agrees (if the comm layer sets that function); at other positions always. Non-finite weights raise
    ``NonFiniteError`` and are never published.

    ``ext_args``: ``send_policy_freq``, interval in train iterations (default 1).
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
    """Return the published part of a learner's state: the network, and the normalisation statistics of observations and
    rewards, if any.
    """
    return {key: state[key] for key in ("model", "normalization") if key in state}


class SendLearnInfoHook(LearnerHook):
    """Report the info of a train iteration to the coordinator.

    Reports every ``freq`` iterations, and always if there are priorities for the buffer or the learner is done.

    ``ext_args``: ``freq``, interval in train iterations (default 1).
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
    """Save, before a train iteration, the checkpoint from which a killed learner resumes.

    ``ext_args``: ``name`` (file name in the checkpoint folder), ``freq`` (interval in iterations) and ``interval_s``
    (interval in seconds), whichever passes first.
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
        if self._last_iter is None:  # just loaded or just started: nothing to lose
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
        """Return the path of the checkpoint."""
        suffix = "" if engine.instance_name == "learner" else f"_{engine.instance_name}"
        return os.path.join(".", engine.exp_name, f"ckpt{suffix}", self._name)

    def load(self, engine: Engine) -> bool:
        """Resume from the saved checkpoint; return False if there is none."""
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
        """Delete the checkpoint at the end of the task."""
        if engine.rank == 0:
            remove_checkpoint(self.path(engine))
