"""The vector stepper joins each timestep to the observation and the output that caused it, however late it comes."""

import numpy as np
import pytest
import torch

from ding.data import BaseEnvTimestep, EnvBatch, TimestepBatch, batched
from ding.rollout import Game, VectorStepper, drop_abnormal


class Echo:
    """Acts what it sees."""

    def forward(self, data):
        return {env_id: {"action": torch.as_tensor(obs)} for env_id, obs in data.items()}


class BatchedEcho(Echo):
    @batched
    def forward(self, data):
        return EnvBatch(data.env_ids, {"action": torch.from_numpy(data.columns)})


def sees(call, *env_ids):
    return EnvBatch(env_ids, np.array([[call, env_id] for env_id in env_ids]))


def answers(*env_ids):
    return TimestepBatch.from_dict({env_id: BaseEnvTimestep(np.zeros(1), 0.0, False, {}) for env_id in env_ids})


@pytest.mark.parametrize("policy", [Echo(), BatchedEcho()])
def test_answers_to_several_calls(policy) -> None:
    stepper = VectorStepper(None, [policy])
    stepper.act(sees(0, 0, 3, 4), [{}])
    stepper.join(answers(4))
    stepper.act(sees(1, 1, 4), [{}])
    stepper.join(answers(4))
    assert stepper.is_waiting
    stepper.act(sees(2, 2, 4), [{}])
    (step,) = stepper.join(answers(0, 1, 2, 3, 4))
    expected = [[0, 0], [1, 1], [2, 2], [0, 3], [2, 4]]
    assert [step.obs[env_id].tolist() for env_id in range(5)] == expected
    assert [step.output[env_id]["action"].tolist() for env_id in range(5)] == expected
    assert list(step.obs) == list(step.output) == list(range(5))
    assert not stepper.is_waiting


def test_an_output_without_an_action() -> None:
    class Mute:
        @batched
        def forward(self, data):
            return EnvBatch(data.env_ids, {"logit": data.columns})

    with pytest.raises(ValueError, match="without the field 'action'"):
        VectorStepper(None, [Mute()]).act(sees(0, 0, 1), [{}])


@pytest.mark.parametrize("policy", [Echo(), BatchedEcho()])
def test_an_answer_that_comes_after_a_change_of_policy(policy) -> None:
    first, second = VectorStepper(None, [policy]), VectorStepper(None, [policy])
    first.act(sees(0, 0, 1), [{}])
    assert first.join({}) == []
    second.take_over(first)
    second.act(sees(1, 2), [{}])
    (step,) = second.join(answers(2, 0))
    assert [step.obs[env_id].tolist() for env_id in (2, 0)] == [[1, 2], [0, 0]]
    second.forget()
    assert not second.is_waiting


def test_the_rest_of_a_step() -> None:
    stepper = VectorStepper(None, [BatchedEcho()])
    stepper.act(sees(0, 3, 1, 2), [{}])
    steps, abnormal = drop_abnormal(
        stepper.join(
            {
                3: BaseEnvTimestep(np.zeros(1), 3.0, False, {}),
                1: BaseEnvTimestep(np.zeros(1), 1.0, False, {"abnormal": True}),
                2: BaseEnvTimestep(np.zeros(1), 2.0, True, {"end": 2}),
            }
        )
    )
    assert abnormal.tolist() == [1]
    (step,) = steps
    assert step.obs.env_ids.tolist() == step.output.env_ids.tolist() == [3, 2]
    assert step.timesteps.reward[:, 0].tolist() == [3.0, 2.0]
    assert step.timesteps.info_at(1) == {"end": 2}


def test_a_game_is_split_among_its_players() -> None:
    stepper = VectorStepper(None, [Echo(), Echo()], Game(2))
    obs = {7: [np.array([1]), np.array([2, 2])], 3: [np.array([3]), np.array([4, 4])]}
    actions = stepper.act(obs, [{}, {}])
    assert {env_id: [action.tolist() for action in joint] for env_id, joint in actions.items()} == {
        7: [[1], [2, 2]],
        3: [[3], [4, 4]],
    }
    infos = [{"of": 0}, {"of": 1, "abnormal": True}]
    answer = {
        7: BaseEnvTimestep(obs[7], [0.5, 1.5], False, {}),
        3: BaseEnvTimestep(obs[3], [1.0, 2.0], np.bool_(True), infos),
    }
    steps = stepper.join(answer)
    assert [step.timesteps.reward.tolist() for step in steps] == [[[0.5], [1.0]], [[1.5], [2.0]]]
    assert [step.timesteps.done.tolist() for step in steps] == [[False, True]] * 2
    assert steps[1].timesteps.info_at(1)["of"] == 1
    # Abnormal for one player is abnormal for the game.
    rest, abnormal = drop_abnormal(steps)
    assert (abnormal.tolist(), [list(step.obs) for step in rest]) == ([3], [[7], [7]])


def test_a_joint_array_of_a_game_in_columns() -> None:
    stepper = VectorStepper(None, [BatchedEcho(), BatchedEcho()], Game(2, joint_array=True))
    actions = stepper.act(EnvBatch([0, 1], np.array([[[1], [2]], [[3], [4]]])), [{}, {}])
    assert {env_id: action.tolist() for env_id, action in actions.items()} == {0: [1, 2], 1: [3, 4]}
