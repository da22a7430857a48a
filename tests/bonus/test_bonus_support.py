"""Which agents and configs there are."""

import pytest

from ding import bonus
from ding.bonus.common import AgentConfigError, EvalReturn, TrainingReturn
from ding.bonus.config import get_hybrid_shape, get_instance_config, get_instance_env
from ding.config.example.DQN import supported_env, supported_env_cfg
from ding.envs.env.making import find_spec
from ding.envs.env.old_ids import successor_of


def test_agents_and_envs_by_name() -> None:
    assert bonus.supported_algo["DQN"] is bonus.DQNAgent
    assert set(bonus.supported_algo_list) == set(bonus.supported_algo) == set(bonus.algo_supported())
    assert "LunarLander-v3" in bonus.supported_env
    assert set(bonus.env_supported("dqn")) <= set(bonus.env_supported())
    assert "DQN" in bonus.algo_supported("lunarlander-v3")
    assert bonus.is_supported("LunarLander-v3", "dqn")
    assert bonus.is_supported(algo="DQN")
    assert bonus.is_supported(env_id="cartpole-v1")
    assert bonus.is_supported("LunarLander-v2", "DQN")
    assert {"DDPG", "PPOF", "SAC", "TD3"} <= set(bonus.algo_supported("LunarLanderContinuous-v2"))
    assert not bonus.is_supported("Nothing-v0", "DQN")
    assert not bonus.is_supported(algo="nothing")


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="DQN"):
        bonus.env_supported("DQM")
    with pytest.raises(ValueError, match="Did you mean 'LunarLander-v3'"):
        bonus.algo_supported("LunarLander-v4")
    with pytest.raises(ValueError, match="env_id, algo, or both"):
        bonus.is_supported()
    with pytest.raises(AttributeError, match="SAKAgent"):
        _ = bonus.SAKAgent


def test_results_are_plain_records() -> None:
    assert TrainingReturn(wandb_url="x").wandb_url == "x"
    assert EvalReturn(eval_value=1.0, eval_value_std=0.5).eval_value_std == 0.5


def test_configs_are_copies() -> None:
    first = get_instance_config("CartPole-v1", "DQN")
    first.policy.nstep = 99
    assert get_instance_config("CartPole-v1", "DQN").policy.nstep == 1
    assert get_instance_config("LunarLander-v2", "DQN").env.env_id == "LunarLander-v3"
    assert get_instance_config("Hopper-v3", "SAC") == get_instance_config("Hopper-v5", "SAC")
    with pytest.raises(KeyError, match="no config for 'Nothing-v0'"):
        get_instance_config("Nothing-v0", "DQN")


@pytest.mark.parametrize("old", ["Ant-v3", "Hopper-v2", "LunarLander-v2"])
def test_an_agent_and_an_env_have_the_same_successor_of_an_old_id(old: str) -> None:
    env_id, arguments = successor_of(old)
    spec = find_spec(old)
    assert env_id == spec.id != old
    assert arguments.items() <= spec.kwargs.items()


def test_envs_by_id() -> None:
    assert get_instance_env("CartPole-v0").spec.max_episode_steps == 200
    env = supported_env["CartPole-v1"](supported_env_cfg["CartPole-v1"].env)
    assert env.reset().shape == (4,)
    with pytest.raises(bonus.AgentConfigError, match="did you mean CartPole-v1"):
        get_instance_env("CartPol-v1")


def test_hybrid_actions() -> None:
    spaces = pytest.importorskip("gymnasium").spaces
    space = spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (1,)), spaces.Box(-1, 1, (1,))])
    assert get_hybrid_shape(space) == {"action_type_shape": 3, "action_args_shape": 2}


@pytest.mark.parametrize(
    ("short", "env_id", "kind"), [("acrobot", "Acrobot-v1", "discrete"), ("hybrid_moving", "Moving-v0", "hybrid")]
)
def test_ppof_knows_the_short_names_of_di_engine(short, env_id, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert short in bonus.PPOF.supported_env_list
    agent = bonus.PPOF(env_id=short)
    assert (agent.cfg.env.env_id, agent.cfg.policy.action_space) == (env_id, kind)
    action = agent.predict(agent.env.reset())
    assert agent.env.action_space.contains(action)


def test_ppof_names_the_package_of_an_env_that_it_cannot_make():
    with pytest.raises(AgentConfigError, match="'mario' is one of gym_super_mario_bros"):
        bonus.PPOF(env_id="mario")


def test_an_id_may_be_the_first_or_the_env_argument_and_be_one_that_gymnasium_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("Box2D")
    tuned = bonus.PPOF(env_id="LunarLander-v2").cfg.policy
    assert bonus.PPOF(env="LunarLander-v2").cfg.policy == tuned
    assert tuned.n_sample == 512
    for env_id in ("LunarLanderContinuous-v2", "LunarLanderContinuous-v3"):
        cfg = get_instance_config(env_id, "SAC")
        assert bonus.SACAgent(env_id="LunarLanderContinuous-v2", cfg=cfg).cfg.env.env_id == "LunarLanderContinuous-v3"
    with pytest.raises(AgentConfigError, match=r"env_id is 'LunarLander-v2', but cfg\.env\.env_id is"):
        bonus.SACAgent(env_id="LunarLander-v2", cfg=get_instance_config("LunarLanderContinuous-v2", "SAC"))
