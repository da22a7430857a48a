"""The ``<type>_command`` twins: each algorithm with a command mode.

The classes are made from :data:`TWINS`. Type checkers and editors read the stub, ``command_mode_policy_instance.pyi``.
"""

from types import new_class

from ding.policy._command_modes import (
    CloningCommandModePolicy,
    DummyCommandModePolicy,
    EpsCommandModePolicy,
    HybridCommandModePolicy,
)
from ding.policy.a2c import A2CPolicy
from ding.policy.acer import ACERPolicy
from ding.policy.atoc import ATOCPolicy
from ding.policy.base_policy import CommandModePolicy, Policy
from ding.policy.bc import BehaviourCloningPolicy
from ding.policy.bcq import BCQPolicy
from ding.policy.bdq import BDQPolicy
from ding.policy.c51 import C51Policy
from ding.policy.cal_ql import CalQLPolicy
from ding.policy.collaq import CollaQPolicy
from ding.policy.coma import COMAPolicy
from ding.policy.cql import CQLPolicy, DiscreteCQLPolicy
from ding.policy.crossq import CrossQPolicy
from ding.policy.d4pg import D4PGPolicy
from ding.policy.ddpg import DDPGPolicy
from ding.policy.dqfd import DQFDPolicy
from ding.policy.dqn import DQNPolicy, DQNSTDIMPolicy
from ding.policy.droq import DroQPolicy
from ding.policy.dt import DTPolicy
from ding.policy.edac import EDACPolicy
from ding.policy.fqf import FQFPolicy
from ding.policy.happo import HAPPOPolicy
from ding.policy.ibc import IBCPolicy
from ding.policy.impala import IMPALAPolicy
from ding.policy.iql import IQLPolicy
from ding.policy.iqn import IQNPolicy
from ding.policy.maddpg import MADDPGPolicy
from ding.policy.madqn import MADQNPolicy
from ding.policy.masac import MASACPolicy
from ding.policy.mat import MATPolicy
from ding.policy.mbpolicy.dreamer import DREAMERPolicy
from ding.policy.mbpolicy.mbsac import MBSACPolicy, STEVESACPolicy
from ding.policy.mdqn import MDQNPolicy
from ding.policy.ngu import NGUPolicy
from ding.policy.offppo_collect_traj import OffPPOCollectTrajPolicy
from ding.policy.pdqn import PDQNPolicy
from ding.policy.pg import PGPolicy
from ding.policy.plan_diffuser import PDPolicy
from ding.policy.ppg import PPGOffPolicy, PPGPolicy
from ding.policy.ppo import PPOOffPolicy, PPOPGPolicy, PPOPolicy, PPOSTDIMPolicy
from ding.policy.pqn import PQNPolicy
from ding.policy.prompt_awr import PromptAWRPolicy
from ding.policy.prompt_pg import PromptPGPolicy
from ding.policy.qmix import QMIXPolicy
from ding.policy.qrdqn import QRDQNPolicy
from ding.policy.qtran import QTRANPolicy
from ding.policy.r2d2 import R2D2Policy
from ding.policy.r2d2_collect_traj import R2D2CollectTrajPolicy
from ding.policy.r2d2_gtrxl import R2D2GTrXLPolicy
from ding.policy.r2d3 import R2D3Policy
from ding.policy.rainbow import RainbowDQNPolicy
from ding.policy.rebrac import ReBRACPolicy
from ding.policy.redq import REDQPolicy
from ding.policy.rlpd import RLPDPolicy
from ding.policy.sac import DiscreteSACPolicy, SACPolicy, SQILSACPolicy
from ding.policy.sql import SQLPolicy
from ding.policy.sqn import SQNPolicy
from ding.policy.td3 import TD3Policy
from ding.policy.td3_bc import TD3BCPolicy
from ding.policy.td3_vae import TD3VAEPolicy
from ding.policy.tdmpc2 import TDMPC2Policy
from ding.policy.tqc import TQCPolicy
from ding.policy.trpo import TRPOPolicy
from ding.policy.wqmix import WQMIXPolicy
from ding.policy.xql import XQLPolicy
from ding.utils import POLICY_REGISTRY

# In pickles and messages they are at home here, as in DI-engine.
DummyCommandModePolicy.__module__ = EpsCommandModePolicy.__module__ = __name__

TWINS: dict[type[CommandModePolicy], dict[str, tuple[str, type[Policy]]]] = {
    DummyCommandModePolicy: {
        "pg_command": ("PGCommandModePolicy", PGPolicy),
        "a2c_command": ("A2CCommandModePolicy", A2CPolicy),
        "ppo_command": ("PPOCommandModePolicy", PPOPolicy),
        "trpo_command": ("TRPOCommandModePolicy", TRPOPolicy),
        "ppo_pg_command": ("PPOPGCommandModePolicy", PPOPGPolicy),
        "ppo_offpolicy_command": ("PPOOffCommandModePolicy", PPOOffPolicy),
        "ppo_stdim_command": ("PPOSTDIMCommandModePolicy", PPOSTDIMPolicy),
        "ppg_command": ("PPGCommandModePolicy", PPGPolicy),
        "ppg_offpolicy_command": ("PPGOffCommandModePolicy", PPGOffPolicy),
        "cql_command": ("CQLCommandModePolicy", CQLPolicy),
        "iql_command": ("IQLCommandModePolicy", IQLPolicy),
        "td3_vae_command": ("TD3VAECommandModePolicy", TD3VAEPolicy),
        "td3_bc_command": ("TD3BCCommandModePolicy", TD3BCPolicy),
        "bcq_command": ("BCQCommandModelPolicy", BCQPolicy),
        "dreamer_command": ("DREAMERCommandModePolicy", DREAMERPolicy),
        "tdmpc2_command": ("TDMPC2CommandModePolicy", TDMPC2Policy),
        "mbsac_command": ("MBSACCommandModePolicy", MBSACPolicy),
        "stevesac_command": ("STEVESACCommandModePolicy", STEVESACPolicy),
        "edac_command": ("EDACCommandModelPolicy", EDACPolicy),
        "dt_command": ("DTCommandModePolicy", DTPolicy),
        "pd_command": ("PDCommandModelPolicy", PDPolicy),
        "r2d2_collect_traj_command": ("R2D2CollectTrajCommandModePolicy", R2D2CollectTrajPolicy),
        "offppo_collect_traj_command": ("PPOOffCollectTrajCommandModePolicy", OffPPOCollectTrajPolicy),
        "impala_command": ("IMPALACommandModePolicy", IMPALAPolicy),
        # Spelt as in DI-engine.
        "acer_command": ("ACERCommandModePolisy", ACERPolicy),
        "d4pg_command": ("D4PGCommandModePolicy", D4PGPolicy),
        "sac_command": ("SACCommandModePolicy", SACPolicy),
        "sqil_sac_command": ("SQILSACCommandModePolicy", SQILSACPolicy),
        "tqc_command": ("TQCCommandModePolicy", TQCPolicy),
        "redq_command": ("REDQCommandModePolicy", REDQPolicy),
        "droq_command": ("DroQCommandModePolicy", DroQPolicy),
        "crossq_command": ("CrossQCommandModePolicy", CrossQPolicy),
        "cal_ql_command": ("CalQLCommandModePolicy", CalQLPolicy),
        "rebrac_command": ("ReBRACCommandModePolicy", ReBRACPolicy),
        "rlpd_command": ("RLPDCommandModePolicy", RLPDPolicy),
        "xql_command": ("XQLCommandModePolicy", XQLPolicy),
        "maddpg_command": ("MADDPGCommandModePolicy", MADDPGPolicy),
        "masac_command": ("MASACCommandModePolicy", MASACPolicy),
        "mat_command": ("MATCommandModePolicy", MATPolicy),
        "happo_command": ("HAPPOCommandModePolicy", HAPPOPolicy),
        "ibc_command": ("IBCCommandModePolicy", IBCPolicy),
        "atoc_command": ("ATOCCommandModePolicy", ATOCPolicy),
        "prompt_pg_command": ("PromptPGCommandModePolicy", PromptPGPolicy),
        "prompt_awr_command": ("PromptAWRCommandModePolicy", PromptAWRPolicy),
    },
    EpsCommandModePolicy: {
        "dqn_command": ("DQNCommandModePolicy", DQNPolicy),
        "dqn_stdim_command": ("DQNSTDIMCommandModePolicy", DQNSTDIMPolicy),
        "c51_command": ("C51CommandModePolicy", C51Policy),
        "qrdqn_command": ("QRDQNCommandModePolicy", QRDQNPolicy),
        "discrete_cql_command": ("DiscreteCQLCommandModePolicy", DiscreteCQLPolicy),
        "iqn_command": ("IQNCommandModePolicy", IQNPolicy),
        "fqf_command": ("FQFCommandModePolicy", FQFPolicy),
        "rainbow_command": ("RainbowDQNCommandModePolicy", RainbowDQNPolicy),
        "sql_command": ("SQLCommandModePolicy", SQLPolicy),
        "mdqn_command": ("MDQNCommandModePolicy", MDQNPolicy),
        "pqn_command": ("PQNCommandModePolicy", PQNPolicy),
        "r2d2_command": ("R2D2CommandModePolicy", R2D2Policy),
        "r2d2_gtrxl_command": ("R2D2GTrXLCommandModePolicy", R2D2GTrXLPolicy),
        "bdq_command": ("BDQCommandModePolicy", BDQPolicy),
        "sqn_command": ("SQNCommandModePolicy", SQNPolicy),
        "dqfd_command": ("DQFDCommandModePolicy", DQFDPolicy),
        "r2d3_command": ("R2D3CommandModePolicy", R2D3Policy),
        # Its envs have epsilons of their own, and that of the command mode is ignored.
        "ngu_command": ("NGUCommandModePolicy", NGUPolicy),
        "discrete_sac_command": ("DiscreteSACCommandModePolicy", DiscreteSACPolicy),
        "pdqn_command": ("PDQNCommandModePolicy", PDQNPolicy),
        "collaq_command": ("CollaQCommandModePolicy", CollaQPolicy),
        "coma_command": ("COMACommandModePolicy", COMAPolicy),
        "madqn_command": ("MADQNCommandModePolicy", MADQNPolicy),
        "qmix_command": ("QMIXCommandModePolicy", QMIXPolicy),
        "qtran_command": ("QTRANCommandModePolicy", QTRANPolicy),
        "wqmix_command": ("WQMIXCommandModePolicy", WQMIXPolicy),
    },
    HybridCommandModePolicy: {
        "ddpg_command": ("DDPGCommandModePolicy", DDPGPolicy),
    },
    CloningCommandModePolicy: {
        "bc_command": ("BCCommandModePolicy", BehaviourCloningPolicy),
    },
}
"""Command mode -> registered type -> name of the class, and its algorithm."""


def _twin(alias: str, name: str, algorithm: type[Policy], mode: type[CommandModePolicy]) -> type[CommandModePolicy]:
    """Return a new class of this module that is an algorithm with a command mode, and register it."""
    summary = " ".join((mode.__doc__ or "").split()).removeprefix("A ")
    doc = f"{algorithm.__name__} with a {summary}"
    twin = new_class(name, (algorithm, mode), exec_body=lambda body: body.update(__module__=__name__, __doc__=doc))
    POLICY_REGISTRY.register(alias, twin)
    return twin


for _mode, _algorithms in TWINS.items():
    for _alias, (_name, _algorithm) in _algorithms.items():
        globals()[_name] = _twin(_alias, _name, _algorithm, _mode)

# The twin of an algorithm that extends another one is also an instance of the other one's twin.
TD3CommandModePolicy = _twin("td3_command", "TD3CommandModePolicy", TD3Policy, globals()["DDPGCommandModePolicy"])
