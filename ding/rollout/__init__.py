"""Rollouts: stepping environments with policies and recording the results. Collectors and evaluators build on them.

====================  ==================================================================================================
module content ====================
================================================================================================== ``players``
:class:`Game`: how an environment is split among several players, and what each sees ``rollout``
:class:`VectorStepper`: one vector step, each timestep joined to the observation that caused it;
                      :class:`Rollout`: the stepper and the record moved together, for collectors
``record``            :class:`Segments`: steps grow into trajectory segments, segments become training samples;
                      :class:`EpisodeRecord`: counts, durations and returns of episodes, over all ranks
``trajectory_store``  :class:`TrajectoryStore`: the steps themselves, joined when segments are taken ``step_blocks``
:class:`StepBlocks`: contiguous memory to which the frames of steps are written ``evaluation``
:class:`EvaluationRunner`: plays a fixed number of episodes per environment, for evaluators ``evaluation_result``
:class:`EvaluationResult`: mean, spread and number of the returns of an evaluation ====================
==================================================================================================

A step of a rollout with one policy::

    rollout = Rollout(env, [policy.collect_mode], [segment_length], EpisodeRecord(env.env_num))
    ended = rollout.step([{"eps": 0.1}], [{"collect_iter": 0}])
    samples = rollout.take_samples().samples
"""

from ding.utils.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
