"""Guided cost learning: a cost function under which an expert performs well, learned together with the agent."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import torch

from ding.data.roles import Samples, StateDict
from ding.entry.serial.arguments import InputConfig, RunArguments
from ding.entry.serial.demonstrations import Demonstrator, read_state
from ding.entry.serial.expert_path import SavedExpert, playing_expert
from ding.entry.serial.loop import DataPath, OnPolicyPath
from ding.entry.serial.parts import EnvSetting, ReplayBuffer, SerialParts, new_buffer
from ding.entry.serial.reward_path import place_and_writer, reward_model_config
from ding.entry.serial_entry import opened_run
from ding.entry.view.callbacks import RunCallback
from ding.entry.view.views import RunView
from ding.policy import Policy
from ding.reward_model import GuidedCostRewardModel, create_reward_model
from ding.utils import get_rank
from ding.utils.file_helper import save_file


class GuidedCostPath(DataPath):
    """Trains a cost on samples of the expert and the agent, and the policy on the newest samples with that cost.

    Args:
        parts: Workers of the run; the agent's samples are stored in their buffer.
        interruptible: Context manager for sections that a signal may interrupt at any point.
        expert: Collects as many samples as the agent, which are stored in ``demonstrations``.
    """

    def __init__(
        self,
        parts: SerialParts,
        interruptible: Callable[[], AbstractContextManager[None]],
        reward_model: GuidedCostRewardModel,
        expert: Demonstrator,
        demonstrations: ReplayBuffer,
    ) -> None:
        self._parts, self._interruptible, self.reward_model = parts, interruptible, reward_model
        self._inner = OnPolicyPath(parts, interruptible)
        self._expert, self._demonstrations = expert, demonstrations
        self._updates = int(parts.cfg.policy.learn.get("update_per_collect", 1))
        parts.saved["reward_model"] = self
        parts.saved["expert"] = SavedExpert(parts, expert, demonstrations)

    def collect(self) -> None:
        self._inner.collect()
        (self._newest,) = self._inner.batches()
        with self._interruptible():
            shown = self._expert.collect(n_sample=len(self._newest))
        learner, own, cfg = self._parts.learner, self._parts.buffer, self.reward_model.cfg
        assert own is not None
        own.push(self._newest, cur_collector_envstep=self._parts.collector.envstep)
        self._demonstrations.push(shown, cur_collector_envstep=0)
        size, train_iter = cfg.batch_size, learner.train_iter
        for _ in range(cfg.update_per_collect):
            pair = self._demonstrations.sample(size, train_iter), own.sample(size, train_iter)
            if pair[0] is None or pair[1] is None:
                break  # too few samples so far
            self.reward_model.train(*pair, train_iter, self._parts.collector.envstep)
        if train_iter % cfg.store_model_every_n_train == 0:
            self.save(f"iteration_{train_iter}")

    def batches(self) -> Iterator[Samples]:
        for _ in range(self._updates):
            yield self.reward_model.estimate(self._newest)

    def state_dict(self) -> StateDict:
        """Return the state that the cost needs to resume."""
        return self.reward_model.run_state()

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore a :meth:`state_dict`."""
        self.reward_model.load_run_state(state_dict)

    def save(self, name: str) -> None:
        """Write the model's state to ``reward_model/<name>.pth.tar``."""
        if get_rank() == 0:
            folder = os.path.join(self._parts.cfg.exp_name, "reward_model")
            os.makedirs(folder, exist_ok=True)
            save_file(os.path.join(folder, f"{name}.pth.tar"), self.reward_model.state_dict())


def serial_pipeline_guided_cost(
    input_cfg: InputConfig,
    seed: int = 0,
    env_setting: EnvSetting | None = None,
    model: torch.nn.Module | None = None,
    expert_model: torch.nn.Module | None = None,
    max_train_iter: int = int(1e10),
    max_env_step: int = int(1e10),
    *,
    view: RunView | None = None,
    strict: bool = False,
    callbacks: Sequence[RunCallback] = (),
) -> Policy:
    """Train a policy by guided cost learning with an expert, and return it.

    The expert is a policy of the same config with the weights ``policy.collect.model_path``. In each pass agent and
    expert collect the same amount; the cost is trained on all data so far, the policy on the newest samples,
    ``policy.learn.update_per_collect`` times (default 1). The policy must either recompute its advantages from the
    given rewards (``ppo``), or use none (``sac`` with ``collect.collector_logit``). Evaluations report the env's
    rewards.

    See ``serial_pipeline`` for other arguments, output files and the end of a run; the states of the cost are saved in
    ``reward_model/``.

    Args:
        expert_model: Network of the expert; by default the policy's own.
    """
    arguments = RunArguments(
        input_cfg, seed, env_setting, model, max_train_iter, max_env_step,
        view=view, strict=strict, callbacks=callbacks, expert_model=expert_model,
    )  # fmt: skip
    with opened_run(arguments, estimates_rewards=True) as run, contextlib.ExitStack() as ends:
        cfg = run.cfg
        state = read_state(cfg.policy.collect.get("model_path"), "policy.collect.model_path")
        own = reward_model_config(cfg)
        parts = ends.enter_context(run.parts())
        expert = ends.enter_context(playing_expert(arguments, cfg, state))
        section = cfg.policy.other.replay_buffer
        buffer = new_buffer(section, ends, exp_name=cfg.exp_name, instance_name="expert_buffer")
        made = create_reward_model(own, *place_and_writer(parts))
        data = GuidedCostPath(parts, run.interruptible, made, expert, buffer)
        run.train(parts, data, "serial_guided_cost")
        data.save("final_model")
        return parts.policy
