import logging

import numpy as np
import pytest
import torch
from easydict import EasyDict

from ding.data import EnvBatch
from ding.rollout import EvaluationError
from ding.worker import InteractionSerialEvaluator, create_serial_evaluator, get_serial_evaluator_cls
from ding.worker.testing import BatchedScriptedPolicy, ScriptedEnvManager, ScriptedPolicy


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class RecordingWriter:
    def __init__(self):
        self.scalars = {}
        self.videos = []
        self.num_closed = 0

    def add_scalar(self, tag, value, step):
        self.scalars.setdefault(tag, []).append((step, value))

    def add_video(self, tag, video, step, fps):
        self.videos.append((tag, video, step, fps))

    def flush(self):
        pass

    def close(self):
        self.num_closed += 1


def config(**changes):
    cfg = InteractionSerialEvaluator.default_config()
    cfg.update({"n_episode": 4, "stop_value": 3.0, **changes})
    return cfg


def make(env, policy=None, writer=None, **changes):
    policy = ScriptedPolicy() if policy is None else policy
    return InteractionSerialEvaluator(config(**changes), env, policy.eval_mode, tb_logger=writer or RecordingWriter())


FORMS = pytest.mark.parametrize(
    ("policy_cls", "in_columns"),
    [(ScriptedPolicy, False), (ScriptedPolicy, True), (BatchedScriptedPolicy, False), (BatchedScriptedPolicy, True)],
)


@FORMS
def test_result_is_the_same_in_every_form(policy_cls, in_columns):
    env = ScriptedEnvManager([[2, 4], [3]], in_columns=in_columns, episode_info={"score": np.float32(7)})
    policy = policy_cls(lambda env_id, step: 10 * env_id + step)
    evaluator = make(env, policy)
    stop, info = evaluator.eval(train_iter=1, envstep=10)
    # The reset of the evaluation is the second one: env 0 goes on with its second length.
    assert info == {
        "eval_episode_return": [4.0, 2.0, 3.0, 3.0],
        "eval_episode_return_mean": 3.0,
        "score": [7.0] * 4,
        "score_mean": 7.0,
    }
    assert stop is True
    assert [np.asarray(a).tolist() for a in env.actions[1]] == [[10], [11], [12], [10], [11], [12]]
    assert all(isinstance(a, np.ndarray) for a in env.actions[0])
    assert policy.resets == [("eval", ids) for ids in (None, None, [1], [0], [0], [1])]


@FORMS
def test_envs_are_not_stepped_beyond_their_share(policy_cls, in_columns):
    env = ScriptedEnvManager([[1], [5]], in_columns=in_columns)
    writer = RecordingWriter()
    policy = policy_cls()
    evaluator = make(env, policy, writer, n_episode=3)
    evaluator.eval(train_iter=0, envstep=0)
    assert len(env.actions[0]) == 2
    assert len(env.actions[1]) == 5
    assert writer.scalars["evaluator_iter/envstep_count"] == [(0, 7)]
    assert [ids for _, ids, _ in policy.forwards] == [[0, 1], [0, 1], [1], [1], [1]]


@FORMS
def test_policy_sees_float32_tensors(policy_cls, in_columns):
    env = ScriptedEnvManager([[1]], in_columns=in_columns)
    policy = policy_cls()
    make(env, policy, n_episode=1).eval(policy_kwargs={"eps": 0.5})
    seen = policy.inputs[0]
    batched_input = isinstance(seen, EnvBatch)
    assert batched_input == (policy_cls is BatchedScriptedPolicy)
    assert seen[0].dtype == torch.float32
    assert seen[0].tolist() == [0.0, 0.0]
    assert policy.forwards[0][2] == {"eps": 0.5}


@FORMS
def test_abnormal_env_is_reset_and_its_episode_does_not_count(policy_cls, in_columns):
    # Episode 1 is the first of the evaluation (episode 0 begins with the launch).
    env = ScriptedEnvManager([[2], [1, 3]], in_columns=in_columns, abnormal=[(1, 1)])
    writer = RecordingWriter()
    policy = policy_cls()
    evaluator = make(env, policy, writer, n_episode=2)
    _, info = evaluator.eval(train_iter=0)
    assert {1: None} in env.resets
    assert ("eval", [1]) in policy.resets
    assert info["eval_episode_return"] == [2.0, 1.0]
    # 2 steps of env 0, 2 good steps of the broken episode, 1 of the next.
    assert writer.scalars["evaluator_iter/envstep_count"] == [(0, 5)]


def test_env_that_only_breaks_ends_the_evaluation():
    env = ScriptedEnvManager([[1]], abnormal=[(0, episode) for episode in range(500)])
    with pytest.raises(EvaluationError, match="env 0 reported 101 abnormal episodes in a row"):
        make(env, n_episode=1).eval()


def test_should_eval_sequence():
    evaluator = make(ScriptedEnvManager([[1]]))
    asked = [0, 0, 1, 999, 1000, 1001, 2000]
    assert [evaluator.should_eval(i) for i in asked] == [True, False, False, False, True, False, True]


def test_tags_and_values():
    writer = RecordingWriter()
    make(ScriptedEnvManager([[2, 4]]), writer=writer, n_episode=2, stop_value=100).eval(train_iter=7, envstep=50)
    values = {tag: entries for tag, entries in writer.scalars.items() if "time" not in tag and "per_sec" not in tag}
    expected = {
        "episode_count": 2,
        "envstep_count": 6,
        "avg_envstep_per_episode": 3.0,
        "reward_mean": 3.0,
        "reward_std": 1.0,
        "reward_max": 4.0,
        "reward_min": 2.0,
        "eval_episode_return_mean": 3.0,
    }
    assert values == {
        **{f"evaluator_iter/{key}": [(7, value)] for key, value in expected.items()},
        **{f"evaluator_step/{key}": [(50, value)] for key, value in expected.items()},
    }
    scalars = {tag: entries[0][1] for tag, entries in writer.scalars.items()}
    assert scalars["evaluator_iter/avg_time_per_episode"] == pytest.approx(scalars["evaluator_iter/evaluate_time"] / 2)


def test_best_checkpoint_is_saved_on_first_and_on_better_results():
    env = ScriptedEnvManager([[9, 2, 9, 1, 9, 3, 9, 3]])
    evaluator = make(env, n_episode=1, stop_value=100)
    saved = []
    for train_iter in range(4):
        evaluator.eval(save_ckpt_fn=lambda name, i=train_iter: saved.append((i, name)), train_iter=train_iter)
    # The launch begins episode 0, each evaluation begins two: it plays the episodes 1, 3, 5 and 7.
    assert saved == [(0, "ckpt_best.pth.tar"), (2, "ckpt_best.pth.tar")]


@pytest.mark.parametrize(
    ("train_iter", "stop_value", "changes", "stop"),
    [(1, 2.0, {}, True), (1, 2.1, {}, False), (0, 2.0, {}, False), (0, 2.0, {"stop_from_iter": 0}, True)],
)
def test_stop_rule(train_iter, stop_value, changes, stop):
    evaluator = make(ScriptedEnvManager([[2]]), n_episode=1, stop_value=stop_value, **changes)
    assert evaluator.eval(train_iter=train_iter)[0] is stop


def test_missing_episode_number_is_told():
    cfg = InteractionSerialEvaluator.default_config()
    cfg.stop_value = 1
    evaluator = InteractionSerialEvaluator(cfg, ScriptedEnvManager([[1]]), ScriptedPolicy().eval_mode)
    with pytest.raises(AssertionError, match="n_evaluator_episode"):
        evaluator.eval()
    assert evaluator.eval(n_episode=2)[1]["eval_episode_return"] == [1.0, 1.0]


def test_missing_stop_value_is_told():
    with pytest.raises(KeyError, match="no key 'stop_value'; did you mean 'stop_valu'"):
        InteractionSerialEvaluator(EasyDict(eval_freq=1, stop_valu=2))


def test_env_and_policy_may_come_later():
    evaluator = InteractionSerialEvaluator(config(n_episode=1))
    with pytest.raises(RuntimeError, match="needs an env manager"):
        evaluator.eval()
    with pytest.raises(AssertionError, match="set an env manager before the policy"):
        evaluator.reset_policy(ScriptedPolicy().eval_mode)
    env = ScriptedEnvManager([[1]])
    evaluator.reset_env(env)
    evaluator.reset_policy(ScriptedPolicy().eval_mode)
    assert evaluator.eval()[1]["eval_episode_return"] == [1.0]
    assert evaluator.env is env


def test_env_without_episode_return_is_told():
    class Silent(ScriptedEnvManager):
        def step_env(self, env_id, action):
            step = super().step_env(env_id, action)
            step.info.pop("eval_episode_return", None)
            return step

    with pytest.raises(KeyError, match="env 0 ended an episode without"):
        make(Silent([[1]]), n_episode=1).eval()


def test_close_leaves_a_shared_writer_open_and_closes_the_env():
    writer, env = RecordingWriter(), ScriptedEnvManager([[1]])
    evaluator = make(env, writer=writer)
    evaluator.close()
    evaluator.close()
    assert env.closed
    assert writer.num_closed == 0


def test_log_files(tmp_path, caplog):
    with caplog.at_level(logging.INFO, logger="ding"):
        evaluator = InteractionSerialEvaluator(
            config(n_episode=1),
            ScriptedEnvManager([[2]]),
            ScriptedPolicy().eval_mode,
            exp_name="exp",
            instance_name="ev",
        )
        evaluator.eval(train_iter=3)
        evaluator.close()
    text = (tmp_path / "exp/log/ev/ev_logger.txt").read_text()
    assert "episode 1 ended with return 2.0000" in text
    assert "iteration_3.pth.tar" in text
    assert list((tmp_path / "exp/log/ev/ev_tb_logger").glob("events*"))


def test_figures_are_asked_for_at_the_end_of_each_episode():
    env = ScriptedEnvManager([[1], [2]])
    make(env, n_episode=2, figure_path="figures").eval()
    assert env.figures == [(0, "figures"), (1, "figures")]


def test_video(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    env, writer = ScriptedEnvManager([[2], [3]]), RecordingWriter()
    env.env_ref = object()
    evaluator = make(env, writer=writer, n_episode=2, render={"render_freq": 10, "mode": "envstep"})
    evaluator.eval(train_iter=1, envstep=5)
    evaluator.eval(train_iter=2, envstep=9)
    evaluator.eval(train_iter=3, envstep=15)
    evaluator.eval(train_iter=4, envstep=19)
    evaluator.eval(train_iter=5, envstep=20, force_render=True)
    assert [(tag, step, fps) for tag, _, step, fps in writer.videos] == [
        ("evaluator_envstep/", 9, 30),
        ("evaluator_envstep/", 19, 30),
        ("evaluator_envstep/", 20, 30),
    ]
    # The worst episode has 2 frames, padded to 3; the frames are the states before each action.
    assert writer.videos[0][1][:, :, 0, 0, 0].tolist() == [[0, 1, 1], [0, 1, 2]]


def test_wrong_render_mode_is_told():
    evaluator = make(ScriptedEnvManager([[1]]), render={"render_freq": 1, "mode": "step"})
    with pytest.raises(ValueError, match="'train_iter' or 'envstep', got 'step'"):
        evaluator.eval(n_episode=1)


def test_ended_manager_is_revived():
    class OneEpisode(ScriptedEnvManager):
        """Envs that wait for a reset after each episode."""

        def step_env(self, env_id, action):
            step = super().step_env(env_id, action)
            if step.done:
                self._broken.add(env_id)
            return step

    _, info = make(OneEpisode([[1, 2, 3, 4]]), n_episode=2).eval()
    assert len(info["eval_episode_return"]) == 2


def test_factories():
    cfg = config(n_episode=1)
    cfg.pop("type", None)
    evaluator = create_serial_evaluator(cfg, env=ScriptedEnvManager([[1]]), policy=ScriptedPolicy().eval_mode)
    assert type(evaluator) is InteractionSerialEvaluator
    assert cfg.type == "interaction"
    assert get_serial_evaluator_cls(EasyDict(type="interaction")) is InteractionSerialEvaluator
    with pytest.raises(KeyError, match="interaction"):
        create_serial_evaluator(config(type="interacton"))


def test_default_config_is_a_copy():
    first = InteractionSerialEvaluator.default_config()
    assert (first.eval_freq, first.render, first.figure_path) == (1000, {"render_freq": -1, "mode": "train_iter"}, None)
    assert first.cfg_type == "InteractionSerialEvaluatorDict"
    first.render.render_freq = 5
    assert InteractionSerialEvaluator.default_config().render.render_freq == -1
