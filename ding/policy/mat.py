"""MAT: the multi-agent transformer (Wen et al. 2022, arXiv:2205.14953)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from ding.model import model_wrap
from ding.model.template.mat import MAT
from ding.policy.errors import PolicyConfigError
from ding.policy.ppo import PPOPolicy, ppo_loss
from ding.utils import POLICY_REGISTRY, deep_merge_dicts


@POLICY_REGISTRY.register("mat")
class MATPolicy(PPOPolicy):
    """On-policy PPO of A agents in a sequence: each one knows the actions of the agents before it when it acts. The
    network is :class:`ding.model.MAT`; actions are discrete or continuous.

    Acting takes A passes of the decoder, learning one: the actions of a sample are known, and a causal mask hides from
    an agent those of itself and of the later ones.

    Observations are dicts: ``agent_state`` ``[A, O]`` and optionally ``action_mask`` ``[A, actions]``; other entries
    are not read. The reward is that of the team.
    """

    config = deep_merge_dicts(
        PPOPolicy.config,
        {
            "type": "mat",
            "multi_agent": True,
            "learn": {
                # (bool) Whether to start from the weights of :meth:`ding.model.MAT.init_parameters`.
                "ppo_param_init": True,
            },
        },
    )
    collect_kwargs: ClassVar[dict[str, str]] = {"mode": "sample"}
    eval_kwargs: ClassVar[dict[str, str]] = {"mode": "argmax"}
    may_be_recurrent = False

    def default_model(self) -> tuple[str, list[str]]:
        """``mat`` of :mod:`ding.model.template.mat`."""
        return "mat", ["ding.model.template.mat"]

    def _init_learn(self) -> None:
        if self._cfg.learn.pretrained_model_path is not None:
            raise PolicyConfigError("policy.learn.pretrained_model_path: mat cannot stay near a pretrained policy")
        super()._init_learn()

    def _init_parameters(self) -> None:
        if isinstance(self._model, MAT):
            self._model.init_parameters()
        else:
            super()._init_parameters()

    # The network chooses the actions itself, one after the other.
    def _init_collect(self) -> None:
        self._unroll_len = self._cfg.collect.unroll_len
        self._collect_model = model_wrap(self._remembering("collect"), wrapper_name="base")
        self._collect_model.reset()

    def _init_eval(self) -> None:
        self._eval_model = model_wrap(self._remembering("eval"), wrapper_name="base")
        self._eval_model.reset()

    def _update(self, batch: Mapping[str, Any], **options: Any) -> dict[str, torch.Tensor]:
        """:func:`ppo_loss`, averaged over agents, with ``pi_i(a_i | o, a_1 .. a_i-1)`` as the policy of agent i.

        Each value learns the return of its own agent. All agents share the advantage of their joint action, the mean of
        theirs: generalised advantage estimation is linear in the values, so that it is that of the mean value.
        """

        def network(obs: Any) -> dict[str, Any]:
            return self._actor_critic({"obs": obs, "action": batch["action"]})

        joint = batch["adv"].mean(1, keepdim=True).expand_as(batch["adv"])
        result = ppo_loss(network, {**batch, "adv": joint}, self._settings)
        self._optimize(result.total_loss, self._optimizer, self._model)
        return result.numbers()
