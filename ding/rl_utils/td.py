"""TD errors by family. Returns ``(loss, per-sample)`` unless told otherwise; every target is detached.

Notation: B batch, N actions, A agents, n steps, T time. ``weight=None`` counts as ones.
"""

from ding.rl_utils._td_common import nstep_return, nstep_return_data
from ding.rl_utils._td_demo import dqfd_nstep_td_data, dqfd_nstep_td_error, dqfd_nstep_td_error_with_rescale
from ding.rl_utils._td_dist import dist_1step_td_data, dist_1step_td_error, dist_nstep_td_data, dist_nstep_td_error
from ding.rl_utils._td_q import (
    bdq_nstep_td_error,
    m_q_1step_td_data,
    m_q_1step_td_error,
    q_1step_td_data,
    q_1step_td_error,
    q_nstep_sql_td_error,
    q_nstep_td_data,
    q_nstep_td_error,
    q_nstep_td_error_with_rescale,
    q_v_1step_td_data,
    q_v_1step_td_error,
)
from ding.rl_utils._td_quantile import (
    evaluate_quantile_at_action,
    fqf_calculate_fraction_loss,
    fqf_nstep_td_data,
    fqf_nstep_td_error,
    iqn_nstep_td_data,
    iqn_nstep_td_error,
    qrdqn_nstep_td_data,
    qrdqn_nstep_td_error,
)
from ding.rl_utils._td_value import (
    discount_cumsum,
    generalized_lambda_returns,
    multistep_forward_view,
    td_lambda_data,
    td_lambda_error,
    v_1step_td_data,
    v_1step_td_error,
    v_nstep_td_data,
    v_nstep_td_error,
)

__all__ = [
    "bdq_nstep_td_error",
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
    "generalized_lambda_returns",
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
    "td_lambda_data",
    "td_lambda_error",
    "v_1step_td_data",
    "v_1step_td_error",
    "v_nstep_td_data",
    "v_nstep_td_error",
]
