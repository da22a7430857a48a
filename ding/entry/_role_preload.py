"""What the fork server loads once for all roles: the library's heavy imports, nothing that starts a thread."""

import gymnasium  # noqa: F401
import torch  # noqa: F401

import ding.entry._role_child
import ding.envs
import ding.policy
import ding.worker  # noqa: F401
