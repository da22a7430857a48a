"""Implicit behaviour cloning: the action of least energy (Florence et al. 2021, arXiv:2109.00137)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch.nn import functional

from ding.data import EnvBatch, batched
from ding.data.roles import Samples, StateDict
from ding.model import model_wrap
from ding.model.template.ebm import MCMC, create_stochastic_optimizer
from ding.policy._acting.observations import network_columns
from ding.policy._learning.optimization import clipping_adam
from ding.policy._learning.update import Logs
from ding.policy.bc import BehaviourCloningPolicy
from ding.torch_utils import Adam
from ding.utils import POLICY_REGISTRY


@POLICY_REGISTRY.register("ibc")
class IBCPolicy(BehaviourCloningPolicy):
    """A policy that is trained to find the actions of a data set to be those of least energy; it does not collect.

    It searches in the action bounds of its data set, and in [-1, 1] as long as it was given none.
    """

    _bounds: torch.Tensor | None = None

    config: ClassVar[dict[str, Any]] = {
        "type": "ibc",
        "continuous": True,
        # Of the search: ``dfo``, ``ardfo`` or ``mcmc``, and its arguments; see :mod:`ding.model.template.ebm`.
        "model": {"stochastic_optim": {"type": "mcmc"}},
        "learn": {
            # (int) How often the data set is gone through.
            "train_epoch": 30,
            "batch_size": 256,
            # Of AdamW; the other keys of behaviour cloning are kept for configs of DI-engine.
            "optim": {"learning_rate": 1e-5, "weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999},
        },
        "eval": {"evaluator": {"eval_freq": 10000}},
    }

    def default_model(self) -> tuple[str, list[str]]:
        """``ebm`` of :mod:`ding.model.template.ebm`, or ``arebm`` for the search ``ardfo``."""
        autoregressive = self._cfg.model.stochastic_optim.type == "ardfo"
        return "arebm" if autoregressive else "ebm", ["ding.model.template.ebm"]

    def _init_model(self, model: torch.nn.Module | None) -> None:
        super()._init_model(model)
        self._search = create_stochastic_optimizer(self._device, self._cfg.model.stochastic_optim)
        self._search.set_action_bounds([[bound] * int(self._cfg.model.action_shape) for bound in (-1.0, 1.0)])

    def set_statistic(self, statistics: Any) -> None:
        """Search in ``statistics.action_bounds`` ``[2, N]`` from now on."""
        self.load_data_statistics({"action_bounds": statistics.action_bounds})

    def data_statistics(self) -> StateDict:
        """Return the bounds of the actions of the data set; nothing before :meth:`set_statistic`."""
        return {} if self._bounds is None else {"action_bounds": self._bounds}

    def load_data_statistics(self, state: StateDict) -> None:
        """Search in ``action_bounds`` ``[2, N]`` from now on."""
        self._bounds = torch.as_tensor(state["action_bounds"], dtype=torch.float32)
        self._search.set_action_bounds(self._bounds)

    def _init_learn(self) -> None:
        super()._init_learn()
        graphs = self._compiled_updates.graphs
        if graphs.enabled:
            graphs.give_up("a graph would keep the action bounds with which it was recorded")

    def _make_optimizer(self) -> Adam:
        learn, optim = self._cfg.learn, self._cfg.learn.optim
        options = {"lr": optim.learning_rate, "weight_decay": optim.weight_decay, "betas": (optim.beta1, optim.beta2)}
        return clipping_adam(self._model.parameters(), learn, optim_type="adamw", **options)

    @batched
    def _forward_learn(self, data: Samples) -> Logs:
        """One update on B samples with ``obs`` and ``action``.

        Returns:
            ``cur_lr, total_loss, ebm_loss`` and with Langevin dynamics ``grad_penalty`` (floats).
        """
        return self._learn(data)

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """One step on ``mean -log p(a)``, where ``p = softmax(-E(s, .))`` over the demonstrated action ``a`` and others
        that the search draws (InfoNCE); with Langevin dynamics, plus a penalty of steep energies.
        """
        obs = batch["obs"].reshape(len(batch["obs"]), -1)
        action = batch["action"].reshape(len(obs), -1)
        repeated, negatives = self._search.sample(obs, self._model)
        candidates = torch.cat([action.unsqueeze(1), negatives], dim=1)
        repeated = torch.cat([repeated[:, :1], repeated], dim=1)
        order = torch.rand(candidates.shape[:2]).argsort(dim=1).to(candidates.device)
        candidates = candidates.gather(1, order.unsqueeze(-1).expand_as(candidates))
        place = (order == 0).long().argmax(dim=1)
        logit = -self._model(repeated, candidates)
        if logit.ndim > 2:  # of an autoregressive network: the energies for each dimension of the action
            place = place.unsqueeze(1).expand(action.shape)
        losses = {"ebm_loss": functional.cross_entropy(logit, place)}
        if isinstance(self._search, MCMC):
            losses["grad_penalty"] = self._search.grad_penalty(repeated, candidates, self._model)
        total = torch.stack([*losses.values()]).sum()
        self._optimize(total, self._optimizer, self._model)
        return {"total_loss": total, **losses}

    def _monitor_vars_learn(self) -> list[str]:
        penalty = ["grad_penalty"] if isinstance(self._search, MCMC) else []
        return ["cur_lr", "total_loss", "ebm_loss", *penalty]

    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_collect(self, data: EnvBatch, **kwargs: Any) -> EnvBatch:  # type: ignore[override]
        """Nothing: it learns from a data set."""
        raise NotImplementedError("ibc learns from a data set (serial_pipeline_offline) and does not collect")

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._model, wrapper_name="base")

    @batched
    def _forward_eval(self, data: EnvBatch) -> EnvBatch:  # type: ignore[override]
        """``action``: that of the least energy that is found, float32 ``[N, D]``."""
        self._model.eval()
        obs = network_columns(data.columns, self._device)
        action = self._search.infer(obs.reshape(len(data), -1), self._model).cpu()
        return EnvBatch.unchecked(data.env_ids, {"action": action})
