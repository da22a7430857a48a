from ding.model.wrapper.model_wrappers import IModelWrapper as IModelWrapper
from ding.model.wrapper.model_wrappers import model_wrap as model_wrap
from ding.model.wrapper.model_wrappers import register_wrapper as register_wrapper
from ding.model.wrapper.model_wrappers import wrapper_name_map as wrapper_name_map
