"""Data on its way: pushers, fetchers, savers, enhancers and estimators of a task."""

import itertools

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import DequeBuffer, TransitionBatch
from ding.data.buffer.middleware import PriorityExperienceReplay
from ding.framework import Context, OfflineRLContext, OnlineRLContext, task
from ding.framework.middleware import (
    CkptSaver,
    HERLearner,
    OfflineMemoryDataFetcher,
    OffPolicyLearner,
    buffer_saver,
    data_pusher,
    eps_greedy_handler,
    eps_greedy_masker,
    final_ctx_saver,
    gae_estimator,
    her_data_enhancer,
    montecarlo_return_estimator,
    multistep_trainer,
    nstep_reward_enhancer,
    offline_data_fetcher,
    offline_data_fetcher_from_mem,
    offline_data_saver,
    offpolicy_data_fetcher,
    ppof_adv_estimator,
    priority_calculator,
    reward_estimator,
    sqil_data_pusher,
    trainer,
)
from ding.policy.common_utils import default_preprocess_learn
from ding.policy.errors import PolicyConfigError
from ding.reward_model import HerRewardModel
from ding.utils import read_file
from ding.utils.checkpoint import checked_manifest, read_checkpoint
from ding.utils.file_helper import FileRefusedError
from ding.worker.testing import ScriptedPolicy


def rows(count: int, **extra) -> list[dict]:
    return [
        {
            "obs": torch.tensor([float(i), 0.0]),
            "next_obs": torch.tensor([float(i + 1), 0.0]),
            "action": torch.tensor([i % 2]),
            "reward": torch.tensor([float(i + 1)]),
            "done": False,
            "env_data_id": torch.tensor([i // 3]),
            **extra,
        }
        for i in range(count)
    ]


class Tree:
    """A transition as ``treetensor`` has it: its fields are attributes and items, and ``json`` makes a dict of it."""

    def __init__(self, fields: dict) -> None:
        self._fields = fields

    def __getitem__(self, name):
        return self._fields[name]

    def json(self) -> dict:
        return self._fields


def as_columns(given: list[dict]) -> TransitionBatch:
    return TransitionBatch(TransitionBatch.from_rows(given).columns)


def as_trees(given: list[dict]) -> list[Tree]:
    return [Tree(row) for row in given]


FORMS = pytest.mark.parametrize("form", [list, as_columns])
ALL_FORMS = pytest.mark.parametrize("form", [list, as_columns, as_trees])


def config(**learn) -> EasyDict:
    return EasyDict(
        exp_name="exp",
        policy=dict(
            learn=dict(batch_size=4, update_per_collect=3, **learn),
            collect=dict(unroll_len=1),
            nstep=3,
            discount_factor=0.9,
        ),
    )


@pytest.fixture(autouse=True)
def _started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with task.start(ctx=OnlineRLContext()):
        yield


# Pushers


@ALL_FORMS
def test_transitions_are_records(form) -> None:
    buffer, ctx = DequeBuffer(10), OnlineRLContext(trajectories=form(rows(5)))
    data_pusher(config(), buffer, group_by_env=True)(ctx)
    assert ctx.trajectories is None
    assert buffer.count() == 5
    assert [record.meta["env"] for record in buffer] == [0, 0, 0, 1, 1]
    assert float(buffer[4].data["reward"]) == 5.0


def test_episodes_are_records_as_a_whole() -> None:
    buffer, ctx = DequeBuffer(10), OnlineRLContext(episodes=[rows(2), rows(3)])
    push = data_pusher(config(), buffer)
    push(ctx)
    assert (ctx.episodes, [len(record.data) for record in buffer]) == (None, [2, 3])
    with pytest.raises(RuntimeError, match=r"neither ctx\.trajectories nor ctx\.episodes"):
        push(OnlineRLContext())
    push(OnlineRLContext(trajectories=[], episodes=[rows(2)]))
    assert buffer.count() == 2, "an empty list of trajectories hides episodes"


@ALL_FORMS
@pytest.mark.parametrize("expert", [True, False])
def test_rewards_of_an_expert(form, expert) -> None:
    buffer, given = DequeBuffer(10), form(rows(3))
    ctx = OnlineRLContext(trajectories=given)
    sqil_data_pusher(config(), buffer, expert)(ctx)
    assert [record.data["reward"].tolist() for record in buffer] == [[float(expert)]] * 3
    assert float(given[2]["reward"]) == 3.0, "what was collected is left as it is"
    assert ctx.trajectories is None


def test_a_buffer_is_saved_at_first_and_every_so_many_env_steps(tmp_path) -> None:
    buffer = DequeBuffer(10)
    save = buffer_saver(config(), buffer, every_envstep=100)
    for env_step in (0, 50, 99, 100, 150, 250, 350):
        save(OnlineRLContext(env_step=env_step))
    names = {path.name for path in (tmp_path / "exp" / "replaybuffer").iterdir()}
    assert names == {f"data_envstep_{step}.hkl" for step in (0, 100, 250, 350)}
    buffer_saver(config(), buffer, replace=True)(OnlineRLContext())
    assert (tmp_path / "exp" / "replaybuffer" / "data_latest.hkl").exists()


# Fetchers


@ALL_FORMS
def test_a_batch_of_one_buffer(form) -> None:
    buffer, ctx = DequeBuffer(10), OnlineRLContext()
    fetch = offpolicy_data_fetcher(config(), buffer)
    assert next(fetch(ctx), "ended") == "ended"
    assert ctx.train_data is None
    data_pusher(config(), buffer)(OnlineRLContext(trajectories=form(rows(8))))
    assert next(fetch(ctx), "ended") is None
    assert len(ctx.train_data) == 4
    assert len({float(row["reward"]) for row in ctx.train_data}) == 4


def test_policies_learn_from_records_that_are_trees() -> None:
    buffer, ctx = DequeBuffer(10), OnlineRLContext()
    for tree in as_trees(rows(4)):
        buffer.push(tree)
    list(offpolicy_data_fetcher(config(), buffer)(ctx))
    assert sorted(float(row["reward"]) for row in ctx.train_data) == [1, 2, 3, 4]
    assert default_preprocess_learn(ctx.train_data)["obs"].shape == (4, 2)


def test_sequences_of_one_episode() -> None:
    cfg, buffer, ctx = config(), DequeBuffer(10), OnlineRLContext()
    cfg.policy.collect.unroll_len = 2
    data_pusher(cfg, buffer, group_by_env=True)(OnlineRLContext(trajectories=rows(6)))
    next(offpolicy_data_fetcher(cfg, buffer)(ctx))
    assert len(ctx.train_data) == 4
    for sequence in ctx.train_data:
        first, second = (float(row["reward"]) for row in sequence)
        assert second == first + 1
        assert first in (1.0, 2.0, 4.0, 5.0)


def test_batches_of_several_buffers() -> None:
    agent, expert, ctx = DequeBuffer(10), DequeBuffer(10), OnlineRLContext()
    for buffer, is_expert in ((agent, False), (expert, True)):
        sqil_data_pusher(config(), buffer, is_expert)(OnlineRLContext(trajectories=rows(6)))
    next(offpolicy_data_fetcher(config(), [(agent, 0.5), (expert, 0.5)])(ctx))
    assert [float(row["reward"]) for row in ctx.train_data] == [0.0, 0.0, 1.0, 1.0]
    next(offpolicy_data_fetcher(config(), {"policy": agent, "value": expert})(ctx))
    assert {key: len(batch) for key, batch in ctx.train_data.items()} == {"policy": 4, "value": 4}


def test_what_cannot_be_sampled_is_said_at_once() -> None:
    cfg = config()
    with pytest.raises(TypeError, match="a buffer, a list of"):
        offpolicy_data_fetcher(cfg, 5)
    cfg.policy.collect.unroll_len = 2
    with pytest.raises(ValueError, match="unroll_len is 2"):
        offpolicy_data_fetcher(cfg, [(DequeBuffer(3), 1.0)])


class Dataset:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, place):
        return {"place": place}


def test_a_data_set_in_shuffled_batches() -> None:
    ctx, fetch, seen = OfflineRLContext(), offline_data_fetcher(config(), Dataset()), []
    for _ in range(4):
        fetch(ctx)
        seen.append([item["place"] for item in ctx.train_data])
        ctx = ctx.renew()
    assert [len(batch) for batch in seen] == [4, 4, 2, 4]
    assert sorted(itertools.chain(*seen[:3])) == list(range(10))
    assert (ctx.train_epoch, ctx.trained_env_step) == (1, 14)


@pytest.mark.parametrize("make", [OfflineMemoryDataFetcher, offline_data_fetcher_from_mem])
def test_a_data_set_in_memory(make) -> None:
    dataset = [(torch.tensor([float(i)]), torch.tensor(i)) for i in range(10)]
    ctx, seen = OfflineRLContext(), []
    fetch = make(config(), dataset)
    for _ in range(6):
        fetch(ctx)
        values, places = ctx.train_data
        assert torch.equal(values.squeeze(1).long(), places)
        seen.append(places.tolist())
        ctx = ctx.renew()
    assert sorted(itertools.chain(*seen[:3])) == sorted(itertools.chain(*seen[3:])) == list(range(10))
    assert seen[:3] != seen[3:]
    assert (ctx.train_epoch, ctx.trained_env_step) == (1, 20)


@FORMS
def test_what_an_expert_does_is_saved(form, tmp_path) -> None:
    path = str(tmp_path / "expert.pkl")
    save = offline_data_saver(path, data_type="naive")
    for rewards in ([1, 2, 3], [1, 2, 3, 1, 2, 3]):
        ctx = OnlineRLContext(trajectories=form(rows(3)))
        save(ctx)
        assert ctx.trajectories is None
        assert [float(row["reward"]) for row in read_file(path)] == rewards


# Enhancers


def nstep(count: int, dones=(), ends=(), gamma: float = 0.9, form=list, limit: int = 99):
    """``limit``: the step at which another episode begins without ``done``."""
    cfg = config()
    cfg.policy.discount_factor = gamma
    given = rows(count)
    for place, row in enumerate(given):
        row["env_data_id"] = torch.tensor([int(place >= limit)])
    for place in dones:
        given[place]["done"] = True
    ctx = OnlineRLContext(trajectories=form(given), trajectory_end_idx=list(ends) or [count - 1])
    nstep_reward_enhancer(cfg)(ctx)
    rewards = [np.asarray(row["reward"]).reshape(-1).tolist() for row in ctx.trajectories]
    return rewards, [pytest.approx(float(row["value_gamma"])) for row in ctx.trajectories], ctx.trajectories


@ALL_FORMS
def test_nstep_rewards(form) -> None:
    rewards, discounts, made = nstep(5, form=form)
    assert rewards == [[1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 0], [5, 0, 0]]
    assert discounts == [0.729, 0.729, 0.729, 0.81, 0.9]
    assert [float(row["next_obs"][0]) for row in made] == [3, 4, 5, 5, 5]


@ALL_FORMS
def test_nstep_rewards_end_with_the_episode(form) -> None:
    rewards, discounts, made = nstep(5, dones=[2], gamma=0.5, form=form)
    assert rewards == [[1, 2, 3], [2, 3, 0], [3, 0, 0], [4, 5, 0], [5, 0, 0]]
    assert discounts == [0.125, 0.25, 0.5, 0.25, 0.5]
    assert [bool(row["done"]) for row in made] == [True, True, True, False, False]


def test_nstep_rewards_end_with_the_environment() -> None:
    rewards, _, _ = nstep(4, ends=[-1, 1, 3])
    assert rewards == [[1, 2, 0], [2, 0, 0], [3, 4, 0], [4, 0, 0]]


@ALL_FORMS
def test_nstep_rewards_end_with_a_time_limit(form) -> None:
    rewards, discounts, made = nstep(4, gamma=0.5, form=form, limit=2)
    assert rewards == [[1, 2, 0], [2, 0, 0], [3, 4, 0], [4, 0, 0]]
    assert discounts == [0.25, 0.5, 0.25, 0.5]
    assert [float(row["next_obs"][0]) for row in made] == [2, 2, 4, 4]
    assert not any(bool(row["done"]) for row in made)


@FORMS
def test_priorities_of_collected_data(form) -> None:
    ctx = OnlineRLContext(trajectories=form(rows(3)))
    priority_calculator(lambda given: [10.0 * float(row["reward"]) for row in given])(ctx)
    assert [row["priority"] for row in ctx.trajectories] == [10.0, 20.0, 30.0]


def test_a_reward_model_returns_data_or_changes_it_in_place() -> None:
    class Returns:
        def estimate(self, data):
            return [{**row, "reward": torch.tensor([7.0])} for row in data]

    class InPlace:
        def estimate(self, data):
            for row in data:
                row["reward"] = torch.tensor([7.0])

    for model in (Returns(), InPlace()):
        ctx = OnlineRLContext(train_data=TransitionBatch.from_rows(rows(2)))
        reward_estimator(config(), model)(ctx)
        assert [float(row["reward"]) for row in ctx.train_data] == [7.0, 7.0]


def her(**cfg) -> HerRewardModel:
    return HerRewardModel(EasyDict(her_strategy="future", **cfg))


@FORMS
def test_hindsight(form) -> None:
    buffer, ctx = DequeBuffer(4), OnlineRLContext()
    enhance = her_data_enhancer(config(), buffer, her(her_replay_k=2, episode_size=2, sample_per_episode=3))
    enhance(ctx)
    assert ctx.train_data is None
    for _ in range(2):
        buffer.push(form(rows(5)))
    enhance(ctx)
    assert len(ctx.train_data) == 12
    for row in ctx.train_data:
        # The observation is (place, goal), and a later place was reached.
        place, goal = row["obs"].tolist()
        assert float(row["next_obs"][1]) == goal
        assert goal >= place + 1
        assert float(row["reward"]) == float(goal == place + 1)


@pytest.mark.parametrize("strategy", ["final", "episode"])
def test_other_goals(strategy) -> None:
    model = HerRewardModel({"her_strategy": strategy})
    (made,) = model.estimate(rows(4))
    goals = [float(row["obs"][1]) for row in made]
    assert goals == [4.0] * 4 if strategy == "final" else set(goals) <= {1.0, 2.0, 3.0, 4.0}


def test_own_functions_and_goals_that_are_kept() -> None:
    def split(obs):
        return obs[:1], obs[1:], obs[:1] * 10

    model = HerRewardModel({"her_strategy": "final"})
    (made,) = model.estimate(
        rows(3), lambda state, goal: torch.cat([goal, state]), split, lambda achieved, goal: achieved - goal
    )
    assert [row["obs"].tolist() for row in made] == [[30.0, 0.0], [30.0, 1.0], [30.0, 2.0]]
    assert [row["reward"].tolist() for row in made] == [[-20.0], [-10.0], [0.0]]
    (kept,) = her(original_ratio=1.0).estimate(rows(3))
    assert [row["obs"].tolist() for row in kept] == [row["obs"].tolist() for row in rows(3)]
    with pytest.raises(AssertionError, match="one of"):
        HerRewardModel({"her_strategy": "past"})


# Advantages


class Critic(torch.nn.Module):
    """The value of an observation is its first number."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, obs, mode):
        assert mode == "compute_critic"
        return {"value": obs[:, 0] + self.weight}


def gae_rows(action) -> list[dict]:
    return [
        {
            "obs": torch.tensor([value, 0.0]),
            "next_obs": torch.tensor([after, 0.0]),
            "action": action,
            "reward": torch.tensor([1.0]),
            "done": done,
            "collect_train_iter": torch.tensor([0]),
        }
        for value, after, done in ((0.0, 1.0, False), (1.0, 2.0, True), (5.0, 6.0, False), (6.0, 7.0, False))
    ]


def estimate_gae(action, form, buffer=None):
    cfg = EasyDict(policy=dict(collect=dict(discount_factor=0.5, gae_lambda=0.5), model=dict(obs_shape=2), cuda=False))
    policy = ScriptedPolicy(attributes={"model": Critic()}).collect_mode
    ctx = OnlineRLContext(trajectories=form(gae_rows(action)), trajectory_end_idx=[3])
    gae_estimator(cfg, policy, buffer)(ctx)
    assert ctx.trajectories is None
    return ctx.train_data


@ALL_FORMS
def test_advantages(form) -> None:
    data = estimate_gae(torch.tensor([1]), form)
    assert data.adv.tolist() == [1.5, 0.0, -1.375, -1.5]
    assert data["traj_flag"].tolist() == [False, True, False, True]
    assert data.value.tolist() == [0.0, 1.0, 5.0, 6.0]


@FORMS
def test_advantages_end_with_a_time_limit(form) -> None:
    given = gae_rows(torch.tensor([1]))
    for number, row in zip((0, 0, 1, 1), given):
        row |= {"done": False, "env_data_id": torch.tensor([number])}
    cfg = EasyDict(policy=dict(collect=dict(discount_factor=0.5, gae_lambda=0.5), model=dict(obs_shape=2), cuda=False))
    policy = ScriptedPolicy(attributes={"model": Critic()}).collect_mode
    ctx = OnlineRLContext(trajectories=form(given), trajectory_end_idx=[3])
    gae_estimator(cfg, policy)(ctx)
    # The value after the second step is bootstrapped, 1 + 0.5 * 2 - 1; the third one has no part in it.
    assert ctx.train_data.traj_flag.tolist() == [False, True, False, True]
    assert ctx.train_data.adv.tolist() == [1.75, 1.0, -1.375, -1.5]
    again = OnlineRLContext(trajectories=form(given), trajectory_end_idx=[3])
    ppof_adv_estimator(None)(again)
    assert again.train_data.traj_flag.tolist() == [False, True, False, True]


def test_logits_of_several_actions_stay_in_parts() -> None:
    given = [{**row, "logit": [torch.zeros(2), torch.ones(3)]} for row in gae_rows(torch.tensor([1, 2]))]
    ctx = OnlineRLContext(trajectories=given, trajectory_end_idx=[3])
    ppof_adv_estimator(None)(ctx)
    batch = default_preprocess_learn(ctx.train_data)
    assert [part.shape for part in batch["logit"]] == [(4, 2), (4, 3)]
    assert batch["action"].shape == (4, 2)


@pytest.mark.parametrize(
    ("action", "shape"),
    [(torch.tensor([1]), (4,)), (torch.tensor([0.5]), (4, 1)), (torch.tensor([0.5, 0.5]), (4, 2))],
)
def test_shapes_of_actions(action, shape) -> None:
    data = estimate_gae(action, list)
    assert tuple(data.action.shape) == shape
    assert tuple(data.reward.shape) == tuple(data.collect_train_iter.shape) == (4,)


@pytest.mark.parametrize(
    ("action", "shape"), [(torch.tensor([1]), (1,)), (torch.tensor([0.5]), (1,)), (torch.tensor([0.5, 0.5]), (2,))]
)
def test_advantages_of_single_records(action, shape) -> None:
    buffer = DequeBuffer(10)
    assert estimate_gae(action, list, buffer) is None
    record = buffer[2].data
    assert {key: tuple(np.shape(record[key])) for key in ("obs", "reward", "done", "value", "adv", "traj_flag")} == {
        "obs": (2,), "reward": (1,), "done": (1,), "value": (1,), "adv": (1,), "traj_flag": (1,),
    }  # fmt: skip
    assert tuple(record["action"].shape) == shape


@ALL_FORMS
def test_data_for_a_policy_that_estimates_itself(form) -> None:
    ctx = OnlineRLContext(trajectories=form(gae_rows(torch.tensor([0.5]))), trajectory_end_idx=[-1, 3])
    ppof_adv_estimator(None)(ctx)
    assert ctx.train_data.traj_flag.tolist() == [False, True, False, True]
    assert tuple(ctx.train_data.action.shape) == (4, 1)
    assert ctx.trajectories is None


class EpisodePolicy(ScriptedPolicy):
    """Its samples are its transitions."""

    def __init__(self) -> None:
        super().__init__(attributes={"gamma": 0.5, "unroll_len": 1})


@ALL_FORMS
def test_monte_carlo_returns(form) -> None:
    def episode() -> list[dict]:
        return [{**row, "reward": torch.tensor([1.0]), "done": i == 1} for i, row in enumerate(rows(2))]

    ctx = OnlineRLContext(episodes=[form(episode()), form(episode())])
    montecarlo_return_estimator(EpisodePolicy())(ctx)
    assert ctx.train_data["return"].tolist() == [1.5, 1.0, 1.5, 1.0]
    assert ctx.episodes is None
    with pytest.raises(ValueError, match="does not end with done"):
        montecarlo_return_estimator(EpisodePolicy())(OnlineRLContext(episodes=[form(rows(2))]))


def test_without_data_there_is_nothing_to_estimate() -> None:
    """A learner whose task ends may get empty lists."""
    cfg = EasyDict(policy=dict(collect=dict(discount_factor=0.5, gae_lambda=0.5)))
    critic = ScriptedPolicy(attributes={"model": Critic()}).collect_mode
    estimators = [gae_estimator(cfg, critic), ppof_adv_estimator(None), montecarlo_return_estimator(EpisodePolicy())]
    for estimate in [*estimators, reward_estimator(cfg, None), nstep_reward_enhancer(config())]:
        ctx = OnlineRLContext(trajectories=[], episodes=[])
        estimate(ctx)
        assert ctx.train_data is None


# Exploration


def test_epsilon_is_there_while_an_iteration_lasts() -> None:
    cfg = EasyDict(policy=dict(other=dict(eps=dict(start=0.95, end=0.1, decay=10000, type="exp"))))
    for env_step, epsilon in ((0, 0.95), (1000, 0.869112), (10000, 0.412698), (50000, 0.105727), (10**6, 0.1)):
        ctx = OnlineRLContext(env_step=env_step)
        phases = eps_greedy_handler(cfg)(ctx)
        next(phases)
        assert ctx.collect_kwargs["eps"] == pytest.approx(epsilon, abs=1e-6)
        next(phases, None)
        assert ctx.collect_kwargs == {}
    cfg.policy.other.eps = EasyDict(start=1, end=0.1, decay=100, type="linear")
    for env_step, epsilon in ((0, 1.0), (50, 0.55), (99, 0.109), (100, 0.1), (1000, 0.1)):
        ctx = OnlineRLContext(env_step=env_step)
        next(eps_greedy_handler(cfg)(ctx))
        assert ctx.collect_kwargs["eps"] == pytest.approx(epsilon, abs=1e-6)
    eps_greedy_masker()(ctx)
    assert ctx.collect_kwargs == {"eps": -1}
    cfg.policy.other.eps.pop("decay")
    with pytest.raises(PolicyConfigError, match=r"policy\.other\.eps\.decay is missing"):
        eps_greedy_handler(cfg)


# Training


def filled(count: int = 8) -> DequeBuffer:
    buffer = DequeBuffer(count)
    buffer.extend(TransitionBatch(TransitionBatch.from_rows(rows(count)).columns))
    return buffer


def test_a_trainer_counts_updates() -> None:
    policy, ctx = ScriptedPolicy(), OnlineRLContext()
    train = trainer(config(), policy.learn_mode)
    train(ctx)
    assert (policy.learned, ctx.train_iter) == ([], 0)
    ctx.train_data = rows(2)
    train(ctx)
    assert (len(policy.learned), ctx.train_iter, ctx.train_output["total_loss"]) == (1, 1, 0.5)
    with pytest.raises(TypeError, match="got Context"):
        train(Context())
    assert len(policy.learned) == 1


@FORMS
def test_a_trainer_of_several_updates(form) -> None:
    ctx = OnlineRLContext(train_data=form(rows(2)), train_iter=5)
    multistep_trainer(ScriptedPolicy(learn_output=[{"total_loss": 1.0}, {"total_loss": 3.0}]).learn_mode)(ctx)
    assert (ctx.train_iter, [one["total_loss"] for one in ctx.train_output]) == (7, [1.0, 3.0])
    with pytest.raises(TypeError, match="returns a list, got dict"):
        multistep_trainer(ScriptedPolicy().learn_mode)(OnlineRLContext(train_data=rows(2)))


def test_a_learner_trains_as_long_as_there_is_data() -> None:
    policy, ctx = ScriptedPolicy(), OnlineRLContext()
    OffPolicyLearner(config(), policy.learn_mode, DequeBuffer(10))(ctx)
    assert (ctx.train_output, ctx.train_iter) == ([], 0)
    OffPolicyLearner(config(), policy.learn_mode, filled())(ctx)
    assert (len(ctx.train_output), ctx.train_iter, len(policy.learned)) == (3, 3, 3)
    assert isinstance(policy.learned[0], TransitionBatch)


def test_a_learner_asks_the_reward_model_for_each_batch() -> None:
    class Doubles:
        def estimate(self, data):
            return [{**row, "reward": row["reward"] * 2} for row in data]

    policy = ScriptedPolicy()
    OffPolicyLearner(config(), policy.learn_mode, filled(), Doubles())(OnlineRLContext())
    assert all(float(row["reward"]) == 2 * (float(row["obs"][0]) + 1) for row in policy.learned[1])


def test_priorities_go_back_to_the_records_of_their_own_batch() -> None:
    """The priority that the policy returns is ten times the reward, which is known for each record."""
    buffer = filled()
    buffer.use(PriorityExperienceReplay(buffer, IS_weight=True))
    policy = ScriptedPolicy(
        learn_output=lambda data: {"total_loss": 0.5, "priority": [10 * float(row["reward"]) for row in data]}
    )
    ctx = OnlineRLContext()
    OffPolicyLearner(config(), policy.learn_mode, buffer)(ctx)
    assert len(ctx.train_output) == 3
    assert "priority_IS" in policy.learned[0][0]
    trained = {float(row["reward"]) for batch in policy.learned for row in batch}
    for record in buffer:
        reward = float(record.data["reward"])
        if reward in trained:
            assert record.meta["priority"] == pytest.approx(10 * reward)
        else:
            assert record.meta.get("priority", 1.0) == 1.0


def test_a_learner_of_relabelled_goals() -> None:
    buffer, policy, ctx = DequeBuffer(4), ScriptedPolicy(), OnlineRLContext()
    learner = HERLearner(config(), policy.learn_mode, buffer, her(episode_size=2))
    learner(ctx)
    assert ctx.train_output == []
    for _ in range(2):
        buffer.push(rows(5))
    learner(ctx)
    assert [len(batch) for batch in policy.learned] == [10, 10, 10]
    assert ctx.train_iter == 3


# Files


def test_checkpoints(tmp_path) -> None:
    save = CkptSaver(ScriptedPolicy(), str(tmp_path / "exp"), train_freq=5)
    for train_iter in (0, 0, 1, 4, 5, 6, 11):
        save(OnlineRLContext(train_iter=train_iter, env_step=8 * train_iter))
    folder = tmp_path / "exp" / "ckpt"
    assert {path.name for path in folder.glob("*.pth.tar")} == {f"iteration_{n}.pth.tar" for n in (0, 5, 11)}
    assert checked_manifest(folder / "iteration_5").notes == {"train_iter": 5, "env_step": 40}
    assert read_checkpoint(folder / "iteration_5").keys() == read_file(str(folder / "iteration_5.pth.tar")).keys()
    (folder / "iteration_11.pth.tar").write_bytes(b"")
    with pytest.raises(FileRefusedError, match=r"is empty; the newest good one beside it is .*iteration_5\.pth\.tar"):
        read_checkpoint(folder / "iteration_11.pth.tar")
    save(OnlineRLContext(train_iter=12, eval_value=3.0))
    assert (folder / "eval.pth.tar").exists()
    task.finish = True
    save(OnlineRLContext(train_iter=12))
    assert (folder / "final.pth.tar").exists()


def test_checkpoints_without_an_iteration_0(tmp_path) -> None:
    save = CkptSaver(ScriptedPolicy(), str(tmp_path / "exp"), train_freq=100)
    for train_iter in range(5, 305, 5):
        save(OnlineRLContext(train_iter=train_iter))
    names = {path.name for path in (tmp_path / "exp" / "ckpt").glob("*.pth.tar")}
    assert names == {"iteration_100.pth.tar", "iteration_200.pth.tar", "iteration_300.pth.tar"}


def test_the_end_of_a_run_as_a_file(tmp_path) -> None:
    save = final_ctx_saver(str(tmp_path / "run"))
    ctx = OnlineRLContext(env_step=8, train_iter=5, last_eval_value=3.5)
    save(ctx)
    assert not (tmp_path / "run").exists()
    task.finish = True
    save(ctx)
    result = read_file(str(tmp_path / "run" / "result.pkl"))
    assert result == {
        "total_step": 0, "env_step": 8, "env_episode": 0, "train_iter": 5, "last_eval_iter": -1, "eval_value": 3.5,
    }  # fmt: skip
