"""Networks get integers and bools as the env gives them; those of the library compute with them as with floats."""

from typing import Any

import numpy as np
import pytest
import torch

from ding.data import EnvBatch, TransitionBatch
from ding.policy import BCQPolicy
from ding.utils import set_pkg_seed
from ding.utils.nested import map_nested
from tests.policy import test_policy_atoc as atoc
from tests.policy import test_policy_happo as happo
from tests.policy import test_policy_ibc as ibc
from tests.policy import test_policy_joint_q as joint_q
from tests.policy import test_policy_offline as offline


def _assert_equal(found: list[Any]) -> None:
    """The same numbers with each dtype."""
    first = found[0]
    for other in found[1:]:
        for one, expected in zip(other, first, strict=True):
            if isinstance(expected, dict):
                assert one.keys() == expected.keys()
                for key, value in expected.items():
                    np.testing.assert_allclose(np.asarray(one[key]), np.asarray(value), rtol=1e-5, atol=1e-6)
            elif isinstance(expected, list):
                _assert_equal([expected, one])
            else:
                np.testing.assert_allclose(np.asarray(one), np.asarray(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", list(joint_q.CASES))
def test_joint_networks_of_the_library_take_integers_and_bools(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stacked, found = joint_q.stacked, []
    for dtype in (torch.float32, torch.int64, torch.bool):
        monkeypatch.setattr(
            joint_q, "stacked", lambda rows, dtype=dtype: {k: (v > 0).to(dtype) for k, v in stacked(rows).items()}
        )
        policy = joint_q.policy_of(case)
        episodes = joint_q.collect(policy, case, columns=True)
        samples = TransitionBatch.from_rows(joint_q.samples_of(policy, episodes))
        obs = joint_q.stacked([env.reset() for env in joint_q.games(case)])
        greedy = policy.eval_mode.forward(EnvBatch(np.arange(joint_q.ENVS), obs))
        found.append([policy.learn_mode.forward(samples), *(greedy[i]["action"] for i in range(joint_q.ENVS))])
    _assert_equal(found)


_POLICIES: dict[str, Any] = {
    "atoc": (lambda: atoc.policy_of(True), atoc.samples),
    "happo": (lambda: happo.policy_of(True), lambda: happo.samples(True)),
    "happo-continuous": (lambda: happo.policy_of(False), lambda: happo.samples(False)),
    "bcq": (lambda: offline.make(BCQPolicy), offline.samples),
    "ibc": (lambda: ibc.make("dfo"), ibc.samples),
    "ibc-ardfo": (lambda: ibc.make("ardfo"), ibc.samples),
    "ibc-mcmc": (lambda: ibc.make("mcmc", iters=3), ibc.samples),
}


@pytest.mark.parametrize("case", list(_POLICIES))
def test_other_networks_of_the_library_take_integers_and_bools(case: str) -> None:
    make, samples_of = _POLICIES[case]
    found = []
    for dtype in (torch.float32, torch.int64, torch.bool):
        policy = make()
        samples = [
            {
                key: map_nested(lambda leaf, dtype=dtype: (leaf > 0).to(dtype), value) if "obs" in key else value
                for key, value in sample.items()
            }
            for sample in samples_of()
        ]
        set_pkg_seed(3, use_cuda=False)
        learned = policy.learn_mode.forward(samples)
        greedy = policy.eval_mode.forward({0: samples[0]["obs"], 1: samples[1]["obs"]})
        found.append([learned, greedy[0]["action"], greedy[1]["action"]])
    _assert_equal(found)
