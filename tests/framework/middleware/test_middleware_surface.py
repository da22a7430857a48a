"""Middleware obeys the roles of a process. Its names and parameters: tests/project/test_project_api.py."""

import pytest
from easydict import EasyDict

import ding.framework.middleware as middleware
from ding.framework import Parallel, VoidMiddleware, task

GATED = {
    "learner": ["multistep_trainer", "data_pusher", "gae_estimator", "OffPolicyLearner", "HERLearner", "trainer"],
    "collector": ["StepCollector", "EpisodeCollector", "eps_greedy_handler", "priority_calculator"],
    "evaluator": ["interaction_evaluator", "interaction_evaluator_ttorch", "metric_evaluator"],
}


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


def test_a_learner_makes_no_nstep_transitions_of_those_that_a_collector_made(monkeypatch) -> None:
    with task.start():
        task.add_role("learner")
        monkeypatch.setattr(Parallel(), "is_active", True)
        made = middleware.nstep_reward_enhancer(EasyDict(policy={"nstep": 3, "discount_factor": 0.9}))
        monkeypatch.undo()
        assert isinstance(made, VoidMiddleware)
