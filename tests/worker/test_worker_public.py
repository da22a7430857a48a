import subprocess
import sys

import pytest

import ding.worker
import ding.worker.collector
from ding.utils import LEARNER_REGISTRY, SERIAL_COLLECTOR_REGISTRY, SERIAL_EVALUATOR_REGISTRY


@pytest.mark.parametrize("package", [ding.worker, ding.worker.collector])
def test_every_exported_name_is_there(package):
    for name in package.__all__:
        homes = ("ding.worker.", "ding.rollout.", "ding.data.", "ding.torch_utils.")
        assert getattr(package, name).__module__.startswith(homes), name
    assert set(package.__all__) <= set(dir(package))


def test_aliases_are_registered_without_loading_their_modules():
    code = (
        "import sys, ding.worker\n"
        "from ding.utils import SERIAL_COLLECTOR_REGISTRY as collectors, SERIAL_EVALUATOR_REGISTRY as evaluators\n"
        "assert list(collectors) == ['sample', 'episode', 'sample_1v1', 'episode_1v1', 'league']\n"
        "assert list(evaluators) == ['interaction', 'battle_interaction', 'metric']\n"
        "loaded = {m for m in sys.modules if m.startswith('ding.worker.')}\n"
        "assert loaded <= {'ding.worker.collector', 'ding.worker.replay_buffer'}, loaded\n"
        "heavy = {'tensorboardX', 'flask', 'requests', 'rich', 'matplotlib', 'cv2', 'gymnasium'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_aliases_lead_to_their_classes():
    assert SERIAL_COLLECTOR_REGISTRY.get("sample") is ding.worker.SampleSerialCollector
    assert SERIAL_COLLECTOR_REGISTRY.get("episode_1v1") is ding.worker.BattleEpisodeSerialCollector
    assert SERIAL_EVALUATOR_REGISTRY.get("metric") is ding.worker.MetricSerialEvaluator
    assert LEARNER_REGISTRY.get("base") is ding.worker.BaseLearner


@pytest.mark.parametrize("package", [ding.worker, ding.worker.collector])
def test_unknown_names_are_told(package):
    with pytest.raises(AttributeError, match="did you mean 'SampleSerialCollector'"):
        package.SampleSerialColector
