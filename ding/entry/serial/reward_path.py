"""Learning from estimated rewards: a data path around another one."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from easydict import EasyDict

from ding.config import ConfigValueError
from ding.data.roles import Samples, StateDict
from ding.entry.serial.arguments import InputConfig, RunArguments
from ding.entry.serial.loop import DataPath, OnPolicyPath, ReplayPath
from ding.entry.serial.parts import SerialParts
from ding.entry.serial_entry import load_input, opened_run
from ding.policy import Policy
from ding.reward_model import BaseRewardModel, create_reward_model
from ding.reward_model.base_reward_model import checkpoint_path
from ding.utils import get_rank
from ding.utils.file_helper import read_file
from ding.worker.learner.learner_hook import LearnerHook

logger = logging.getLogger("ding.entry")

_SUFFIX = ".pth.tar"


class RewardModelPath(DataPath):
    """Trains a reward model on collected samples, and the policy on its estimated rewards.

    The replay buffer stores the rewards of the env. The model is saved with each checkpoint of the learner:
    ``reward_model/ckpt/ckpt_best.pth.tar``, at the end ``ckpt_last.pth.tar``. A snapshot contains the model's full
    state for resumption.

    Args:
        parts: Workers of the run.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        reward_model: Reward model; its config keys ``target_new_data_count`` (samples to collect before a training, at
            least one collection) and ``clear_buffer_per_iters`` (trainings after which its data is cleared) apply.
        on_policy: Whether the policy trains only on the newest samples, ``policy.learn.update_per_collect`` times
            (default 1).
        trains: Whether the model is trained continuously; otherwise its ``train`` is called once, before the first
            pass, without collected data.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        reward_model: BaseRewardModel,
        on_policy: bool,
        trains: bool = True,
    ) -> None:
        self._parts, self.reward_model, self._trains = parts, reward_model, trains
        self._inner: ReplayPath | OnPolicyPath
        if on_policy:
            self._inner = OnPolicyPath(parts, interruptible, self._show)
        else:
            self._inner = ReplayPath(parts, interruptible, self._show, joins=False)
        self._rounds = int(parts.cfg.policy.learn.get("update_per_collect", 1)) if on_policy else 1
        self._new_count = self._trainings = 0
        self._taken_up = False
        parts.saved["reward_model"] = self
        hooks = parts.learner.hooks["after_run"]
        for place, hook in enumerate(hooks):
            if hook.name == "save_ckpt_after_run":
                hooks[place] = _SaveBoth(hook, reward_model)

    def prepare(self) -> None:
        learn = self._parts.cfg.policy.learn
        checkpoint = learn.learner.get("hook", {}).get("load_ckpt_before_run")
        if learn.get("resume_training", False) and checkpoint and not self._taken_up:
            self._load_beside(str(checkpoint))
        if not self._trains and not self._taken_up:
            self.reward_model.train()
        self._inner.prepare()

    def _load_beside(self, checkpoint: str) -> None:
        """Load the model saved with this checkpoint, from a run whose snapshot does not contain the model."""
        folder, name = os.path.split(checkpoint.rstrip(os.sep))
        name = name.removesuffix(_SUFFIX).removeprefix("ckpt_").replace("snapshot_", "iteration_")
        path = checkpoint_path(os.path.dirname(folder), name)
        if os.path.isfile(path):
            self.reward_model.load_state_dict(read_file(path))
            self._taken_up = True
            logger.warning("the reward model goes on with what it had learned, in %s, but without its samples", path)
        else:
            logger.warning("the reward model begins anew: there is no %s", path)

    def state_dict(self) -> StateDict:
        """Return the state that the model needs to resume, and the number of its trainings."""
        return {"model": self.reward_model.run_state(), "num_trainings": self._trainings}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        self.reward_model.load_run_state(state_dict["model"])
        self._trainings = int(state_dict["num_trainings"])
        self._taken_up = True

    def collect(self) -> None:
        # A user-defined model need not keep its config.
        cfg = getattr(self.reward_model, "cfg", self._parts.cfg)
        cfg = cfg.get("reward_model", cfg)
        self._new_count = 0
        while True:
            self._inner.collect()
            if self._new_count >= cfg.get("target_new_data_count", 1):
                break
        if not self._trains:
            return
        self.reward_model.train()
        if self._trainings % cfg.get("clear_buffer_per_iters", 1) == 0:
            self.reward_model.clear_data()
        self._trainings += 1

    def batches(self) -> Iterator[Samples]:
        for batch in self._inner.batches():
            for _ in range(self._rounds):
                yield self.reward_model.estimate(batch)

    def trained(self) -> None:
        self._inner.trained()

    def _show(self, samples: Samples) -> Samples:
        self._new_count += len(samples)
        self.reward_model.collect_data(samples)
        return samples


class _SaveBoth(LearnerHook):
    """Saves the reward model with each checkpoint that another hook saves."""

    def __init__(self, hook: LearnerHook, reward_model: BaseRewardModel) -> None:
        super().__init__(hook.name, hook.priority, position=hook.position)
        self._hook, self._reward_model = hook, reward_model

    def __call__(self, engine: Any) -> None:
        self._hook(engine)
        if engine.rank == 0:
            name = (engine.ckpt_name or "last").removesuffix(_SUFFIX).removeprefix("ckpt_")
            self._reward_model.save(engine.exp_name, name)


def run_with_reward_model(
    arguments: RunArguments,
    on_policy: bool,
    mode: str | None = None,
    options: Sequence[str] = (),
    before: Callable[[EasyDict], None] = lambda cfg: None,
    ranked: bool = False,
) -> Policy:
    """Run a pipeline with a reward model.

    Args:
        arguments: Arguments of the pipeline.
        on_policy: Whether there is no replay buffer.
        mode, options: Name of the pipeline for ``ding -m``, and additional options of its command line.
        before: Called with the compiled config before anything is created; may modify its ``reward_model``.
        ranked: Whether the model reads the whole config, and learns once from files in the experiment folder;
            ``reward_model.type`` of the main config names it.
    """
    if ranked:
        arguments = replace(arguments, input_cfg=ranked_input(arguments.input_cfg))
    with opened_run(arguments, keep_folder=ranked, estimates_rewards=True) as run:
        cfg = run.cfg
        if bool(cfg.policy.on_policy) is not on_policy:
            right = "serial_pipeline_reward_model_" + ("offpolicy" if on_policy else "onpolicy")
            sentence = f"policy.on_policy is {cfg.policy.on_policy}: run this config with {right}"
            if not on_policy:
                raise ConfigValueError(sentence)
            # A DI-engine config combines RND with an off-policy PPO, which learns from the newest samples.
            logger.warning("%s; here it learns from what was just collected, without a replay buffer", sentence)
        before(cfg)
        own = reward_model_config(cfg)
        with run.parts(with_buffer=not on_policy) as parts:
            made = create_reward_model(cfg if ranked else own, *place_and_writer(parts))
            data = RewardModelPath(parts, run.interruptible, made, on_policy, trains=not ranked)
            mode = mode or ("serial_reward_model_onpolicy" if on_policy else "serial_reward_model")
            run.train(parts, data, mode, options)
            return parts.policy


def ranked_input(input_cfg: InputConfig) -> tuple[EasyDict, EasyDict]:
    """Return the configs, with ``reward_model.type`` of the main config in the create config.

    Raises:
        ConfigValueError: The type is missing.
    """
    main, create = load_input(input_cfg)
    kind = main.get("reward_model", {}).get("type") or create.get("reward_model", {}).get("type")
    if kind is None:
        raise ConfigValueError("main_config.reward_model.type is missing: it must name the reward model, such as trex")
    create.reward_model = EasyDict({**create.get("reward_model", {}), "type": kind})
    return main, create


def reward_model_config(cfg: EasyDict) -> EasyDict:
    """Return the section ``reward_model`` of a compiled config.

    Raises:
        ConfigValueError: The section is missing.
    """
    if not cfg.get("reward_model"):
        raise ConfigValueError("create_config.reward_model is missing: it must be a dict with the `type` of the model")
    return EasyDict({"exp_name": cfg.exp_name, **cfg.reward_model})


def place_and_writer(parts: SerialParts) -> tuple[str, Any]:
    """Return the device of the policy, and the TensorBoard writer (only in the first process)."""
    writer = parts.learner.tb_logger if get_rank() == 0 else None
    return str(parts.policy.learn_mode.get_attribute("device")), writer
