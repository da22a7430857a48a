"""Model wrappers by the names that policies give them."""

from __future__ import annotations

from typing import Any

from torch import nn

from ding.model.wrapper._base import (
    BaseModelWrapper,
    HiddenStateWrapper,
    IModelWrapper,
    TargetNetworkWrapper,
    TeacherNetworkWrapper,
)
from ding.model.wrapper._hybrid import (
    HybridArgmaxSampleWrapper,
    HybridDeterministicArgmaxSampleWrapper,
    HybridEpsGreedyMultinomialSampleWrapper,
    HybridEpsGreedySampleWrapper,
    HybridReparamMultinomialSampleWrapper,
)
from ding.model.wrapper._sample import (
    ActionNoiseWrapper,
    ArgmaxSampleWrapper,
    CombinationArgmaxSampleWrapper,
    CombinationMultinomialSampleWrapper,
    DeterministicSampleWrapper,
    EpsGreedyMultinomialSampleWrapper,
    EpsGreedySampleWrapper,
    MultinomialSampleWrapper,
    ReparamSampleWrapper,
)
from ding.model.wrapper._squashed import SquashedDeterministicSampleWrapper, SquashedSampleWrapper
from ding.model.wrapper._transformer import (
    TransformerInputWrapper,
    TransformerMemoryWrapper,
    TransformerSegmentWrapper,
)
from ding.utils import did_you_mean

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
    "SquashedDeterministicSampleWrapper",
    "SquashedSampleWrapper",
    "TargetNetworkWrapper",
    "TeacherNetworkWrapper",
    "TransformerInputWrapper",
    "TransformerMemoryWrapper",
    "TransformerSegmentWrapper",
    "model_wrap",
    "register_wrapper",
    "wrapper_name_map",
]

wrapper_name_map: dict[str, type[IModelWrapper]] = {
    "base": BaseModelWrapper,
    "teacher": TeacherNetworkWrapper,
    "argmax_sample": ArgmaxSampleWrapper,
    "hybrid_argmax_sample": HybridArgmaxSampleWrapper,
    "eps_greedy_sample": EpsGreedySampleWrapper,
    "eps_greedy_multinomial_sample": EpsGreedyMultinomialSampleWrapper,
    "hybrid_eps_greedy_sample": HybridEpsGreedySampleWrapper,
    "hybrid_eps_greedy_multinomial_sample": HybridEpsGreedyMultinomialSampleWrapper,
    "multinomial_sample": MultinomialSampleWrapper,
    "deterministic_sample": DeterministicSampleWrapper,
    "reparam_sample": ReparamSampleWrapper,
    "squashed_sample": SquashedSampleWrapper,
    "squashed_deterministic_sample": SquashedDeterministicSampleWrapper,
    "hybrid_reparam_multinomial_sample": HybridReparamMultinomialSampleWrapper,
    "hybrid_deterministic_argmax_sample": HybridDeterministicArgmaxSampleWrapper,
    "combination_argmax_sample": CombinationArgmaxSampleWrapper,
    "combination_multinomial_sample": CombinationMultinomialSampleWrapper,
    "action_noise": ActionNoiseWrapper,
    "target": TargetNetworkWrapper,
    "hidden_state": HiddenStateWrapper,
    "transformer_input": TransformerInputWrapper,
    "transformer_memory": TransformerMemoryWrapper,
    "transformer_segment": TransformerSegmentWrapper,
}


def register_wrapper(name: str, wrapper_type: type[IModelWrapper]) -> None:
    """Make ``wrapper_type`` available to ``model_wrap`` as ``name``.

    Raises:
        TypeError: not a text and a subclass of ``IModelWrapper``.
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a wrapper must be a string, got {name!r}")
    if not (isinstance(wrapper_type, type) and issubclass(wrapper_type, IModelWrapper)):
        raise TypeError(f"a wrapper must be a subclass of IModelWrapper, got {wrapper_type!r}")
    wrapper_name_map[name] = wrapper_type


def model_wrap(model: nn.Module | IModelWrapper, wrapper_name: str | None = None, **kwargs: Any) -> IModelWrapper:
    """Wrap ``model`` by the wrapper ``wrapper_name``; a bare model gets the wrapper ``base`` first.

    Arguments:
        model: a module or a wrapped model; the module is shared and not copied.
        kwargs: of the wrapper.

    Raises:
        TypeError: no wrapper has that name.
    """
    if wrapper_name not in wrapper_name_map:
        raise TypeError(f"unknown model wrapper {wrapper_name!r}.{did_you_mean(wrapper_name, wrapper_name_map)}")
    if not isinstance(model, IModelWrapper):
        model = BaseModelWrapper(model)
        if wrapper_name == "base":
            return model
    return wrapper_name_map[wrapper_name](model, **kwargs)
