"""Every middleware is there by its name, with the parameters of the original API, and obeys the roles of a process."""

import inspect

import pytest

import ding.framework.middleware as middleware
import ding.framework.middleware.functional as functional
from ding.framework import Parallel, VoidMiddleware, task

WANDB = (
    "record_path=None, cfg=None, exp_config=None, metric_list=None, env=None, model=None, anonymous=False, "
    "project_name='default-project', run_name=None, wandb_sweep=False"
)
SIGNATURES = {
    # The 22 names of the API page.
    "multistep_trainer": "policy, log_freq=100",
    "offpolicy_data_fetcher": "cfg, buffer_, data_shortage_warning=False",
    "data_pusher": "cfg, buffer_, group_by_env=None",
    "offline_data_fetcher": "cfg, dataset, collate_fn",
    "offline_data_saver": "data_path, data_type='hdf5'",
    "sqil_data_pusher": "cfg, buffer_, expert",
    "buffer_saver": "cfg, buffer_, every_envstep=1000, replace=False",
    "inferencer": "seed, policy, env",
    "rolloutor": "policy, env, transitions, collect_print_freq=100",
    "interaction_evaluator": "cfg, policy, env, render=False, **kwargs",
    "interaction_evaluator_ttorch": (
        "seed, policy, env, n_evaluator_episode=None, stop_value=inf, eval_freq=1000, render=False"
    ),
    "online_logger": "record_train_iter=False, train_show_freq=100",
    "offline_logger": "train_show_freq=100",
    "wandb_online_logger": WANDB,
    "wandb_offline_logger": WANDB,
    "eps_greedy_handler": "cfg",
    "eps_greedy_masker": "",
    "gae_estimator": "cfg, policy, buffer_=None",
    "reward_estimator": "cfg, reward_model",
    "her_data_enhancer": "cfg, buffer_, her_reward_model",
    "priority_calculator": "priority_calculation_fn",
    "epoch_timer": "print_per=1, smooth_window=10",
    # The others.
    "trainer": "cfg, policy, log_freq=100",
    "StepCollector": "cfg, policy, env, random_collect_size=0",
    "EpisodeCollector": "cfg, policy, env, random_collect_size=0",
    "PPOFStepCollector": "seed, policy, env, n_sample, unroll_len=1",
    "TransitionList": "env_num",
    "OffPolicyLearner": "cfg, policy, buffer_, reward_model=None, log_freq=100",
    "HERLearner": "cfg, policy, buffer_, her_reward_model",
    "CkptSaver": "policy, save_dir, train_freq=None, save_finish=True",
    "OfflineMemoryDataFetcher": "cfg, dataset",
    "offline_data_fetcher_from_mem": "cfg, dataset",
    "termination_checker": "max_env_step=None, max_train_iter=None",
    "ddp_termination_checker": "max_env_step=None, max_train_iter=None, rank=0",
    "final_ctx_saver": "name",
    "ppof_adv_estimator": "policy",
    "montecarlo_return_estimator": "policy",
    "nstep_reward_enhancer": "cfg",
    "VectorEvalMonitor": "env_num, n_episode",
    "metric_evaluator": "cfg, policy, dataset, metric",
    "ContextExchanger": "skip_n_iter=1, storage_loader=None",
    "ModelExchanger": "model, model_loader=None",
    "PeriodicalModelExchanger": (
        "model, mode, period=1, delay_toleration=inf, stale_toleration=1, event_name='model_exchanger', "
        "model_loader=None"
    ),
    "Barrier": "attch_from_nums, timeout=60",
    "BarrierRuntime": "node_id, max_world_size=100, router=None",
    # The old forms.
    "context_exchanger": "send_keys=None, recv_keys=None, skip_n_iter=0",
    "model_exchanger": "model, is_learner=False",
}
# They exchange between processes and lie beside the functional package.
NOT_FUNCTIONAL = {"offline_data_fetcher_from_mem", "context_exchanger", "model_exchanger"}
GATED = {
    "learner": ["multistep_trainer", "data_pusher", "gae_estimator", "OffPolicyLearner", "HERLearner", "trainer"],
    "collector": ["StepCollector", "EpisodeCollector", "eps_greedy_handler", "priority_calculator"],
    "evaluator": ["interaction_evaluator", "interaction_evaluator_ttorch", "metric_evaluator"],
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_and_parameters(name) -> None:
    signature = inspect.signature(getattr(middleware, name))
    found = []
    for parameter in signature.parameters.values():
        plain = parameter.replace(annotation=parameter.empty)
        found.append(parameter.name if callable(parameter.default) and name == "offline_data_fetcher" else str(plain))
    found = [text.split("=")[0] if text.startswith("collate_fn") else text for text in found]
    assert ", ".join(found) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_names_of_the_functional_package(name) -> None:
    if name[0].islower() and name not in NOT_FUNCTIONAL:
        assert getattr(functional, name) is getattr(middleware, name)


@pytest.mark.parametrize(("role", "name"), [(role, name) for role, names in GATED.items() for name in names])
def test_in_a_process_of_another_role_they_do_nothing(role, name, monkeypatch) -> None:
    with task.start():
        other = "evaluator" if role != "evaluator" else "collector"
        task.add_role(other)
        monkeypatch.setattr(Parallel(), "is_active", True)
        made = getattr(middleware, name)(*[None] * 3)
        monkeypatch.undo()
        assert isinstance(made, VoidMiddleware)
        task.use(made)
