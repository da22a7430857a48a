"""QGPO: actions of a data set's kind, guided towards high values by energies (Lu et al. 2023, arXiv:2304.12824)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.columns import stack_rows
from ding.data.roles import StateDict
from ding.model import model_wrap
from ding.model.template.qgpo import QGPO
from ding.policy._acting.offline import OfflinePolicy
from ding.policy._learning.accumulation import GradientSums
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy.errors import PolicyConfigError, PolicyDataError
from ding.utils import POLICY_REGISTRY

_FIELDS = ("s", "a", "r", "s_", "d", "fake_a", "fake_a_")
_CRITIC_RATE = 3e-4


@POLICY_REGISTRY.register("qgpo")
class QGPOPolicy(OfflinePolicy):
    """Q-guided policy optimisation: at first a diffusion learns the actions of a data set; then Q functions learn from
    its actions, and energies that guide it. It learns from data sets only, with the middleware
    ``qgpo_support_data_generator`` and ``qgpo_offline_data_fetcher``.
    """

    config = {
        "type": "qgpo",
        "cuda": False,
        "on_policy": False,
        "multi_agent": False,
        "model": {
            # (float) Inverse temperatures: of the guided policy, and of the values of next states.
            "qgpo_critic": {"alpha": 3, "q_alpha": 1},
            # (str) Kept for configs of DI-engine: the network is where policy.cuda puts it.
            "device": "cuda",
        },
        "learn": {
            "learning_rate": 1e-4,
            # (int) Samples of an update of the diffusion.
            "batch_size": 4096,
            # (int) Samples of an update of Q functions and energies.
            "batch_size_q": 256,
            # (int) Actions that are drawn for each state.
            "M": 16,
            # (int) Evaluations of the network for each of them.
            "diffusion_steps": 15,
            # (int) The last update of the diffusion.
            "behavior_policy_stop_training_iter": 600000,
            # (int) The update after which Q functions and energies begin to learn.
            "energy_guided_policy_begin_training_iter": 600000,
            # (float) Share of the Q functions that their target takes over at each update. What is n steps ahead counts
            # after about n / target_theta updates.
            "target_theta": 0.005,
            # (int) The update with which Q functions end.
            "q_value_stop_training_iter": 1100000,
        },
        "collect": {},
        "eval": {
            # (list of float) What evaluations take as ``guidance_scale``, one after the other.
            "guidance_scale": [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0],
            # (int) Evaluations of the network for an action.
            "diffusion_steps": 15,
        },
        "other": {"replay_buffer": {}},
    }

    learn_state = {
        "model": "_model",
        "behavior_model_optimizer": "_score_optimizer",
        "q0_optimizer": "_q_optimizer",
        "qt_optimizer": "_energy_optimizer",
        "calls": "_calls",
    }
    learn_rates = {"cur_lr": "_score_optimizer"}
    learn_fields = _FIELDS

    _model: QGPO

    def _create_model(self, cfg: Any, model: torch.nn.Module | None = None) -> torch.nn.Module:
        if model is not None or "type" in cfg.model:
            return super()._create_model(cfg, model)
        for key in ("obs_dim", "action_dim"):
            if key not in cfg.model:
                raise PolicyConfigError(f"policy.model.{key} is missing; or give QGPOPolicy a model")
        return QGPO(cfg.model)

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        self._learn_model = model
        self._score_optimizer = clipping_adam(_trained(model.score_model), learn)
        self._q_optimizer = clipping_adam(_trained(model.q.q0), learn, lr=_CRITIC_RATE)
        self._energy_optimizer = clipping_adam(_trained(model.q.qt), learn, lr=_CRITIC_RATE)
        self._calls = GradientSums({}, 1)  # of which the number of calls is needed
        follow = {"update_type": "momentum", "update_kwargs": {"theta": learn.target_theta}}
        self._target_q = model_wrap(model.q.q0_target, wrapper_name="target", **follow)

    def _forward_learn(self, data: Any) -> Logs:
        """One update on ``s [B, O], a [B, A], r [B, 1], s_ [B, O], d [B, 1], fake_a [B, M, A], fake_a_ [B, M, A]``.

        Args:
            data: a dict of tensors, columns, or a list of dicts. The last two fields are the actions of the diffusion
                in ``s`` and ``s_``, and not needed while only that learns.

        Returns:
            Floats; losses of what does not learn are 0.

        Raises:
            PolicyDataError: a field is missing.
        """
        learn, count = self._cfg.learn, self._calls.next_call()
        energies = count > learn.energy_guided_policy_begin_training_iter
        turn = {
            "with_score": count <= learn.behavior_policy_stop_training_iter,
            "with_q": energies and count < learn.q_value_stop_training_iter,
            "with_energies": energies,
        }
        return self._learn(data, 1, [turn])

    def _update(
        self,
        batch: Mapping[str, Any],
        *,
        with_score: bool = True,
        with_q: bool = True,
        with_energies: bool = True,
        **options: Any,
    ) -> dict[str, torch.Tensor]:
        """One step of what learns now.

        The scores learn ``-e / sigma`` at ``alpha a + sigma e``. ``Q_i(s, a)`` meet ``r + discount sum_j w_j Q'(s_,
        a_j)`` with ``w = softmax(q_alpha Q')`` over actions ``a_j`` of the diffusion. The energies of such actions with
        noise learn, by a cross entropy, ``softmax(alpha Q'(s, a_j))``: their gradients are what guides the diffusion.
        """
        model = self._model
        zero = torch.zeros((), device=batch["s"].device)
        losses = {"behavior_model_training_loss": zero, "q0_loss": zero, "qt_loss": zero}
        if with_score:
            loss = losses["behavior_model_training_loss"] = model.score_model_loss_fn(batch["a"], batch["s"])
            self._optimize(loss, self._score_optimizer, model.score_model)
        if with_q:
            fields = (batch[key] for key in ("a", "s", "r", "s_", "d", "fake_a_"))
            loss = losses["q0_loss"] = model.q_loss_fn(*fields)
            self._optimize(loss, self._q_optimizer, model.q.q0)
            self._target_q.update(model.q.q0)
        if with_energies:
            loss = losses["qt_loss"] = model.qt_loss_fn(batch["s"], batch["fake_a"])
            self._optimize(loss, self._energy_optimizer, model.q.qt)
        return {"total_loss": torch.stack([one.detach() for one in losses.values()]).sum(), **losses}

    def _learn_batch(self, data: Any, weighted: bool | None = None) -> dict[str, Any]:
        """Return the fields as float32 tensors on the device; numbers of a sample are ``[B, 1]``."""
        columns: Any = data.columns if isinstance(data, TransitionBatch) else data
        if not isinstance(columns, Mapping):
            columns = stack_rows(list(columns))
        missing = [key for key in _FIELDS if key not in columns]
        if missing:
            raise PolicyDataError(f"qgpo learns from {', '.join(_FIELDS)}; the samples lack {missing}")
        batch = {
            key: torch.as_tensor(columns[key], dtype=torch.float32, device=self._device).contiguous()
            for key in _FIELDS
        }  # fmt: skip
        rows = len(batch["s"])
        return {**batch, "r": batch["r"].reshape(rows, 1), "d": batch["d"].reshape(rows, 1)}

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "behavior_model_training_loss", "q0_loss", "qt_loss"]

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine has neither the optimisers of Q functions and energies nor the number of calls."""
        own = self._state_dict_learn()
        absent = {key: own[key] for key in ("q0_optimizer", "qt_optimizer")}
        calls = self._calls.state_after(state_dict.get("behavior_model_optimizer", {}))
        super()._load_state_dict_learn({**absent, "calls": calls, **state_dict})

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_eval(self, data: EnvBatch, guidance_scale: float = 1.0) -> EnvBatch:  # type: ignore[override]
        """``action`` float32 ``[N, A]`` in the states ``[N, O]``.

        Args:
            guidance_scale: how much the energies count; 0: actions as in the data set.
        """
        states, steps = np.asarray(data.columns, np.float32), int(self._cfg.eval.diffusion_steps)
        drawn = self._model.sample(states, 1, steps, guidance_scale)
        return EnvBatch(data.env_ids, {"action": torch.from_numpy(drawn[:, 0])})


def _trained(network: torch.nn.Module) -> list[torch.nn.Parameter]:
    """The parameters but the frequencies of the embedding of time."""
    return [parameter for parameter in network.parameters() if parameter.requires_grad]
