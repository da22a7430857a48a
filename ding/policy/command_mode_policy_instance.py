"""The ``<type>_command`` twins: each algorithm with a command mode."""

from typing import Any

from ding.policy.a2c import A2CPolicy
from ding.policy.acer import ACERPolicy
from ding.policy.atoc import ATOCPolicy
from ding.policy.base_policy import CommandModePolicy
from ding.policy.bc import BehaviourCloningPolicy
from ding.policy.bcq import BCQPolicy
from ding.policy.bdq import BDQPolicy
from ding.policy.c51 import C51Policy
from ding.policy.collaq import CollaQPolicy
from ding.policy.coma import COMAPolicy
from ding.policy.cql import CQLPolicy, DiscreteCQLPolicy
from ding.policy.d4pg import D4PGPolicy
from ding.policy.ddpg import DDPGPolicy
from ding.policy.dqfd import DQFDPolicy
from ding.policy.dqn import DQNPolicy, DQNSTDIMPolicy
from ding.policy.dt import DTPolicy
from ding.policy.edac import EDACPolicy
from ding.policy.fqf import FQFPolicy
from ding.policy.happo import HAPPOPolicy
from ding.policy.ibc import IBCPolicy
from ding.policy.impala import IMPALAPolicy
from ding.policy.iql import IQLPolicy
from ding.policy.iqn import IQNPolicy
from ding.policy.madqn import MADQNPolicy
from ding.policy.mdqn import MDQNPolicy
from ding.policy.ngu import NGUPolicy
from ding.policy.offppo_collect_traj import OffPPOCollectTrajPolicy
from ding.policy.pdqn import PDQNPolicy
from ding.policy.pg import PGPolicy
from ding.policy.ppg import PPGOffPolicy, PPGPolicy
from ding.policy.ppo import PPOOffPolicy, PPOPGPolicy, PPOPolicy, PPOSTDIMPolicy
from ding.policy.qmix import QMIXPolicy
from ding.policy.qrdqn import QRDQNPolicy
from ding.policy.qtran import QTRANPolicy
from ding.policy.r2d2 import R2D2Policy
from ding.policy.r2d2_collect_traj import R2D2CollectTrajPolicy
from ding.policy.r2d2_gtrxl import R2D2GTrXLPolicy
from ding.policy.r2d3 import R2D3Policy
from ding.policy.rainbow import RainbowDQNPolicy
from ding.policy.sac import DiscreteSACPolicy, SACPolicy, SQILSACPolicy
from ding.policy.sql import SQLPolicy
from ding.policy.sqn import SQNPolicy
from ding.policy.td3 import TD3Policy
from ding.policy.td3_bc import TD3BCPolicy
from ding.policy.wqmix import WQMIXPolicy
from ding.rl_utils import get_epsilon_greedy_fn
from ding.utils import POLICY_REGISTRY


class DummyCommandModePolicy(CommandModePolicy):
    """A command mode without settings."""

    def _init_command(self) -> None:
        return

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_learn(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _get_setting_eval(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return {}


class EpsCommandModePolicy(DummyCommandModePolicy):
    """A command mode that anneals the epsilon of exploration by the number of env steps (``cfg.other.eps``)."""

    # Not every policy has a default for it.
    optional_keys = {"other": "eps", "other.eps": "type start end decay collect"}

    def _init_command(self) -> None:
        eps = self._cfg.other.eps
        self.epsilon_greedy = get_epsilon_greedy_fn(eps.start, eps.end, eps.decay, eps.type)

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """``{'eps': ...}`` at ``command_info['envstep']``."""
        return {"eps": self.epsilon_greedy(command_info["envstep"])}


@POLICY_REGISTRY.register("dqn_command")
class DQNCommandModePolicy(DQNPolicy, EpsCommandModePolicy):
    """DQN with an annealed epsilon."""


@POLICY_REGISTRY.register("pg_command")
class PGCommandModePolicy(PGPolicy, DummyCommandModePolicy):
    """Policy gradient; the modes need no settings."""


@POLICY_REGISTRY.register("a2c_command")
class A2CCommandModePolicy(A2CPolicy, DummyCommandModePolicy):
    """A2C; the modes need no settings."""


@POLICY_REGISTRY.register("ppo_command")
class PPOCommandModePolicy(PPOPolicy, DummyCommandModePolicy):
    """PPO; the modes need no settings."""


@POLICY_REGISTRY.register("ppo_pg_command")
class PPOPGCommandModePolicy(PPOPGPolicy, DummyCommandModePolicy):
    """PPO without a critic; the modes need no settings."""


@POLICY_REGISTRY.register("ppo_offpolicy_command")
class PPOOffCommandModePolicy(PPOOffPolicy, DummyCommandModePolicy):
    """PPO with a replay buffer; the modes need no settings."""


@POLICY_REGISTRY.register("dqn_stdim_command")
class DQNSTDIMCommandModePolicy(DQNSTDIMPolicy, EpsCommandModePolicy):
    """DQN with a contrast for its encoder and an annealed epsilon."""


@POLICY_REGISTRY.register("ppo_stdim_command")
class PPOSTDIMCommandModePolicy(PPOSTDIMPolicy, DummyCommandModePolicy):
    """PPO with a contrast for its encoder; the modes need no settings."""


@POLICY_REGISTRY.register("ppg_command")
class PPGCommandModePolicy(PPGPolicy, DummyCommandModePolicy):
    """PPG; the modes need no settings."""


@POLICY_REGISTRY.register("ppg_offpolicy_command")
class PPGOffCommandModePolicy(PPGOffPolicy, DummyCommandModePolicy):
    """PPG with replay buffers; the modes need no settings."""


@POLICY_REGISTRY.register("c51_command")
class C51CommandModePolicy(C51Policy, EpsCommandModePolicy):
    """C51 with an annealed epsilon."""


@POLICY_REGISTRY.register("qrdqn_command")
class QRDQNCommandModePolicy(QRDQNPolicy, EpsCommandModePolicy):
    """QR-DQN with an annealed epsilon."""


@POLICY_REGISTRY.register("discrete_cql_command")
class DiscreteCQLCommandModePolicy(DiscreteCQLPolicy, EpsCommandModePolicy):
    """Discrete CQL with an annealed epsilon."""


@POLICY_REGISTRY.register("cql_command")
class CQLCommandModePolicy(CQLPolicy, DummyCommandModePolicy):
    """CQL; the modes need no settings."""


@POLICY_REGISTRY.register("iql_command")
class IQLCommandModePolicy(IQLPolicy, DummyCommandModePolicy):
    """IQL; the modes need no settings."""


@POLICY_REGISTRY.register("td3_bc_command")
class TD3BCCommandModePolicy(TD3BCPolicy, DummyCommandModePolicy):
    """TD3+BC; the modes need no settings."""


@POLICY_REGISTRY.register("bcq_command")
class BCQCommandModelPolicy(BCQPolicy, DummyCommandModePolicy):
    """BCQ; the modes need no settings."""


@POLICY_REGISTRY.register("edac_command")
class EDACCommandModelPolicy(EDACPolicy, DummyCommandModePolicy):
    """EDAC; the modes need no settings."""


@POLICY_REGISTRY.register("dt_command")
class DTCommandModePolicy(DTPolicy, DummyCommandModePolicy):
    """Decision transformer; the modes need no settings."""


@POLICY_REGISTRY.register("iqn_command")
class IQNCommandModePolicy(IQNPolicy, EpsCommandModePolicy):
    """IQN with an annealed epsilon."""


@POLICY_REGISTRY.register("fqf_command")
class FQFCommandModePolicy(FQFPolicy, EpsCommandModePolicy):
    """FQF with an annealed epsilon."""


@POLICY_REGISTRY.register("rainbow_command")
class RainbowDQNCommandModePolicy(RainbowDQNPolicy, EpsCommandModePolicy):
    """Rainbow with an annealed epsilon."""


@POLICY_REGISTRY.register("sql_command")
class SQLCommandModePolicy(SQLPolicy, EpsCommandModePolicy):
    """Soft Q-learning with an annealed epsilon."""


@POLICY_REGISTRY.register("mdqn_command")
class MDQNCommandModePolicy(MDQNPolicy, EpsCommandModePolicy):
    """Munchausen DQN with an annealed epsilon."""


@POLICY_REGISTRY.register("r2d2_command")
class R2D2CommandModePolicy(R2D2Policy, EpsCommandModePolicy):
    """R2D2 with an annealed epsilon."""


@POLICY_REGISTRY.register("r2d2_gtrxl_command")
class R2D2GTrXLCommandModePolicy(R2D2GTrXLPolicy, EpsCommandModePolicy):
    """R2D2 over a gated transformer-XL with an annealed epsilon."""


@POLICY_REGISTRY.register("r2d2_collect_traj_command")
class R2D2CollectTrajCommandModePolicy(R2D2CollectTrajPolicy, DummyCommandModePolicy):
    """R2D2 that collects an expert's trajectories; the modes need no settings."""


@POLICY_REGISTRY.register("offppo_collect_traj_command")
class PPOOffCollectTrajCommandModePolicy(OffPPOCollectTrajPolicy, DummyCommandModePolicy):
    """PPO that collects an expert's trajectories; the modes need no settings."""


@POLICY_REGISTRY.register("bdq_command")
class BDQCommandModePolicy(BDQPolicy, EpsCommandModePolicy):
    """BDQ with an annealed epsilon."""


@POLICY_REGISTRY.register("impala_command")
class IMPALACommandModePolicy(IMPALAPolicy, DummyCommandModePolicy):
    """IMPALA; the modes need no settings."""


@POLICY_REGISTRY.register("acer_command")
class ACERCommandModePolisy(ACERPolicy, DummyCommandModePolicy):
    """ACER; the modes need no settings. The class name is spelt as in the original API."""


@POLICY_REGISTRY.register("sqn_command")
class SQNCommandModePolicy(SQNPolicy, EpsCommandModePolicy):
    """Soft Q-learning with two Q functions and an annealed epsilon."""


@POLICY_REGISTRY.register("dqfd_command")
class DQFDCommandModePolicy(DQFDPolicy, EpsCommandModePolicy):
    """DQfD with an annealed epsilon."""


@POLICY_REGISTRY.register("r2d3_command")
class R2D3CommandModePolicy(R2D3Policy, EpsCommandModePolicy):
    """R2D3 with an annealed epsilon."""


@POLICY_REGISTRY.register("ngu_command")
class NGUCommandModePolicy(NGUPolicy, EpsCommandModePolicy):
    """NGU; its environments have epsilons of their own, and that of the command mode is ignored."""


@POLICY_REGISTRY.register("ddpg_command")
class DDPGCommandModePolicy(DDPGPolicy, EpsCommandModePolicy):
    """DDPG; a hybrid action has an annealed epsilon."""

    def _init_command(self) -> None:
        if self._hybrid():
            super()._init_command()

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        return super()._get_setting_collect(command_info) if self._hybrid() else {}


@POLICY_REGISTRY.register("td3_command")
class TD3CommandModePolicy(TD3Policy, DDPGCommandModePolicy):
    """TD3; a hybrid action has an annealed epsilon."""


@POLICY_REGISTRY.register("d4pg_command")
class D4PGCommandModePolicy(D4PGPolicy, DummyCommandModePolicy):
    """D4PG; the modes need no settings."""


@POLICY_REGISTRY.register("sac_command")
class SACCommandModePolicy(SACPolicy, DummyCommandModePolicy):
    """SAC; the modes need no settings."""


@POLICY_REGISTRY.register("sqil_sac_command")
class SQILSACCommandModePolicy(SQILSACPolicy, DummyCommandModePolicy):
    """SQIL with SAC; the modes need no settings."""


@POLICY_REGISTRY.register("discrete_sac_command")
class DiscreteSACCommandModePolicy(DiscreteSACPolicy, EpsCommandModePolicy):
    """Discrete SAC with an annealed epsilon."""


@POLICY_REGISTRY.register("pdqn_command")
class PDQNCommandModePolicy(PDQNPolicy, EpsCommandModePolicy):
    """P-DQN with an annealed epsilon."""


@POLICY_REGISTRY.register("collaq_command")
class CollaQCommandModePolicy(CollaQPolicy, EpsCommandModePolicy):
    """CollaQ with an annealed epsilon."""


@POLICY_REGISTRY.register("coma_command")
class COMACommandModePolicy(COMAPolicy, EpsCommandModePolicy):
    """COMA with an annealed epsilon."""


@POLICY_REGISTRY.register("madqn_command")
class MADQNCommandModePolicy(MADQNPolicy, EpsCommandModePolicy):
    """Multi-agent DQN with an annealed epsilon."""


@POLICY_REGISTRY.register("qmix_command")
class QMIXCommandModePolicy(QMIXPolicy, EpsCommandModePolicy):
    """QMIX with an annealed epsilon."""


@POLICY_REGISTRY.register("qtran_command")
class QTRANCommandModePolicy(QTRANPolicy, EpsCommandModePolicy):
    """QTRAN with an annealed epsilon."""


@POLICY_REGISTRY.register("wqmix_command")
class WQMIXCommandModePolicy(WQMIXPolicy, EpsCommandModePolicy):
    """Weighted QMIX with an annealed epsilon."""


@POLICY_REGISTRY.register("happo_command")
class HAPPOCommandModePolicy(HAPPOPolicy, DummyCommandModePolicy):
    """HAPPO; the modes need no settings."""


@POLICY_REGISTRY.register("bc_command")
class BCCommandModePolicy(BehaviourCloningPolicy, DummyCommandModePolicy):
    """Behaviour cloning; discrete actions with an annealed epsilon (``other.eps``, by env steps), continuous ones with
    noise of an annealed deviation (``collect.noise_sigma``, by train iterations), where these are given.
    """

    def _init_command(self) -> None:
        cfg = self._cfg
        self._name, self._count = ("sigma", "learner_step") if cfg.continuous else ("eps", "envstep")
        given: Any = cfg.collect.noise_sigma if cfg.continuous else cfg.other.get("eps", 0.0)
        if isinstance(given, dict):
            self._value = get_epsilon_greedy_fn(given["start"], given["end"], given["decay"], given["type"])
        else:
            self._value = lambda step: float(given)

    def _get_setting_collect(self, command_info: dict[str, Any]) -> dict[str, Any]:
        """``{'eps': ...}`` or ``{'sigma': ...}``."""
        return {self._name: self._value(command_info[self._count])}


@POLICY_REGISTRY.register("ibc_command")
class IBCCommandModePolicy(IBCPolicy, DummyCommandModePolicy):
    """Implicit behaviour cloning; the modes need no settings."""


@POLICY_REGISTRY.register("atoc_command")
class ATOCCommandModePolicy(ATOCPolicy, DummyCommandModePolicy):
    """ATOC; the modes need no settings."""
