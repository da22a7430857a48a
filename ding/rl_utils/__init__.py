"""Losses, returns and exploration of reinforcement learning, as plain functions on tensors."""

from difflib import get_close_matches
from typing import NoReturn

from ding.rl_utils.adder import (
    get_gae,
    get_gae_with_default_last_value,
    get_nstep_return_data,
    get_train_sample,
)
from ding.rl_utils.beta_function import (
    beta_function_map,
)
from ding.rl_utils.exploration import (
    BaseNoise,
    GaussianNoise,
    OUNoise,
    create_noise_generator,
    get_epsilon_greedy_fn,
)
from ding.rl_utils.gae import (
    gae,
    gae_data,
)
from ding.rl_utils.sampler import (
    ArgmaxSampler,
    HybridDeterminsticSampler,
    HybridStochasticSampler,
    MultinomialSampler,
    MuSampler,
    ReparameterizationSampler,
)
from ding.rl_utils.td import (
    bdq_nstep_td_error,
    discount_cumsum,
    dist_1step_td_data,
    dist_1step_td_error,
    dist_nstep_td_data,
    dist_nstep_td_error,
    dqfd_nstep_td_data,
    dqfd_nstep_td_error,
    dqfd_nstep_td_error_with_rescale,
    evaluate_quantile_at_action,
    fqf_calculate_fraction_loss,
    fqf_nstep_td_data,
    fqf_nstep_td_error,
    generalized_lambda_returns,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    m_q_1step_td_data,
    m_q_1step_td_error,
    multistep_forward_view,
    nstep_return,
    nstep_return_data,
    q_1step_td_data,
    q_1step_td_error,
    q_nstep_sql_td_error,
    q_nstep_td_data,
    q_nstep_td_error,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
    td_lambda_data,
    td_lambda_error,
    v_1step_td_data,
    v_1step_td_error,
    v_nstep_td_data,
    v_nstep_td_error,
)
from ding.rl_utils.value_rescale import (
    inv_symlog,
    symlog,
    value_inv_transform,
    value_transform,
)

__all__ = [
    "ArgmaxSampler",
    "BaseNoise",
    "GaussianNoise",
    "HybridDeterminsticSampler",
    "HybridStochasticSampler",
    "MuSampler",
    "MultinomialSampler",
    "OUNoise",
    "ReparameterizationSampler",
    "bdq_nstep_td_error",
    "beta_function_map",
    "create_noise_generator",
    "discount_cumsum",
    "dist_1step_td_data",
    "dist_1step_td_error",
    "dist_nstep_td_data",
    "dist_nstep_td_error",
    "dqfd_nstep_td_data",
    "dqfd_nstep_td_error",
    "dqfd_nstep_td_error_with_rescale",
    "evaluate_quantile_at_action",
    "fqf_calculate_fraction_loss",
    "fqf_nstep_td_data",
    "fqf_nstep_td_error",
    "gae",
    "gae_data",
    "generalized_lambda_returns",
    "get_epsilon_greedy_fn",
    "get_gae",
    "get_gae_with_default_last_value",
    "get_nstep_return_data",
    "get_train_sample",
    "inv_symlog",
    "iqn_nstep_td_data",
    "iqn_nstep_td_error",
    "m_q_1step_td_data",
    "m_q_1step_td_error",
    "multistep_forward_view",
    "nstep_return",
    "nstep_return_data",
    "q_1step_td_data",
    "q_1step_td_error",
    "q_nstep_sql_td_error",
    "q_nstep_td_data",
    "q_nstep_td_error",
    "q_nstep_td_error_with_rescale",
    "q_v_1step_td_data",
    "q_v_1step_td_error",
    "qrdqn_nstep_td_data",
    "qrdqn_nstep_td_error",
    "symlog",
    "td_lambda_data",
    "td_lambda_error",
    "v_1step_td_data",
    "v_1step_td_error",
    "v_nstep_td_data",
    "v_nstep_td_error",
    "value_inv_transform",
    "value_transform",
]


def __getattr__(name: str) -> NoReturn:
    """Name what is missing, and the nearest public name, instead of a bare error."""
    near = get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {near[0]!r}?" if near and not name.startswith("_") else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
