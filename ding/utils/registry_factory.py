"""The registries of the library, and ``registries``: short name -> registry (what ``ding -q`` lists)."""

from ding.utils.registry import Registry

registries: dict[str, Registry] = {}


def _listed(name: str) -> Registry:
    return registries.setdefault(name, Registry.named(name))


POLICY_REGISTRY = _listed("policy")
ENV_REGISTRY = _listed("env")
ENV_WRAPPER_REGISTRY = _listed("env_wrapper")
LEARNER_REGISTRY = _listed("learner")
COMM_LEARNER_REGISTRY = _listed("comm_learner")
SERIAL_COLLECTOR_REGISTRY = _listed("serial_collector")
PARALLEL_COLLECTOR_REGISTRY = _listed("parallel_collector")
COMM_COLLECTOR_REGISTRY = _listed("comm_collector")
COMMANDER_REGISTRY = _listed("commander")
LEAGUE_REGISTRY = _listed("league")
PLAYER_REGISTRY = _listed("player")
MODEL_REGISTRY = _listed("model")
ENV_MANAGER_REGISTRY = _listed("env_manager")
REWARD_MODEL_REGISTRY = _listed("reward_model")
BUFFER_REGISTRY = _listed("buffer")
DATASET_REGISTRY = _listed("dataset")
SERIAL_EVALUATOR_REGISTRY = _listed("serial_evaluator")
MQ_REGISTRY = _listed("message_queue")
WORLD_MODEL_REGISTRY = _listed("world_model")
STOCHASTIC_OPTIMIZER_REGISTRY = _listed("stochastic_optimizer")
