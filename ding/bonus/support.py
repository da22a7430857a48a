"""Available agents, and the envs for which they have a config. Agents also work on other envs.

An id that Gymnasium has replaced (``LunarLander-v2``) stands for the env that an agent creates from it.
"""

from ding.bonus.a2c import A2CAgent
from ding.bonus.c51 import C51Agent
from ding.bonus.config import is_same_task
from ding.bonus.core.agent import Agent
from ding.bonus.ddpg import DDPGAgent
from ding.bonus.dqn import DQNAgent
from ding.bonus.pg import PGAgent
from ding.bonus.ppo import PPOAgent
from ding.bonus.ppo_offpolicy import PPOOffPolicyAgent
from ding.bonus.ppof import PPOF
from ding.bonus.sac import CrossQAgent, DroQAgent, REDQAgent, SACAgent, TQCAgent
from ding.bonus.sql import SQLAgent
from ding.bonus.td3 import TD3Agent
from ding.utils import did_you_mean

supported_algo: dict[str, type[Agent]] = {
    agent.algorithm: agent
    for agent in (
        A2CAgent,
        C51Agent,
        CrossQAgent,
        DDPGAgent,
        DQNAgent,
        DroQAgent,
        PGAgent,
        PPOAgent,
        PPOF,
        PPOOffPolicyAgent,
        REDQAgent,
        SACAgent,
        SQLAgent,
        TD3Agent,
        TQCAgent,
    )
}
supported_algo_list = list(supported_algo)
supported_env = sorted({env_id for agent in supported_algo.values() for env_id in agent.supported_env_list})


def env_supported(algo: str | None = None) -> list[str]:
    """Return the ids of the envs for which an algorithm (``None``: any) has a config.

    Raises:
        ValueError: The algorithm does not exist.
    """
    return list(supported_env) if algo is None else list(_agent(algo).supported_env_list)


def algo_supported(env_id: str | None = None) -> list[str]:
    """Return the names of the algorithms that have a config for an env; ``None``: all.

    Raises:
        ValueError: There is none.
    """
    if env_id is None:
        return list(supported_algo_list)
    found = [name for name, agent in supported_algo.items() if _carries(agent, env_id)]
    if not found:
        raise ValueError(f"no algorithm carries a config for {env_id!r}.{did_you_mean(env_id, supported_env)}")
    return found


def is_supported(env_id: str | None = None, algo: str | None = None) -> bool:
    """Return whether an algorithm exists, an env has a config, or both in combination.

    Raises:
        ValueError: Neither is given.
    """
    if env_id is None and algo is None:
        raise ValueError("is_supported needs env_id, algo, or both")
    agents = [agent for name, agent in supported_algo.items() if algo is None or name.upper() == algo.upper()]
    return any(env_id is None or _carries(agent, env_id) for agent in agents)


def _agent(algo: str) -> type[Agent]:
    for name, agent in supported_algo.items():
        if name.upper() == algo.upper():
            return agent
    raise ValueError(f"there is no agent {algo!r}.{did_you_mean(algo, supported_algo)}")


def _carries(agent: type[Agent], env_id: str) -> bool:
    return any(is_same_task(known, env_id) for known in agent.supported_env_list)
