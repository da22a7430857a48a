"""Planning with diffusion: plans are drawn as a whole, towards high returns (Janner et al. 2022, arXiv:2205.09991)."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ding.data import EnvBatch, TransitionBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.policy._acting.offline import OfflinePolicy
from ding.policy._learning.accumulation import GradientSums
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy.errors import PolicyDataError, PolicyUsageError
from ding.utils import POLICY_REGISTRY
from ding.utils.normalizer_helper import DatasetNormalizer

if TYPE_CHECKING:
    from ding.model.template.diffusion import PlanDiffuser

_FIELDS = ("trajectories", "condition_id", "condition_val")


@POLICY_REGISTRY.register("pd")
class PDPolicy(OfflinePolicy):
    """A plan diffuser: it draws trajectories from the present observation, guided by their values, and acts by the
    best one; it learns from data sets only.

    A sample is a window of a trajectory, as the data set ``diffuser_traj`` gives it. Without ``model.value_model`` it
    plans from an observation to a goal: an evaluator's env gives both, one after the other, ``[2 O]``, and the actions
    move from one observation of the plan to the next.
    """

    config = {
        "type": "pd",
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        "random_collect_size": 10000,
        "nstep": 1,
        # (str) How observations and actions are normalised: see ding.utils.normalizer_helper.
        "normalizer": "GaussianNormalizer",
        "model": {
            # (str) What draws plans: 'GaussianDiffusion', or 'GaussianInvDynDiffusion' of observations alone.
            "diffuser_model": "GaussianDiffusion",
            "diffuser_model_cfg": {
                # (str) The network, its arguments, and the sizes of trajectories: give those of the data.
                "model": "DiffusionUNet1d",
                "model_cfg": {
                    "transition_dim": 23,
                    "dim": 32,
                    "dim_mults": [1, 2, 4, 8],
                    "returns_condition": False,
                    "condition_dropout": 0.1,
                    "calc_energy": False,
                    "kernel_size": 5,
                    "attention": False,
                },
                "horizon": 80,
                "obs_dim": 17,
                "action_dim": 6,
                "n_timesteps": 1000,
                "predict_epsilon": True,
                "loss_discount": 1.0,
                "clip_denoised": False,
                "action_weight": 10,
            },
            # (str or None) None: plans are not guided by values.
            "value_model": "ValueDiffusion",
            "value_model_cfg": {
                "model": "TemporalValue",
                "model_cfg": {
                    "horizon": 80,
                    "transition_dim": 23,
                    "dim": 32,
                    "dim_mults": [1, 2, 4, 8],
                    "kernel_size": 5,
                },
                "horizon": 80,
                "obs_dim": 17,
                "action_dim": 6,
                "n_timesteps": 1000,
                "predict_epsilon": True,
                "loss_discount": 1.0,
                "clip_denoised": False,
                "action_weight": 1.0,
            },
            # (int) Moves up the values in each diffusion step.
            "n_guide_steps": 2,
            # (float) Size of these moves.
            "scale": 0.1,
            # (int) Number of the last diffusion steps without them.
            "t_stopgrad": 2,
            # (bool) Whether they shrink with the noise.
            "scale_grad_by_std": True,
        },
        "learn": {
            "update_per_collect": 1,
            "batch_size": 100,
            "learning_rate": 3e-4,
            "ignore_done": False,
            "discount_factor": 0.99,
            # (int) Calls of learning until the sum of their gradients makes a step.
            "gradient_accumulate_every": 2,
            "train_epoch": 60000,
            # (int) Plans that are drawn for an action.
            "plan_batch_size": 64,
            # (int) The plans of the evaluation come from a second network, which is a copy of the learner until this
            # call, and moves towards it from then on.
            "step_start_update_target": 2000,
            # (int) Calls from one copy or move to the next.
            "update_target_freq": 10,
            # (float) What stays of the second network at a move.
            "target_weight": 0.995,
            # (int) Calls in which the values learn.
            "value_step": 200e3,
            # (bool) Whether samples have the return, from which the values learn.
            "include_returns": True,
            # Kept for configs of DI-engine.
            "target_theta": 0.005,
            "init_w": 3e-3,
        },
        "collect": {"unroll_len": 1},
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 1000000}},
    }

    learn_state = {
        "model": "_model",
        "target_model": "_target_model",
        "plan_optimizer": "_plan_optimizer",
        "value_optimizer": "_value_optimizer",
        "gradient_sums": "_sums",
    }
    learn_rates = {"cur_lr": "_plan_optimizer"}
    learn_fields = _FIELDS

    _model: "PlanDiffuser"
    _normalizer: DatasetNormalizer | None = None

    def default_model(self) -> tuple[str, list[str]]:
        """``pd`` of :mod:`ding.model.template.diffusion`."""
        return "pd", ["ding.model.template.diffusion"]

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        for part in (model.diffuser, model.value):
            if part is not None:
                part.reference_numerics = self._reference_numerics
        self._plan_optimizer = clipping_adam(model.diffuser.model.parameters(), learn)
        if model.value is None:
            self.learn_state = {key: name for key, name in self.learn_state.items() if key != "value_optimizer"}
        else:
            self._value_optimizer = clipping_adam(model.value.model.parameters(), learn)
        trained = {"diffuser": model.diffuser.model, **({} if model.value is None else {"value": model.value.model})}
        self._sums = GradientSums(trained, int(learn.gradient_accumulate_every)).to(self._device)
        self._learn_model, self._planner = model, copy.deepcopy(model)
        # Two ways for the planner to follow the learner.
        share = {"theta": 1 - float(learn.target_weight)}
        self._target_model = model_wrap(self._planner, "target", update_type="momentum", update_kwargs=share)
        self._copied_target = model_wrap(self._planner, "target", update_type="assign", update_kwargs={"freq": 1})

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B windows with ``trajectories [B, H, A + O]``, ``condition_id [B, k]``, ``condition_val [B, k,
        O]``, and ``returns [B, 1]`` where values learn.

        Returns:
            Floats.

        Raises:
            PolicyDataError: a field is missing, or the samples have different conditions.
        """
        learn, count = self._cfg.learn, self._sums.next_call()
        follow = ""
        if count % learn.update_target_freq == 0:
            follow = "copy" if count < learn.step_start_update_target else "move"
        if self._reference_numerics and follow == "move":
            # DI-engine computes the average and does not keep it.
            follow = ""
        values = self._model.value is not None and count < learn.value_step
        turn = {"with_values": values, "step": self._sums.is_step(count), "follow": follow}
        return self._learn(data, 1, [turn])

    def _update(
        self,
        batch: Mapping[str, Any],
        *,
        with_values: bool = True,
        step: bool = True,
        follow: str = "",
        **options: Any,
    ) -> dict[str, torch.Tensor]:
        """Learn to take noise off trajectories, and which return noisy ones lead to.

        Trajectories ``x`` get the noise of drawn diffusion steps ``t``: ``x_t = sqrt(abar_t) x + sqrt(1 - abar_t) e``;
        the observations of ``conditions`` stay. The U-Net predicts ``e``, or ``x``, and the value network, with noise
        of its own, the return. At each ``step`` the summed gradients are used; then the target may ``follow``.
        """
        model, x, conditions = self._model, batch["trajectories"], batch["conditions"]
        t = torch.randint(0, model.diffuser.n_timesteps, (len(x),), device=x.device)
        plan_loss, first_loss = model.diffuser_loss(x, conditions, t)
        plan_loss = plan_loss / self._sums.every
        self._accumulate(plan_loss, "diffuser", self._plan_optimizer, step)
        seen = x.detach()
        numbers = {
            "diffuse_loss": plan_loss,
            "a0_loss": first_loss,
            "max_traj": seen.max(),
            "min_traj": seen.min(),
            "mean_traj": seen.mean(),
        }
        if "returns" in batch:
            returns = batch["returns"]
            numbers |= {"max_return": returns.max(), "min_return": returns.min(), "mean_return": returns.mean()}
        if with_values:
            returns = batch["returns"]
            wanted = returns.flatten() if self._reference_numerics else returns
            value_loss, predicted = model.value_loss(x, conditions, wanted, t)
            value_loss = value_loss / self._sums.every
            self._accumulate(value_loss, "value", self._value_optimizer, step)
            numbers |= {"value_loss": value_loss, **predicted}
        if follow:
            (self._copied_target if follow == "copy" else self._target_model).update(self._model)
        return numbers

    def _accumulate(self, loss: torch.Tensor, name: str, optimizer: torch.optim.Optimizer, step: bool) -> None:
        """Add the gradients of a loss of one of the two networks to their sum, and with ``step`` use it."""
        if step:
            self._optimize(self._sums.completed(loss, name), optimizer, self._model.get_submodule(name))
        else:
            self._sums.add(loss, name)

    def _learn_batch(self, data: Samples, weighted: bool | None = None) -> dict[str, Any]:
        """Return ``trajectories [B, H, A + O]``, ``conditions`` (step -> ``[B, O]``) and ``returns [B, 1]``, where the
        samples have them.
        """
        wanted = (*_FIELDS, "returns") if self._cfg.learn.include_returns else _FIELDS
        columns = _columns(data)
        missing = [name for name in wanted if name not in columns]
        if missing:
            raise PolicyDataError(f"pd learns from windows of trajectories, which lack {missing}; found {[*columns]}")
        steps = np.asarray(columns["condition_id"])
        if (steps != steps[:1]).any():
            raise PolicyDataError("the samples of a batch of pd have one condition_id, found several")
        tensors = {
            name: torch.as_tensor(columns[name], dtype=torch.float32, device=self._device)
            for name in wanted
            if name != "condition_id"
        }
        values = tensors.pop("condition_val")
        conditions = {int(step): values[:, index].contiguous() for index, step in enumerate(steps[0])}
        return {**tensors, "conditions": conditions}

    def _monitor_vars_learn(self) -> list[str]:
        names = ["cur_lr", "diffuse_loss", "a0_loss", "max_traj", "min_traj", "mean_traj"]
        if self._model.value is not None:
            names += ["value_loss", "mean_pred", "max_pred", "min_pred"]
        return names + ["max_return", "min_return", "mean_return"] * bool(self._cfg.learn.include_returns)

    def _load_state_dict_learn(self, state_dict: StateDict) -> None:
        """A file of DI-engine holds no sums of gradients, which then begin anew."""
        state = {**state_dict}
        state.setdefault("gradient_sums", self._sums.state_after(state.get("plan_optimizer", {})))
        super()._load_state_dict_learn(state)

    # The normalisers of the data set, which observations and actions go through.

    def init_data_normalizer(self, normalizer: DatasetNormalizer) -> None:
        """Normalise observations and actions as the data set of training does; ``serial_pipeline_offline`` calls it."""
        self._normalizer = normalizer

    def data_statistics(self) -> StateDict:
        """Return what the normalisers of observations and actions were fitted to."""
        if not isinstance(self._normalizer, DatasetNormalizer):
            return {}
        state = self._normalizer.state_dict()
        return {**state, "fields": {key: state["fields"][key] for key in ("observations", "actions")}}

    def load_data_statistics(self, state: StateDict) -> None:
        """Normalise as the data set did that the state came from."""
        self._normalizer = DatasetNormalizer.from_state_dict(state)

    def _normalized(self, x: np.ndarray, key: str, back: bool = False) -> np.ndarray:
        if self._normalizer is None:
            raise PolicyUsageError(
                "pd acts in the units of its data set: call init_data_normalizer(dataset.normalizer), or load a state"
            )
        return (self._normalizer.unnormalize if back else self._normalizer.normalize)(x, key)

    def _init_eval(self) -> None:
        if "learn" not in self._enable_field:
            self._planner = self._model
        self._eval_model = model_wrap(self._planner, wrapper_name="base")
        #: The plans of envs that move to a goal, ``[H, O]`` each, and the steps that were made of them.
        self._plans: dict[int, np.ndarray] = {}
        self._steps: dict[int, int] = {}

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """``action`` float32 ``[N, A]``.

        Args:
            data: observations ``[N, O]``; or, where plans are not guided by values, these and goals, ``[N, 2 O]``.
        """
        obs, planner = np.asarray(data.columns, np.float32), self._planner
        width = planner.diffuser.obs_dim * (1 if planner.value is not None else 2)
        if obs.shape[1:] != (width,):
            raise PolicyUsageError(
                f"this pd plans from observations of {width} numbers (obs_dim, and without a value_model the goal, "
                f"too), found {obs.shape[1:]}"
            )
        planner.eval()
        if planner.value is None:
            actions = self._towards_goals(planner, [int(env_id) for env_id in data.env_ids], obs)
        else:
            plans = planner.get_eval(self._conditions({0: obs}), int(self._cfg.learn.plan_batch_size))
            actions = self._normalized(plans.cpu().numpy(), "actions", back=True)
        return EnvBatch(data.env_ids, {"action": torch.as_tensor(actions, dtype=torch.float32)})

    def _conditions(self, observations: Mapping[int, np.ndarray]) -> dict[int, torch.Tensor]:
        return {
            step: torch.as_tensor(self._normalized(obs, "observations"), dtype=torch.float32, device=self._device)
            for step, obs in observations.items()
        }

    def _towards_goals(self, planner: "PlanDiffuser", ids: Sequence[int], obs: np.ndarray) -> np.ndarray:
        """Actions ``[N, A]`` from observations and goals ``[N, 2 O]``: an observation is a position of A numbers and
        their velocities, and an action moves to the next position of the plan, by its velocity.
        """
        now, goals = np.split(obs, 2, axis=1)
        new = [row for row, env_id in enumerate(ids) if env_id not in self._plans]
        last = planner.diffuser.horizon - 1
        if new:
            plans = planner.get_eval(self._conditions({0: now[new], last: goals[new]})).cpu().numpy()
            for row, plan in zip(new, self._normalized(plans, "observations", back=True)):
                self._plans[ids[row]], self._steps[ids[row]] = plan, 0
        steps = np.array([self._steps[env_id] for env_id in ids])
        targets = np.stack([self._plans[env_id][min(self._steps[env_id] + 1, last)] for env_id in ids])
        for env_id in ids:
            self._steps[env_id] += 1
        dims = planner.diffuser.action_dim
        velocity = targets[:, dims:] * (steps < last)[:, None]
        actions: np.ndarray = targets[:, :dims] - now[:, :dims] + velocity - now[:, dims:]
        return actions

    def _reset_eval(self, data_id: list[int] | None = None) -> None:
        for env_id in [*self._plans] if data_id is None else data_id:
            self._plans.pop(env_id, None)
            self._steps.pop(env_id, None)

    def _model_state(self, state_dict: StateDict) -> StateDict:
        state = super()._model_state(state_dict)
        return {"model": state_dict.get("target_model", state["model"])}


def _columns(data: Samples) -> Mapping[str, Any]:
    """The fields of samples as columns; those of a list of dicts may be lists of arrays."""
    if isinstance(data, TransitionBatch):
        return data.columns
    names = [name for name in (*_FIELDS, "returns") if name in data[0]]
    return {name: np.stack([np.asarray(row[name]) for row in data]) for name in names}
