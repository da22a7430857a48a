"""Buffers of a coordinator, which index data but hold none.

* ``admission``: checks and quotas of incoming chunks.
* ``metadata_buffer``: chunks in use and rows to sample, for policies that learn from a replay buffer.
* ``on_policy_buffer``: rows of one policy version, for on-policy learning.
"""
