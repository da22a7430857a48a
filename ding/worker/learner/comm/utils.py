"""Import path of DI-engine: :class:`~ding.worker.testing.NaiveLearner`, a learner for tests."""

from ding.worker.testing import NaiveLearner as NaiveLearner
