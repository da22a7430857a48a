"""Model wrappers by name. The classes live in small private modules; this is their public address."""

from ding.model.wrapper._base import (
    BaseModelWrapper,
    IModelWrapper,
    TeacherNetwork,
    model_wrap,
    register_wrapper,
    wrapper_name_map,
)
from ding.model.wrapper._continuous import ActionNoiseWrapper, DeterministicSampleWrapper, ReparamSampleWrapper
from ding.model.wrapper._discrete import (
    ArgmaxSampleWrapper,
    CombinationArgmaxSampleWrapper,
    CombinationMultinomialSampleWrapper,
    EpsGreedyMultinomialSampleWrapper,
    EpsGreedySampleWrapper,
    MultinomialSampleWrapper,
)
from ding.model.wrapper._hidden_state import HiddenStateWrapper
from ding.model.wrapper._hybrid import (
    HybridArgmaxSampleWrapper,
    HybridDeterministicArgmaxSampleWrapper,
    HybridEpsGreedyMultinomialSampleWrapper,
    HybridEpsGreedySampleWrapper,
    HybridReparamMultinomialSampleWrapper,
)
from ding.model.wrapper._target import TargetNetworkWrapper

wrapper_name_map.update(
    {
        "argmax_sample": ArgmaxSampleWrapper,
        "hybrid_argmax_sample": HybridArgmaxSampleWrapper,
        "eps_greedy_sample": EpsGreedySampleWrapper,
        "eps_greedy_multinomial_sample": EpsGreedyMultinomialSampleWrapper,
        "hybrid_eps_greedy_sample": HybridEpsGreedySampleWrapper,
        "hybrid_eps_greedy_multinomial_sample": HybridEpsGreedyMultinomialSampleWrapper,
        "multinomial_sample": MultinomialSampleWrapper,
        "deterministic_sample": DeterministicSampleWrapper,
        "reparam_sample": ReparamSampleWrapper,
        "hybrid_reparam_multinomial_sample": HybridReparamMultinomialSampleWrapper,
        "hybrid_deterministic_argmax_sample": HybridDeterministicArgmaxSampleWrapper,
        "combination_argmax_sample": CombinationArgmaxSampleWrapper,
        "combination_multinomial_sample": CombinationMultinomialSampleWrapper,
        "action_noise": ActionNoiseWrapper,
        "target": TargetNetworkWrapper,
        "hidden_state": HiddenStateWrapper,
    }
)

__all__ = [
    "ActionNoiseWrapper",
    "ArgmaxSampleWrapper",
    "BaseModelWrapper",
    "CombinationArgmaxSampleWrapper",
    "CombinationMultinomialSampleWrapper",
    "DeterministicSampleWrapper",
    "EpsGreedyMultinomialSampleWrapper",
    "EpsGreedySampleWrapper",
    "HiddenStateWrapper",
    "HybridArgmaxSampleWrapper",
    "HybridDeterministicArgmaxSampleWrapper",
    "HybridEpsGreedyMultinomialSampleWrapper",
    "HybridEpsGreedySampleWrapper",
    "HybridReparamMultinomialSampleWrapper",
    "IModelWrapper",
    "MultinomialSampleWrapper",
    "ReparamSampleWrapper",
    "TargetNetworkWrapper",
    "TeacherNetwork",
    "model_wrap",
    "register_wrapper",
    "wrapper_name_map",
]
