"""A Q model of one's own may replace how an observation becomes features."""

import torch

from ding.model import DQN


class Doubled(DQN):
    def encode(self, observation):
        return 2 * super().encode(observation)


def test_encode_may_be_replaced():
    torch.manual_seed(0)
    model, obs = Doubled(3, 2, [4]), torch.randn(5, 3)
    assert torch.equal(model(obs)["logit"], model.head(2 * model.encoder(obs))["logit"])
