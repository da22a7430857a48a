from ding.policy.mbpolicy.dreamer import DREAMERPolicy as DREAMERPolicy
from ding.policy.mbpolicy.mbsac import MBSACPolicy as MBSACPolicy
from ding.policy.mbpolicy.mbsac import STEVESACPolicy as STEVESACPolicy
