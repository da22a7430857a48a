"""The buffers of a coordinator, which know what data there is but hold none.

* ``admission``: which chunks of a worker are let in.
* ``metadata_buffer``: which chunks are still needed; rows to draw from, for policies that learn from a replay buffer.
* ``on_policy_buffer``: the rows of one version of a policy, for those that learn from its own data.
"""
