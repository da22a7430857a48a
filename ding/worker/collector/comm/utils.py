"""Import path of DI-engine: :class:`~ding.worker.testing.NaiveCollector`, a collector for tests."""

from ding.worker.testing import NaiveCollector as NaiveCollector
