from ding.model.wrapper._base import BaseModelWrapper as BaseModelWrapper
from ding.model.wrapper._base import IModelWrapper as IModelWrapper
from ding.model.wrapper._base import TeacherNetwork as TeacherNetwork
from ding.model.wrapper._continuous import ActionNoiseWrapper as ActionNoiseWrapper
from ding.model.wrapper._continuous import DeterministicSampleWrapper as DeterministicSampleWrapper
from ding.model.wrapper._continuous import ReparamSampleWrapper as ReparamSampleWrapper
from ding.model.wrapper._discrete import ArgmaxSampleWrapper as ArgmaxSampleWrapper
from ding.model.wrapper._discrete import CombinationArgmaxSampleWrapper as CombinationArgmaxSampleWrapper
from ding.model.wrapper._discrete import CombinationMultinomialSampleWrapper as CombinationMultinomialSampleWrapper
from ding.model.wrapper._discrete import EpsGreedyMultinomialSampleWrapper as EpsGreedyMultinomialSampleWrapper
from ding.model.wrapper._discrete import EpsGreedySampleWrapper as EpsGreedySampleWrapper
from ding.model.wrapper._discrete import MultinomialSampleWrapper as MultinomialSampleWrapper
from ding.model.wrapper._hidden_state import HiddenStateWrapper as HiddenStateWrapper
from ding.model.wrapper._hybrid import HybridArgmaxSampleWrapper as HybridArgmaxSampleWrapper
from ding.model.wrapper._hybrid import HybridDeterministicArgmaxSampleWrapper as HybridDeterministicArgmaxSampleWrapper
from ding.model.wrapper._hybrid import (
    HybridEpsGreedyMultinomialSampleWrapper as HybridEpsGreedyMultinomialSampleWrapper,
)
from ding.model.wrapper._hybrid import HybridEpsGreedySampleWrapper as HybridEpsGreedySampleWrapper
from ding.model.wrapper._hybrid import HybridReparamMultinomialSampleWrapper as HybridReparamMultinomialSampleWrapper
from ding.model.wrapper._names import model_wrap as model_wrap
from ding.model.wrapper._names import register_wrapper as register_wrapper
from ding.model.wrapper._names import wrapper_name_map as wrapper_name_map
from ding.model.wrapper._target import TargetNetworkWrapper as TargetNetworkWrapper
