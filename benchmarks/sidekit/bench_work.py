"""The common work: the numbers that every side of a measurement uses."""

from __future__ import annotations

from typing import Any

OBS_DIM = 4
ACTIONS = 2
EPSILON = 0.1
DISCOUNT = 0.97
LEARNING_RATE = 1e-3
TARGET_FREQ = 100
BUFFER_SIZE = 20_000
# Vector steps between two stores or updates: 8 envs give 80 env steps.
ROLLOUT = 10
COLLECT_HIDDEN = (128, 128)
DQN_HIDDEN = (128, 128, 64)
BATCH_SIZE = 64
# Continuous control: one update per env step on Pendulum.
CONTROL_ALGORITHMS = ("sac", "td3", "ddpg")
# Those with an ensemble of critics, whose updates are counted. The actor has its turn in each update of TQC, in every
# third one of CrossQ and in every 20th one of DroQ.
ENSEMBLE_ALGORITHMS = ("tqc", "crossq", "droq")
DROQ_DROPOUT = 0.01
DROQ_ACTOR_FREQ = 20
CONTROL_HIDDEN = (256, 256)
CONTROL_BATCH_SIZE = 256
CONTROL_BUFFER_SIZE = 100_000
CONTROL_ENVS = 8


def make_mlp(hidden: tuple[int, ...] = COLLECT_HIDDEN) -> Any:
    """ReLU network from an observation to one value per action."""
    from torch import nn

    layers: list[Any] = []
    width = OBS_DIM
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, ACTIONS))


def collect_work(envs: int) -> dict[str, Any]:
    """What a side of the collector benchmark declares."""
    return {"envs": envs, "hidden": list(COLLECT_HIDDEN), "epsilon": EPSILON, "stores": True}


def dqn_work(updates: int) -> dict[str, Any]:
    """What a side of the DQN benchmark declares."""
    return {
        "envs": 8,
        "hidden": list(DQN_HIDDEN),
        "batch_size": BATCH_SIZE,
        "updates_per_80_env_steps": updates,
        "optimizer": "adam",
    }


def control_work(algorithm: str) -> dict[str, Any]:
    """What a side of the benchmark of continuous control declares."""
    return {
        "algorithm": algorithm,
        "envs": CONTROL_ENVS,
        "hidden": list(CONTROL_HIDDEN),
        "batch_size": CONTROL_BATCH_SIZE,
        "updates_per_env_step": 1,
        "optimizer": "adam",
    }


def observed_batch_sizes(model: Any) -> tuple[set[int], Any]:
    """Record the leading sizes that ``model`` is called with in training; ``(sizes, remove)``."""
    sizes: set[int] = set()

    def record(_: Any, inputs: tuple[Any, ...]) -> None:
        if inputs:
            sizes.add(len(inputs[0]))

    return sizes, model.register_forward_pre_hook(record).remove


# PPO: vector steps of a collection, epochs over it, minibatch, and units of the two layers of actor and critic each.
PPO_STEPS, PPO_EPOCHS, PPO_MINIBATCH, ACTOR_CRITIC_HIDDEN = 128, 4, 256, (64, 64)
# A2C: vector steps of a collection, from all of which one update is made.
A2C_STEPS = 5


def on_policy_work(algorithm: str) -> dict[str, Any]:
    """What a side of the on-policy benchmarks declares; ``algorithm`` is that of the measurement."""
    work = {"envs": 8, "hidden": list(ACTOR_CRITIC_HIDDEN), "optimizer": "adam"}
    if algorithm in ("ppo", "pqn"):
        return {**work, "steps": PPO_STEPS, "epochs": PPO_EPOCHS, "minibatch": PPO_MINIBATCH}
    return {**work, "steps": A2C_STEPS, "updates": 1}
