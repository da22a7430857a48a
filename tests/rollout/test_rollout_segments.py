"""A rollout of scripted policies: segments of each player, in columns and in rows, and the episodes they belong to."""

import pytest

from ding.data import SchemaError, TransitionBatch, batched
from ding.rollout import INF, EpisodeRecord, Game, Rollout
from ding.worker.testing import BatchedScriptedPolicy, ScriptedEnvManager, ScriptedPolicy

BOTH = pytest.mark.parametrize("policy_cls", [ScriptedPolicy, BatchedScriptedPolicy])


def make(policy_cls, lengths=((3,), (4,)), segment_length=INF, **settings):
    env = ScriptedEnvManager(lengths, **settings)
    env.launch()
    return Rollout(env, [policy_cls().collect_mode], [segment_length], EpisodeRecord(env.env_num))


def steps_of(samples):
    return [tuple(int(value) for value in row["obs"]) for row in samples]


def play(rollout, count):
    return [rollout.step([{}], [{"iter": 5}]) for _ in range(count)]


@BOTH
def test_segments_end_by_length_and_with_their_episodes(policy_cls) -> None:
    rollout = make(policy_cls, segment_length=2)
    ended = play(rollout, 4)
    assert [[env_id for env_id, _ in step] for step in ended] == [[], [], [0], [1]]
    assert ended[2][0][1][0]["eval_episode_return"] == 3.0
    taken = rollout.take_samples()
    assert steps_of(taken.samples) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2), (1, 3)]
    assert taken.num_steps.tolist() == taken.num_samples.tolist() == [2, 2, 1, 2]
    assert {row["iter"] for row in taken.samples} == {5}
    assert [episode["train_sample"] for episode in rollout.episodes.finished] == [3, 4]
    assert rollout.episodes.train_sample_count == 7
    assert len(rollout.take_samples().samples) == 0


@BOTH
def test_whole_episodes_as_segments(policy_cls) -> None:
    rollout = make(policy_cls)
    play(rollout, 4)
    segments = rollout.take_segments()
    assert [steps_of(segment) for segment in segments] == [
        [(0, 0), (0, 1), (0, 2)],
        [(1, 0), (1, 1), (1, 2), (1, 3)],
    ]
    assert all(isinstance(one, TransitionBatch if policy_cls is BatchedScriptedPolicy else list) for one in segments)
    assert rollout.take_segments() == []


@BOTH
def test_exactly_so_many_episodes(policy_cls) -> None:
    rollout = make(policy_cls, lengths=((1,), (3,)))
    ended = [env_id for step in rollout.play(3, [{}], [{}]) for env_id, _ in step]
    assert ended == [0, 0, 1]
    assert rollout.episodes.envstep == 5
    assert len(rollout.take_samples().samples) == 5


@BOTH
def test_an_abnormal_step_drops_what_had_begun(policy_cls) -> None:
    lines = []
    env = ScriptedEnvManager([[3], [4]], abnormal=[(0, 0)])
    env.launch()
    rollout = Rollout(env, [policy_cls().collect_mode], [INF], EpisodeRecord(2), log=lines.append)
    assert play(rollout, 3) == [[], [], []]
    assert rollout.episodes.envstep == 5
    assert lines == ["envs [0] returned an abnormal step and were reset; what had begun is dropped"]
    play(rollout, 3)
    assert [len(segment) for segment in rollout.take_segments()] == [4, 3]


@BOTH
def test_another_policy_takes_over(policy_cls) -> None:
    first = make(policy_cls, segment_length=4)
    play(first, 2)
    second = Rollout(first.stepper.env, [policy_cls().collect_mode], [4], first.episodes)
    second.take_over(first)
    play(second, 1)
    assert steps_of(second.take_samples().samples) == [(0, 0), (0, 1), (0, 2)]
    # The other form, or another number of players, begins anew.
    other = BatchedScriptedPolicy if policy_cls is ScriptedPolicy else ScriptedPolicy
    third = Rollout(first.stepper.env, [other().collect_mode], [4], first.episodes)
    third.take_over(second)
    play(third, 1)
    assert steps_of(third.take_samples().samples) == [(1, 3)]


@BOTH
def test_players_that_are_not_recorded_play_along(policy_cls) -> None:
    env = ScriptedEnvManager([[2]], num_players=2)
    env.launch()
    policies = [policy_cls().collect_mode, policy_cls().collect_mode]
    rollout = Rollout(env, policies, [None, INF], EpisodeRecord(1), Game(2))
    assert rollout.segments[0] is None
    rollout.step([{}, {}], [{}, {}])
    ((env_id, infos),) = rollout.step([{}, {}], [{}, {}])
    assert (env_id, [info["eval_episode_return"] for info in infos]) == (0, [2.0, -2.0])
    assert steps_of(rollout.take_samples(1).samples) == [(100, 100), (100, 101)]
    assert {key: rollout.episodes.finished[0][key] for key in ("reward0", "reward1")} == {"reward0": 2, "reward1": -2}


class Wrong(BatchedScriptedPolicy):
    @batched
    def _process_transition(self, obs, policy_output, timestep):
        return [obs]


def test_a_batched_policy_must_give_columns() -> None:
    with pytest.raises(SchemaError, match="must return a dict of columns, found list"):
        play(make(Wrong), 1)
