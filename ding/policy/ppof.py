"""PPO as one object for all modes with a flat config (Schulman et al. 2017, arXiv:1707.06347)."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from easydict import EasyDict

from ding.data import TransitionBatch
from ding.data.roles import StateDict
from ding.model import PPOFModel
from ding.policy._acting.observations import network_columns
from ding.policy._learning.normalized_state import KEY
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.ppo_parameters import init_ppo_parameters
from ding.policy._learning.update import read_out
from ding.policy._samples.segments import minibatches
from ding.policy.common_utils import transition_done
from ding.policy.errors import PolicyConfigError, PolicyUsageError
from ding.policy.ppo import PPOLoss, PPOSettings, ppo_loss
from ding.rl_utils import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
    gae,
    gae_data,
)
from ding.rl_utils.normalization import Normalization, attach_statistics
from ding.rl_utils.value_rescale import inv_symlog, symlog, value_inv_transform, value_transform
from ding.torch_utils.data_helper import to_device
from ding.torch_utils.device import place_module
from ding.utils import POLICY_REGISTRY, RunningMeanStd
from ding.utils.names import did_you_mean
from ding.utils.nested import map_together

_FIELDS = ("obs", "action", "logit", "value", "adv", "return", "weight")
_SAMPLERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "discrete": (MultinomialSampler, ArgmaxSampler),
    "continuous": (ReparameterizationSampler, MuSampler),
    "hybrid": (HybridStochasticSampler, HybridDeterminsticSampler),
}
_Transform = Callable[[torch.Tensor], torch.Tensor]
# From predicted values to those of the rewards, and back.
_TRANSFORMS: dict[str, tuple[_Transform, _Transform]] = {
    "value_rescale": (value_inv_transform, value_transform),
    "symlog": (inv_symlog, symlog),
}
_VALUE_NORMS = ("baseline", "deviation", "popart", *_TRANSFORMS)


@POLICY_REGISTRY.register("ppof")
class PPOFPolicy:
    """PPO for trees: mappings with attribute access, in and out.

    ``learn_mode``, ``collect_mode`` and ``eval_mode`` are this object.

    Args:
        cfg: flat; see ``config``.
        model: a :class:`ding.model.template.ppof.PPOFModel`.
        enable_mode: which of ``learn``, ``collect``, ``eval`` to prepare; all of them by default.

    Raises:
        PolicyConfigError: an unknown ``action_space`` or ``value_norm``.
        PolicyUsageError: an unknown mode.
    """

    config = {
        "type": "ppo",
        "on_policy": True,
        # (bool or 'auto') Whether to use a GPU: where there is one; without it True warns, and 'auto' does not.
        "cuda": "auto",
        # (str) 'discrete', 'continuous' or 'hybrid'.
        "action_space": "discrete",
        "discount_factor": 0.99,
        "gae_lambda": 0.95,
        # (int) How often all samples of a collection are gone through.
        "epoch_per_collect": 10,
        "batch_size": 64,
        "learning_rate": 3e-4,
        # (pair or None) Of how many collections, to which share: linear decay of the learning rate.
        "lr_scheduler": None,
        "weight_decay": 0,
        "value_weight": 0.5,
        "entropy_weight": 0.01,
        "clip_ratio": 0.2,
        # (bool) Whether advantages are normalised in each minibatch.
        "adv_norm": True,
        # (str) 'baseline' (by the square root of the deviation of returns), 'deviation' (by the deviation: where
        # rewards are dense it may learn much faster), 'popart', 'value_rescale' or 'symlog'.
        "value_norm": "baseline",
        # (bool) Whether to start from orthogonal weights.
        "ppo_param_init": True,
        # (float) Limit of the 2-norm of the gradient.
        "grad_norm": 0.5,
        # (int) Samples per collection.
        "n_sample": 128,
        "unroll_len": 1,
        # (bool) Whether evaluation takes the most likely action, and does not draw one.
        "deterministic_eval": True,
        # (bool) Whether to compute the numbers of DI-engine where the default is a correction of them.
        "reference_numerics": False,
        "model": {},
        # What the workers of a pipeline read.
        "learn": {
            # (bool) Whether to go on from the iteration counters of a loaded checkpoint.
            "resume_training": False,
            # (str) NaN or infinity in a loss or weights: 'raise' ends the run with a report, 'ignore' goes on.
            "on_nonfinite": "raise",
        },
        "eval": {"evaluator": {"eval_freq": 200}},
    }
    mode = ["learn", "collect", "eval"]

    @classmethod
    def default_config(cls) -> EasyDict:
        """A fresh copy of the defaults, plus ``cfg_type``."""
        return EasyDict({**copy.deepcopy(cls.config), "cfg_type": cls.__name__ + "Dict"})

    @classmethod
    def default_model(cls) -> Callable[..., torch.nn.Module]:
        """``PPOFModel``."""
        return PPOFModel

    def __init__(self, cfg: EasyDict, model: torch.nn.Module, enable_mode: list[str] | None = None) -> None:
        self._cfg = cfg
        #: Statistics of observations and rewards.
        self.normalization = Normalization()
        for key, known in (("action_space", _SAMPLERS), ("value_norm", _VALUE_NORMS)):
            if cfg[key] not in known:
                raise PolicyConfigError(f"{key}: {cfg[key]!r} is unknown.{did_you_mean(str(cfg[key]), known)}")
        for name in enable_mode or ():
            if name not in self.mode:
                raise PolicyUsageError(f"enable_mode: {name!r} is not a mode.{did_you_mean(name, self.mode)}")
        self._model: Any = model
        attach_statistics(model, self.normalization)
        self._device = place_module(model, cfg.cuda)
        self._cuda = self._device != "cpu"
        self._reference_numerics = bool(cfg.get("reference_numerics", False))
        draw, best = _SAMPLERS[cfg.action_space]
        self._collect_sampler, self._eval_sampler = draw(), (best if cfg.deterministic_eval else draw)()
        if "learn" in (enable_mode or self.mode):
            self._init_learn()
        self.learn_mode = self.collect_mode = self.eval_mode = self

    @property
    def model(self) -> torch.nn.Module:
        """The network."""
        network: torch.nn.Module = self._model
        return network

    def _init_learn(self) -> None:
        cfg = self._cfg
        if cfg.ppo_param_init:
            init_ppo_parameters(self._model)
        self._optimizer = clipping_adam(self._model.parameters(), cfg, optim_type="adamw")
        self._running_mean_std = RunningMeanStd(epsilon=1e-4)
        self._settings = PPOSettings(
            clip_ratio=cfg.clip_ratio,
            value_weight=cfg.value_weight,
            entropy_weight=cfg.entropy_weight,
            adv_norm=cfg.adv_norm,
            reference_numerics=self._reference_numerics,
        )

    def forward(self, data: Mapping[str, Any] | TransitionBatch) -> list[dict[str, float]]:
        """Learn from the samples of a collection, in the order in which they were collected.

        Args:
            data: ``TransitionBatch`` or tree of ``obs, next_obs, action, logit, value, reward, done, traj_flag``,
                ``[B, ...]``. A short last minibatch is filled up with other samples; with ``reference_numerics`` what
                is left over beyond whole minibatches is not looked at.

        Returns:
            Per minibatch ``cur_lr`` and the fields of ``PPOLoss``, as floats.
        """
        cfg = self._cfg
        size = cfg.n_sample // cfg.batch_size * cfg.batch_size if self._reference_numerics else None
        columns = data.columns if isinstance(data, TransitionBatch) else data
        batch = map_together(lambda rows: rows[:size], columns)
        batch = {
            key: (network_columns if key in ("obs", "next_obs") else to_device)(value, self._device)
            for key, value in batch.items()
        }
        if not self._model.training:
            self._model.train()
        results = []
        for _ in range(cfg.epoch_per_collect):
            batch.update(self._returns(batch))
            for part in minibatches(batch, _FIELDS, cfg.batch_size):
                result = ppo_loss(self._model.compute_actor_critic, part, self._settings)
                self._optimizer.zero_grad()
                result.total_loss.backward()
                torch.nn.utils.clip_grad_norm_(self._model.parameters(), cfg.grad_norm)
                self._optimizer.step()
                results.append(result.numbers())
        rate = self._optimizer.param_groups[0]["lr"]
        if self._optimizer.schedule is not None:
            self._optimizer.schedule.step(self._optimizer)
        read = read_out({(index, key): one for index, row in enumerate(results) for key, one in row.items()})
        names = {"act": "action"}
        return [
            {"cur_lr": rate, **{names.get(key, key): read[index, key] for key in row}}
            for index, row in enumerate(results)
        ]

    def _returns(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """``value, adv, return`` for an epoch, values and returns as the critic predicts them.

        The statistics of ``baseline`` are those of the divided returns, so that the unit is the square root of the
        deviation of returns; with ``deviation`` it is that of all returns until now, these included. A unit that does
        not include these grows without end where only time limits end episodes: each growth makes the values grow.
        """
        cfg, kind, rewards = self._cfg, self._cfg.value_norm, _flat(batch["reward"])
        with torch.no_grad():
            value, next_value = (self._model.compute_critic(batch[key])["pred"] for key in ("obs", "next_obs"))
        reward, scale, raw, raw_next = rewards, 1.0, value, next_value
        if kind in _TRANSFORMS:
            raw, raw_next = (_TRANSFORMS[kind][0](one) for one in (value, next_value))
        elif kind == "popart":
            layer = self._model.critic_head.popart
            reward = (rewards - layer.mu) / layer.sigma
        else:
            scale = self._running_mean_std.std
            raw, raw_next = value * scale, next_value * scale
        data = gae_data(raw, raw_next, reward, _flat(batch["done"]), _flat(batch["traj_flag"]))
        adv = gae(data, cfg.discount_factor, cfg.gae_lambda)
        returns = raw + adv
        if kind in _TRANSFORMS:
            return {"value": value, "adv": adv, "return": _TRANSFORMS[kind][1](returns)}
        if kind == "popart":
            layer.update_parameters(rewards.unsqueeze(1))
        else:
            self._running_mean_std.update(returns if kind == "deviation" else returns / scale)
            scale = self._running_mean_std.std if kind == "deviation" else scale
        return {"value": value, "adv": adv, "return": returns / scale}

    def collect(self, data: Any) -> EasyDict:
        """Observations ``[N, ...]`` to a tree of ``logit, value, action``, the action drawn from the policy."""
        with torch.no_grad():
            output = self._model.compute_actor_critic(data)
            output.action = self._collect_sampler(output.logit)
        return output

    def eval(self, data: Any) -> EasyDict:
        """Observations ``[N, ...]`` to a tree of ``logit, action``."""
        with torch.no_grad():
            logit = self._model.compute_actor(data)
            return EasyDict(logit=logit, action=self._eval_sampler(logit))

    def process_transition(self, obs: Any, inference_output: Mapping[str, Any], timestep: Any) -> EasyDict:
        """The transition of one environment, as a tree; ``done`` is False at a time limit."""
        output = {key: inference_output[key] for key in ("action", "logit", "value")}
        done = transition_done(timestep, self._reference_numerics)
        return EasyDict(obs=obs, next_obs=timestep.obs, **output, reward=timestep.reward, done=done)

    def reset(self, env_id_list: list[int] | None = None) -> None:
        """Nothing is remembered of environments."""
        return

    def state_dict(self) -> StateDict:
        """``model``; where this policy learns ``optimizer`` and ``value_norm``, the statistics of the returns; and
        ``normalization`` where envs have ``obs_norm`` or ``reward_norm``.
        """
        state: StateDict = {"model": self._model.state_dict()}
        if "_optimizer" in vars(self):
            state["optimizer"] = self._optimizer.state_dict()
            state["value_norm"] = self._running_mean_std.state_dict()
        return state | ({KEY: found} if (found := self.normalization.state_dict()) else {})

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Load what :meth:`state_dict` returned; DI-engine has no ``value_norm``."""
        self._model.load_state_dict(state_dict["model"])
        if state_dict.get(KEY):
            self.normalization.load_state_dict(state_dict[KEY])
        elif KEY not in state_dict:
            self.normalization.note_state_without()
        if "_optimizer" in vars(self):
            parts: dict[str, Any] = {"optimizer": self._optimizer, "value_norm": self._running_mean_std}
            for key in parts.keys() & state_dict.keys():
                parts[key].load_state_dict(state_dict[key])

    def monitor_vars(self) -> list[str]:
        """Names of the values that are logged."""
        names = [name for name in PPOLoss._fields if name not in ("kl_div", "act", "mu_mean", "sigma_mean")]
        continuous = ["action", "mu_mean", "sigma_mean"] if self._cfg.action_space == "continuous" else []
        return ["cur_lr", *names, *continuous]


def _flat(column: torch.Tensor) -> torch.Tensor:
    """``[B, 1]`` -> ``[B]``, as float32."""
    return column.reshape(len(column)).float()
