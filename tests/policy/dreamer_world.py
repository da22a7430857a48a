"""A small world of latent states, whose numbers are easy to follow."""

import torch
from torch import nn

from ding.torch_utils.network.dreamer import DenseHead, OneHotDist

STOCH, DISCRETE, DETER = 2, 3, 4
FEAT = STOCH * DISCRETE + DETER


class Dynamics(nn.Module):
    """The deterministic state is a mean of all that came in; the stochastic one is read off it."""

    def __init__(self, action_size, embed=FEAT):
        super().__init__()
        self.action, self.embed = nn.Linear(action_size, DETER), nn.Linear(embed, DETER)
        self.stat = nn.Linear(DETER, STOCH * DISCRETE)

    def initial(self, batch_size):
        stoch = torch.zeros(batch_size, STOCH, DISCRETE)
        return {"stoch": stoch, "logit": stoch.clone(), "deter": torch.zeros(batch_size, DETER)}

    def _next(self, deter, sample):
        logit = self.stat(deter).unflatten(-1, (STOCH, DISCRETE))
        dist = OneHotDist(logit)
        return {"stoch": dist.sample() if sample else dist.mode(), "logit": logit, "deter": deter}

    def img_step(self, prev_state, prev_action, sample=True):
        return self._next(torch.tanh(0.5 * prev_state["deter"] + self.action(prev_action)), sample)

    def obs_step(self, prev_state, prev_action, embed, sample=True):
        prior = self.img_step(prev_state, prev_action, sample)
        return self._next(torch.tanh(prior["deter"] + self.embed(embed)), sample), prior

    def get_feat(self, state):
        return torch.cat([state["stoch"].flatten(-2), state["deter"]], -1)

    def get_dist(self, state):
        return torch.distributions.Independent(OneHotDist(state["logit"]), 1)


class World(nn.Module):
    """Reads vectors of 4 numbers."""

    def __init__(self, action_type="continuous", action_size=2, obs_size=4):
        super().__init__()
        torch.manual_seed(0)
        self.action_type, self.action_size = action_type, action_size
        self.encoder, self.dynamics = nn.Linear(obs_size, FEAT), Dynamics(action_size)
        heads = {"reward": DenseHead(FEAT, 255, 1, 8, dist="twohot_symlog", low=-20, high=20)}
        heads["discount"] = DenseHead(FEAT, [], 1, 8, dist="binary")
        self.heads = nn.ModuleDict(heads)

    def network_obs(self, obs):
        return torch.as_tensor(obs, dtype=torch.float32)

    def start(self, batch_size=3, length=2):
        """Latent states of sequences."""
        state = self.dynamics.img_step(self.dynamics.initial(batch_size * length), torch.rand(batch_size * length, 2))
        return {key: value.unflatten(0, (batch_size, length)) for key, value in state.items()}
