"""The networks of actor-critic algorithms for several agents, each of which has its own."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from ding.model.template.mavac import MAVAC
from ding.model.template.q_model import DEFAULT_HIDDEN_SIZES, make_encoder
from ding.model.template.vac import RELU, ActionShape, head_width, unknown_mode
from ding.torch_utils.network.rnn import RNNLayer
from ding.utils import MODEL_REGISTRY
from ding.utils.nested import map_together


class HAVACAgent(MAVAC):
    """Policy and value of one agent.

    State: that of :class:`ding.model.MAVAC`, and with ``use_lstm`` ``actor_rnn`` and ``critic_rnn``; in ``actor`` and
    ``critic`` these stand between encoder and head.

    Arguments:
        use_lstm: put a recurrent layer between encoder and head.
        lstm_type, res_link: as in ``DRQN``. Others as in :class:`ding.model.MAVAC`.
        actor_head_hidden_size, critic_head_hidden_size: width of the heads; with ``use_lstm`` 64 by default, else that
            of the features, and checked to be so when given.

    Raises:
        ValueError: without ``use_lstm`` a head is not as wide as the features.
    """

    def __init__(
        self,
        agent_obs_shape: int | Sequence[int],
        global_obs_shape: int | Sequence[int],
        action_shape: ActionShape,
        use_lstm: bool = False,
        lstm_type: str = "gru",
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int | None = None,
        critic_head_layer_num: int = 1,
        action_space: str = "discrete",
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        sigma_type: str = "happo",
        bound_type: str | None = None,
        res_link: bool = False,
    ) -> None:
        if use_lstm:
            # The recurrent layers lie between the features and the heads.
            actor_head_hidden_size, critic_head_hidden_size = (
                actor_head_hidden_size or 64,
                critic_head_hidden_size or 64,
            )
        else:
            sizes = encoder_hidden_size_list
            actor_head_hidden_size = head_width("actor_head_hidden_size", actor_head_hidden_size, sizes)
            critic_head_hidden_size = head_width("critic_head_hidden_size", critic_head_hidden_size, sizes)
        encoders = [
            make_encoder(shape, encoder_hidden_size_list, activation, norm_type)
            for shape in (agent_obs_shape, global_obs_shape)
        ]
        super().__init__(
            agent_obs_shape,
            global_obs_shape,
            action_shape,
            agent_num=1,
            actor_head_hidden_size=actor_head_hidden_size,
            actor_head_layer_num=actor_head_layer_num,
            critic_head_hidden_size=critic_head_hidden_size,
            critic_head_layer_num=critic_head_layer_num,
            action_space=action_space,
            activation=activation,
            norm_type=norm_type,
            sigma_type=sigma_type,
            bound_type=bound_type,
            encoder=encoders,
        )
        self.use_lstm = use_lstm
        if use_lstm:
            width = encoder_hidden_size_list[-1]
            self.actor_rnn = RNNLayer(lstm_type, width, actor_head_hidden_size, res_link)
            self.critic_rnn = RNNLayer(lstm_type, width, critic_head_hidden_size, res_link)
            self.actor = nn.ModuleList([self.actor_encoder, self.actor_rnn, self.actor_head])
            self.critic = nn.ModuleList([self.critic_encoder, self.critic_rnn, self.critic_head])

    def forward(self, inputs: Mapping[str, Any], mode: str, inference: bool = False) -> dict[str, Any]:
        """Run ``compute_actor``, ``compute_critic`` or ``compute_actor_critic``.

        Arguments:
            inputs: ``obs``: ``agent_state``, ``global_state`` and optionally ``action_mask``, ``[B, ...]``, or ``[T, B,
                ...]`` with ``use_lstm`` unless ``inference``; with it also ``actor_prev_state``,
                ``critic_prev_state``.

        Returns:
            ``logit``, or ``{'mu', 'sigma'}``, and ``value``; with ``use_lstm`` also ``actor_next_state``,
            ``actor_hidden_state``, ``critic_next_state``, ``critic_hidden_state``.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        output: dict[str, Any] = {}
        if mode != "compute_critic":
            output.update(self._acted(inputs, inference))
        if mode != "compute_actor":
            output.update(self._judged(inputs, inference))
        return output

    def _acted(self, inputs: Mapping[str, Any], inference: bool) -> dict[str, Any]:
        obs = inputs["obs"]
        if not self.use_lstm:
            return self.compute_actor(obs)
        features, states = self._remembered("actor", obs["agent_state"], inputs, inference)
        return {**self._acted_by_head(features, obs), **states}

    def _judged(self, inputs: Mapping[str, Any], inference: bool) -> dict[str, Any]:
        obs = inputs["obs"]
        if not self.use_lstm:
            return self.compute_critic(obs)
        features, states = self._remembered("critic", obs["global_state"], inputs, inference)
        return {"value": self.critic_head(features)["pred"], **states}

    def _remembered(
        self, part: str, state: torch.Tensor, inputs: Mapping[str, Any], inference: bool
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        encoder, rnn = getattr(self, f"{part}_encoder"), getattr(self, f"{part}_rnn")
        features = encoder(state) if inference else encoder(state.flatten(0, 1)).unflatten(0, state.shape[:2])
        out, next_state, hidden = rnn(features, inputs[f"{part}_prev_state"], inference)
        return out, {f"{part}_next_state": next_state, f"{part}_hidden_state": hidden}


@MODEL_REGISTRY.register("havac")
class HAVAC(nn.Module):
    """A policy and a value for each agent (HAPPO, arXiv:2109.11251).

    State: ``agent_models``.

    Arguments:
        agent_num: A, number of agents. Others as in :class:`HAVACAgent`.
    """

    mode = ["compute_actor", "compute_critic", "compute_actor_critic"]

    def __init__(
        self,
        agent_obs_shape: int | Sequence[int],
        global_obs_shape: int | Sequence[int],
        action_shape: ActionShape,
        agent_num: int,
        use_lstm: bool = False,
        lstm_type: str = "gru",
        encoder_hidden_size_list: Sequence[int] = DEFAULT_HIDDEN_SIZES,
        actor_head_hidden_size: int | None = None,
        actor_head_layer_num: int = 2,
        critic_head_hidden_size: int | None = None,
        critic_head_layer_num: int = 1,
        action_space: str = "discrete",
        activation: nn.Module | None = RELU,
        norm_type: str | None = None,
        sigma_type: str = "independent",
        bound_type: str | None = None,
        res_link: bool = False,
    ) -> None:
        super().__init__()
        self.agent_num = agent_num
        self.agent_models = nn.ModuleList(
            HAVACAgent(
                agent_obs_shape,
                global_obs_shape,
                action_shape,
                use_lstm,
                lstm_type,
                encoder_hidden_size_list,
                actor_head_hidden_size,
                actor_head_layer_num,
                critic_head_hidden_size,
                critic_head_layer_num,
                action_space,
                activation,
                norm_type,
                sigma_type,
                bound_type,
                res_link,
            )
            for _ in range(agent_num)
        )

    def forward(
        self, agent_idx: int | None, inputs: Mapping[str, Any], mode: str, inference: bool = False
    ) -> dict[str, Any]:
        """Return the output of one agent, see :meth:`HAVACAgent.forward`; with None those of all, from ``obs`` ``[B, A,
        ...]`` to ``logit`` and ``value`` ``[B, A, ...]``, without recurrent layers.

        ``global_state`` may be one for all, ``[B, ...]``.
        """
        if mode not in self.mode:
            raise unknown_mode(mode, self.mode)
        if agent_idx is not None:
            output: dict[str, Any] = self.agent_models[agent_idx](inputs, mode, inference)
            return output
        agents = [self.agent_models[i]({"obs": agent_view(inputs["obs"], i)}, mode) for i in range(self.agent_num)]
        outputs: dict[str, Any] = map_together(lambda *rows: torch.stack(rows, dim=1), *agents)
        return outputs


def agent_view(obs: Mapping[str, torch.Tensor], agent: int) -> dict[str, torch.Tensor]:
    """What one agent sees of ``obs`` ``[B, A, ...]``; a global state ``[B, G]`` is that of all."""
    return {key: value if key == "global_state" and value.ndim == 2 else value[:, agent] for key, value in obs.items()}
