"""The registries of the library, and ``registries``: short name -> registry (what ``ding -q`` lists)."""

from __future__ import annotations

from ding.utils.registry import Registry

POLICY_REGISTRY = Registry.named("policy")
ENV_REGISTRY = Registry.named("env")
ENV_WRAPPER_REGISTRY = Registry.named("env_wrapper")
MODEL_REGISTRY = Registry.named("model")
REWARD_MODEL_REGISTRY = Registry.named("reward_model")
LEARNER_REGISTRY = Registry.named("learner")
SERIAL_COLLECTOR_REGISTRY = Registry.named("serial_collector")
PARALLEL_COLLECTOR_REGISTRY = Registry.named("parallel_collector")
ENV_MANAGER_REGISTRY = Registry.named("env_manager")
COMM_LEARNER_REGISTRY = Registry.named("comm_learner")
COMM_COLLECTOR_REGISTRY = Registry.named("comm_collector")
COMMANDER_REGISTRY = Registry.named("commander")
LEAGUE_REGISTRY = Registry.named("league")
PLAYER_REGISTRY = Registry.named("player")
BUFFER_REGISTRY = Registry.named("buffer")
DATASET_REGISTRY = Registry.named("dataset")
SERIAL_EVALUATOR_REGISTRY = Registry.named("serial_evaluator")
MQ_REGISTRY = Registry.named("message_queue")
WORLD_MODEL_REGISTRY = Registry.named("world_model")
STOCHASTIC_OPTIMIZER_REGISTRY = Registry.named("stochastic_optimizer")

registries: dict[str, Registry] = {
    registry.name: registry
    for registry in (
        POLICY_REGISTRY,
        ENV_REGISTRY,
        ENV_WRAPPER_REGISTRY,
        LEARNER_REGISTRY,
        COMM_LEARNER_REGISTRY,
        SERIAL_COLLECTOR_REGISTRY,
        PARALLEL_COLLECTOR_REGISTRY,
        COMM_COLLECTOR_REGISTRY,
        COMMANDER_REGISTRY,
        LEAGUE_REGISTRY,
        PLAYER_REGISTRY,
        MODEL_REGISTRY,
        ENV_MANAGER_REGISTRY,
        REWARD_MODEL_REGISTRY,
        BUFFER_REGISTRY,
        DATASET_REGISTRY,
        SERIAL_EVALUATOR_REGISTRY,
        MQ_REGISTRY,
        WORLD_MODEL_REGISTRY,
        STOCHASTIC_OPTIMIZER_REGISTRY,
    )
}
