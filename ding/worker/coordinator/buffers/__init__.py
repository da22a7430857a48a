"""The buffers of a coordinator, which know what data there is but hold none.

* ``chunk_table``: references to chunks, and which of them are still needed.
* ``metadata_buffer``: rows to draw from, for policies that learn from a replay buffer.
* ``on_policy_buffer``: the rows of one version of a policy, for those that learn from its own data.
"""
