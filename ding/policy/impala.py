"""IMPALA: actor-critic from replayed sequences with V-trace (Espeholt et al. 2018, arXiv:1802.01561)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from ding.data import batched
from ding.data.roles import Samples
from ding.model import model_wrap
from ding.policy._learning.optimization import clipping_adam, clipping_rmsprop
from ding.policy._learning.update import Logs
from ding.policy._samples.sequences import SequencePolicy
from ding.policy.errors import PolicyConfigError
from ding.rl_utils import vtrace_data, vtrace_error_discrete_action
from ding.rl_utils.policy_dist import action_mask_of, policy_parts
from ding.utils import POLICY_REGISTRY
from ding.utils.names import did_you_mean
from ding.utils.nested import map_nested


class ImpalaLoss(NamedTuple):
    """What :func:`impala_loss` returns, each 0-d; only ``total_loss`` carries gradients that are used."""

    total_loss: torch.Tensor
    policy_loss: torch.Tensor
    value_loss: torch.Tensor
    entropy_loss: torch.Tensor


def impala_loss(
    network: Callable[[Any], Mapping[str, Any]],
    batch: Mapping[str, Any],
    settings: Mapping[str, float],
    reference_numerics: bool = False,
) -> ImpalaLoss:
    """V-trace policy gradient, squared error to V-trace targets and entropy bonus over sequences of T steps.

    Args:
        network: observations ``[N, ...]`` to ``logit`` and ``value`` ``[N]``.
        batch: time first: ``obs`` ``[T + 1, B, ...]``, whose last entry comes after the last step; ``action``;
            ``logit`` of the policy that collected; ``reward, done`` and, optional, ``null`` (1: a step that only fills
            the sequence up) ``[T, B]``.
        settings: ``discount_factor, lambda_, rho_clip_ratio, c_clip_ratio, rho_pg_clip_ratio, value_weight,
            entropy_weight``.
        reference_numerics: leave forbidden actions in the distributions.
    """
    gamma = settings["discount_factor"]
    output = network(map_nested(lambda x: x.flatten(0, 1), batch["obs"]))
    data = vtrace_inputs(output, batch, gamma, reference_numerics)
    ratios = (settings["rho_clip_ratio"], settings["c_clip_ratio"], settings["rho_pg_clip_ratio"])
    loss = vtrace_error_discrete_action(data, gamma, settings["lambda_"], *ratios)
    total = loss.policy_loss + settings["value_weight"] * loss.value_loss
    return ImpalaLoss(total - settings["entropy_weight"] * loss.entropy_loss, *loss)


def vtrace_inputs(
    output: Mapping[str, Any], batch: Mapping[str, Any], gamma: float, reference_numerics: bool = False
) -> vtrace_data:
    """What V-trace takes of sequences of T steps: ``value`` ``[T + 1, B]``, the rest ``[T, B, ...]``.

    Args:
        output: of the network for all ``obs``: ``logit`` ``[(T + 1) * B, ...]``, ``value`` ``[(T + 1) * B]``.
        batch: see :func:`impala_loss`.
    """
    goes_on = 1 - batch["done"]
    steps, rows = goes_on.shape
    value = output["value"].view(steps + 1, rows)
    value = torch.cat([value[:1], value[1:] * goes_on])
    weight = torch.cat([torch.ones_like(goes_on[:1]), goes_on[:-1]])
    reward = batch["reward"] * weight
    null = batch.get("null")
    if null is not None:
        weight = weight * (1 - null)
        # The reward that V-trace expects: nothing of these steps reaches the targets of those before.
        reward = torch.where(null > 0, (value[:-1] - gamma * value[1:]).detach(), reward)
    mask = None if reference_numerics else action_mask_of(map_nested(lambda x: x[:-1], batch["obs"]))
    logit = map_nested(lambda x: x.view(steps + 1, rows, *x.shape[1:])[:-1], output["logit"])
    ((target, action),) = policy_parts(logit, batch["action"], mask)
    ((behaviour, _),) = policy_parts(batch["logit"], batch["action"], mask)
    return vtrace_data(target, behaviour, action, value, reward, weight)


@POLICY_REGISTRY.register("impala")
class IMPALAPolicy(SequencePolicy):
    """Actor-critic that learns from sequences of somewhat older policies, for discrete and continuous actions.

    A train sample is a sequence of ``unroll_len`` steps of one episode. What a short rest of an episode lacks is filled
    up and not learned. The value after a time limit is bootstrapped; with ``reference_numerics=True`` it is zero.
    """

    config = {
        "type": "impala",
        "on_policy": False,
        # Samples have no priorities here.
        "priority": False,
        "priority_IS_weight": False,
        # (str) 'discrete' or 'continuous'.
        "action_space": "discrete",
        # (int) Steps of a train sample.
        "unroll_len": 32,
        "transition_with_policy_data": True,
        "learn": {
            "update_per_collect": 4,
            "batch_size": 16,
            "learning_rate": 0.0005,
            "value_weight": 0.5,
            "entropy_weight": 0.0001,
            "discount_factor": 0.99,
            # (float) Decay of the corrections by later steps.
            "lambda_": 0.95,
            # (float) Upper bounds of the importance weights: of a step, of the trace, of the policy gradient.
            "rho_clip_ratio": 1.0,
            "c_clip_ratio": 1.0,
            "rho_pg_clip_ratio": 1.0,
            # (str or None) How gradients are clipped, and the limit.
            "grad_clip_type": None,
            "clip_value": 0.5,
            # (str) 'adam' or 'rmsprop'.
            "optim": "adam",
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {},
        "eval": {},
        "other": {"replay_buffer": {"replay_buffer_size": 1000, "max_use": 16}},
    }

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._samplers()
        if self._cfg.action_space == "hybrid":
            raise PolicyConfigError("policy.action_space: IMPALA takes 'discrete' or 'continuous', found 'hybrid'")
        if learn.optim not in ("adam", "rmsprop"):
            raise PolicyConfigError(
                f"policy.learn.optim: {learn.optim!r} is unknown.{did_you_mean(learn.optim, ('adam', 'rmsprop'))}"
            )
        build: Callable[..., torch.optim.Optimizer] = clipping_adam if learn.optim == "adam" else clipping_rmsprop
        self._optimizer = build(self._model.parameters(), learn)
        self._learn_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B sequences, as :meth:`_get_train_sample` makes them (or with a list for each field)."""
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        loss = impala_loss(self._actor_critic, batch, self._cfg.learn, self._reference_numerics)
        self._optimize(loss.total_loss, self._optimizer, self._model)
        return loss._asdict()

    def _data_preprocess_learn(self, data: Samples) -> dict[str, Any]:
        """For subclasses with a ``_forward_learn`` of their own: B sequences as tensors with time first.

        Returns:
            ``obs_plus_1`` ``[T + 1, B, ...]``, ``action, logit, reward, done`` ``[T, B, ...]``, ``weight`` None, and
            ``null`` (1.0: a step that only fills the sequence up), which :meth:`_reshape_data` looks at.
        """
        batch = self._learn_batch(data)
        obs = map_nested(lambda x: x.contiguous(), batch["obs"])
        return {**batch, "obs_plus_1": obs, "weight": None}

    def _reshape_data(self, output: Mapping[str, Any], data: Mapping[str, Any]) -> vtrace_data:
        """The fields of ``vtrace_data``: :func:`vtrace_inputs` of the network's output for ``obs_plus_1``."""
        return vtrace_inputs(output, data, self._cfg.learn.discount_factor, self._reference_numerics)

    def _steps_of_sample(self) -> int:
        return int(self._cfg.unroll_len)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", *ImpalaLoss._fields]
