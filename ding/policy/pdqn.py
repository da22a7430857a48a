"""P-DQN: deep Q-learning over a discrete type of action with continuous arguments."""

from collections.abc import Mapping
from typing import Any

import torch

from ding.data import EnvBatch, batched
from ding.data.roles import Samples
from ding.model import IModelWrapper, model_wrap
from ding.model.template.pdqn import PDQN
from ding.policy._learning.critics import others
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.q_values import QLoss, greedy, mean_of, of_action
from ding.policy._learning.target_update import num_steps, target_network
from ding.policy._learning.update import read_out
from ding.policy.base_policy import Policy
from ding.policy.common_utils import transition_of
from ding.rl_utils import get_nstep_return_data, get_train_sample
from ding.utils import POLICY_REGISTRY


class _ArgumentsThenType(IModelWrapper):
    """Acts in two passes: the arguments, with or without noise, and the type by the values that they give."""

    def __init__(self, model: IModelWrapper, arguments: IModelWrapper) -> None:
        super().__init__(model)
        self._arguments = arguments

    def forward(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        """Observations ``[B, ...]`` to ``logit`` and ``action``, a dict of ``action_type`` and ``action_args``."""
        args = self._arguments.forward(obs, mode="compute_continuous")["action_args"]
        inputs = {"state": obs, "action_args": args}
        output: dict[str, Any] = self._model.forward(inputs, mode="compute_discrete", **kwargs)
        return output


@POLICY_REGISTRY.register("pdqn")
class PDQNPolicy(Policy):
    """Parametrised deep Q-networks (Xiong et al. 2018, arXiv:1810.06394) and, by ``model.multi_pass``, their multi-pass
    form (Bester et al. 2019, arXiv:1905.04388), with double Q-learning and n-step returns.

    Updates come in cycles of ``learn.update_circle``: in the first half of a cycle the values learn, in the second
    the arguments; the very first update is for both. Priorities are ``|Q - target|``; ``reference_numerics=True`` makes
    them squares, stores time limits as terminal and discounts the tail of a cut segment as DI-engine does.
    """

    acts_in_unit_range = True

    config = {
        "type": "pdqn",
        "cuda": False,
        "on_policy": False,
        "priority": False,
        "priority_IS_weight": False,
        "discount_factor": 0.97,
        # (int) Number of rewards before the bootstrap value.
        "nstep": 1,
        "learn": {
            "update_per_collect": 3,
            "batch_size": 64,
            "learning_rate": 0.001,
            # (float or None) Rates of the values and of the arguments; None takes ``learning_rate``.
            "learning_rate_dis": None,
            "learning_rate_cont": None,
            # (float) The share by which the target network moves to the learner at each update of the values.
            "target_theta": 0.005,
            # (int) Updates until it is the turn of the values again.
            "update_circle": 10,
            # (bool) Whether to bootstrap at the end of an episode too.
            "ignore_done": False,
        },
        "collect": {
            "unroll_len": 1,
            # (float) Deviation of the noise that is added to arguments.
            "noise_sigma": 0.1,
        },
        "eval": {},
        "other": {
            "eps": {"type": "exp", "start": 0.95, "end": 0.1, "decay": 10000},
            "replay_buffer": {"replay_buffer_size": 10000},
        },
    }

    learn_state = {
        "model": "_learn_model",
        "target_model": "_target_model",
        "dis_optimizer": "_dis_optimizer",
        "cont_optimizer": "_cont_optimizer",
    }

    _model: PDQN

    def default_model(self) -> tuple[str, list[str]]:
        """``pdqn`` of :mod:`ding.model.template.pdqn`."""
        return "pdqn", ["ding.model.template.pdqn"]

    def _init_learn(self) -> None:
        cfg = self._cfg
        model = self._model
        self._gamma, self._nstep = float(cfg.discount_factor), cfg.nstep
        self._discrete = torch.nn.ModuleList([model.dis_head, model.encoder[0]])
        self._continuous = torch.nn.ModuleList([model.cont_head, model.encoder[1]])
        rates = (cfg.learn.learning_rate_dis, cfg.learn.learning_rate_cont)
        dis, cont = (cfg.learn.learning_rate if rate is None else rate for rate in rates)
        self._dis_optimizer = clipping_adam(self._discrete.parameters(), cfg.learn, lr=dis)
        self._cont_optimizer = clipping_adam(others(self._continuous, but=self._discrete), cfg.learn, lr=cont)
        self._learn_model = model_wrap(model, wrapper_name="base")
        self._target_model = target_network(model, cfg.learn, PDQNPolicy.config["learn"], self._reference_numerics)

    @batched
    def _forward_learn(self, data: Samples) -> dict[str, Any]:
        """One update on B samples, of the values or of the arguments; returns floats, and ``priority`` (B floats)."""
        batch = self._learn_batch(data)
        if not self._model.training:
            self._model.train()
        # The number of this update, which a resumed run counts on: the first one was a step of both optimisers.
        count = max(1, num_steps(self._dis_optimizer) + num_steps(self._cont_optimizer))
        circle = self._cfg.learn.update_circle
        values_turn = count % circle < (circle + 1) // 2
        numbers = {"reward": batch["reward"].mean()}
        if count == 1 or not values_turn:
            numbers |= self._update_arguments(batch)
        if count == 1 or values_turn:
            numbers |= self._update_values(batch)
        elif self._priority:
            with torch.no_grad():
                numbers["priority"] = self._value_loss(batch).priority
        return {"cur_lr": self._dis_optimizer.param_groups[0]["lr"], **read_out(numbers)}

    def _update_arguments(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """One step of the arguments ``x(s)`` on ``-mean_s sum_k Q(s, k, x(s))``."""
        args = self._model(batch["obs"], mode="compute_continuous")["action_args"]
        q = self._model({"state": batch["obs"], "action_args": args}, mode="compute_discrete")["logit"]
        loss = -q.sum(-1).mean()
        self._optimize(loss, self._cont_optimizer, self._continuous)
        return {"continuous_loss": loss, "total_loss": loss, "q_value": mean_of(q)}

    def _update_values(self, batch: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """One step of the values."""
        result = self._value_loss(batch)
        self._optimize(result.loss, self._dis_optimizer, self._discrete)
        self._target_model.update(self._model)
        return {"q_loss": result.loss, "total_loss": result.loss, "priority": result.priority, **result.numbers}

    def _value_loss(self, batch: Mapping[str, Any]) -> QLoss:
        """``mean (Q(s, k, x) - R)^2`` with ``R = r + discount Q'(s', argmax_k Q(s', k, x(s')), x(s'))``."""
        network = self._model
        next_obs, action = batch["next_obs"], batch["action"]
        with torch.no_grad():
            args = network(next_obs, mode="compute_continuous")["action_args"]
            following = {"state": next_obs, "action_args": args}
            next_q = self._target_model.forward(following, mode="compute_discrete")["logit"]
            best = greedy(network(following, mode="compute_discrete")["logit"])
            target = batch["reward"] + batch["discount"] * batch["not_done"] * of_action(next_q, best)
        q = network({"state": batch["obs"], "action_args": action["action_args"]}, mode="compute_discrete")["logit"]
        td_error = of_action(q, action["action_type"].reshape(-1)) - target
        loss = (batch["weight"] * td_error.square()).mean()
        size = td_error.detach().abs()
        priority = size.square() if self._reference_numerics else size
        return QLoss(loss, priority, {"q_value": mean_of(q), "target_q_value": mean_of(next_q)})

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "q_loss", "continuous_loss", "q_value", "reward", "target_q_value"]

    def _init_collect(self) -> None:
        collect = self._cfg.collect
        self._unroll_len = collect.unroll_len
        self._gamma, self._nstep = float(self._cfg.discount_factor), self._cfg.nstep
        # A draw by softmax of values that differ by a hundredth is no better than a random type.
        name = "hybrid_eps_greedy_multinomial_sample" if self._reference_numerics else "hybrid_eps_greedy_sample"
        types = model_wrap(self._model, wrapper_name=name, reference_numerics=self._reference_numerics)
        noise = {"mu": 0.0, "sigma": collect.noise_sigma}
        arguments = model_wrap(self._model, wrapper_name="action_noise", noise_type="gauss", noise_kwargs=noise)
        self._collect_model = _ArgumentsThenType(types, arguments)

    @batched
    def _forward_collect(self, data: EnvBatch, eps: float) -> EnvBatch:  # type: ignore[override]
        """``action`` (``action_type`` int64 ``[N, 1]``, noisy ``action_args`` float32 ``[N, M]``) and ``logit``."""
        return self._act(self._collect_model, data, eps=eps)

    @batched
    def _process_transition(self, obs: object, policy_output: Any, timestep: Any) -> dict[str, Any]:
        """``obs, next_obs, action, logit, reward, done``, for one environment or for columns of N."""
        fields = ("action", "logit")
        return transition_of(obs, policy_output, timestep, fields, time_limit_is_end=self._reference_numerics)

    @batched
    def _get_train_sample(self, transitions: Samples) -> Samples:
        """n-step returns (``reward`` of n steps, ``value_gamma``), then sequences of ``collect.unroll_len``."""
        samples = get_nstep_return_data(
            transitions, self._nstep, gamma=self._gamma, reference_tail=self._reference_numerics
        )
        return get_train_sample(samples, self._unroll_len)

    def _init_eval(self) -> None:
        types = model_wrap(self._model, wrapper_name="hybrid_argmax_sample")
        self._eval_model = _ArgumentsThenType(types, model_wrap(self._model, wrapper_name="base"))

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """The best type, with its arguments as they are: ``action`` and ``logit``."""
        return self._act(self._eval_model, data)
