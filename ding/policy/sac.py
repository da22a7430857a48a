"""SAC and its relatives. The classes live in small private modules; this is their public address."""

from ding.policy._sac import SACPolicy
from ding.policy._sac_discrete import DiscreteSACPolicy
from ding.policy._sac_sqil import SQILSACPolicy

__all__ = ["DiscreteSACPolicy", "SACPolicy", "SQILSACPolicy"]
