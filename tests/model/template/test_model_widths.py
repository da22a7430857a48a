"""One width of a network, given alone: the others follow, or the network refuses it and names the parameter.

The table holds each registered network with an encoder and a head; a new one must join it.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from easydict import EasyDict

import ding.model  # noqa: F401
from ding.utils import MODEL_REGISTRY

ROWS, OBS, ACTIONS, AGENTS, WIDTH = 3, 5, 2, 2, 24
Network = torch.nn.Module

obs = torch.zeros(ROWS, OBS)
chosen = {"obs": obs, "action": torch.zeros(ROWS, ACTIONS)}
alone = {"agent_state": torch.zeros(ROWS, OBS), "global_state": torch.zeros(ROWS, OBS)}
alone["action_mask"] = torch.ones(ROWS, ACTIONS)
team = {name: value[:, None].expand(-1, AGENTS, -1) for name, value in alone.items()}
team_chosen = {"obs": team, "action": torch.zeros(ROWS, AGENTS, ACTIONS)}
sequence = {"obs": obs[None], "prev_state": None, "beta": torch.zeros(ROWS, dtype=torch.long)}
sequence |= {"prev_action": torch.zeros(1, ROWS, dtype=torch.long), "prev_reward_extrinsic": torch.zeros(1, ROWS, 1)}


def modes(actor_input: Any, critic_input: Any) -> Callable[[Network], None]:
    """Return a call that runs the actor and the critic."""

    def call(model: Network) -> None:
        model(actor_input, mode="compute_actor")
        model(critic_input, mode="compute_critic")

    return call


def recurrent(model: Network) -> None:
    """Run a recurrent actor-critic from its first state."""
    inputs = {"obs": obs, "prev_state": [None] * ROWS}
    modes(inputs, inputs)(model)


def one_agent(model: Network) -> None:
    """Run the first agent of HAPPO."""
    for mode in ("compute_actor", "compute_critic"):
        model(0, {"obs": alone}, mode=mode)


Q_MODELS = ("dqn", "c51dqn", "qrdqn", "iqn", "fqf", "rainbowdqn", "discrete_bc", "pg")
CRITICS = ("continuous_qac", "continuous_qvac", "simba_qac")
SIZED = {"obs_shape": OBS, "action_shape": ACTIONS}
OF_AGENTS = {"agent_obs_shape": OBS, "global_obs_shape": OBS, "action_shape": ACTIONS}
TABLE: dict[str, tuple[dict[str, Any], Callable[[Network], Any]]] = {
    **{name: (SIZED, lambda model: model(obs)) for name in Q_MODELS},
    "bdq": ({"obs_shape": OBS, "num_branches": 2}, lambda model: model(obs)),
    **{name: (SIZED, lambda model: model(sequence)) for name in ("drqn", "ngu", "gtrxldqn")},
    **{name: (SIZED, modes(obs, obs)) for name in ("vac", "ppg", "acer", "discrete_qac")},
    "recurrent_vac": (SIZED, recurrent),
    **{name: ({**SIZED, "action_space": "regression"}, modes(obs, chosen)) for name in CRITICS},
    **{name: (SIZED, modes(obs, chosen)) for name in ("crossq", "ensemble_qac", "edac", "qac_dist")},
    "continuous_bc": ({**SIZED, "action_space": "regression"}, lambda model: model(obs)),
    "havac": ({**OF_AGENTS, "agent_num": AGENTS}, one_agent),
    "mavac": ({**OF_AGENTS, "agent_num": AGENTS}, modes(team, team)),
    "discrete_maqac": (OF_AGENTS, modes({"obs": team}, {"obs": team})),
    "continuous_maqac": ({**OF_AGENTS, "action_space": "regression"}, modes({"obs": team}, team_chosen)),
}


def types_and_arguments(model: Network) -> None:
    """Run both parts of P-DQN."""
    arguments = model(obs, mode="compute_continuous")["action_args"]
    model({"state": obs, "action_args": arguments}, mode="compute_discrete")


HYBRID = {"action_type_shape": 3, "action_args_shape": 2}
TABLE["pdqn"] = ({"obs_shape": OBS, "action_shape": EasyDict(HYBRID)}, types_and_arguments)


def widths(name: str) -> Iterator[tuple[str, Any]]:
    """The parameters of a network that are widths, and a value for each."""
    for key in inspect.signature(MODEL_REGISTRY.get(name)).parameters:
        if key.endswith("hidden_size_list"):
            yield key, [WIDTH, WIDTH // 2, WIDTH]
        elif key.endswith("hidden_size"):
            yield key, WIDTH


def test_each_network_with_an_encoder_and_a_head_is_in_the_table() -> None:
    for name in MODEL_REGISTRY:
        found = [key for key, _ in widths(name)]
        assert name in TABLE or len(found) < 2 or "encoder_hidden_size_list" not in found


@pytest.mark.parametrize(("name", "key", "value"), [(name, *one) for name in TABLE for one in widths(name)])
def test_a_width_alone_is_followed_or_refused_by_name(name: str, key: str, value: Any) -> None:
    arguments, call = TABLE[name]
    refused = ""
    try:
        call(MODEL_REGISTRY.get(name)(**arguments, **{key: value}))
    except ValueError as error:
        refused = str(error)
    assert not refused or key in refused


@pytest.mark.parametrize("name", ["vac", "ppg", "acer", "recurrent_vac", "havac"])
def test_the_heads_follow_the_encoder(name: str) -> None:
    arguments, call = TABLE[name]
    call(MODEL_REGISTRY.get(name)(**arguments, encoder_hidden_size_list=[8, WIDTH]))
