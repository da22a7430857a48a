"""Replay buffers of a coordinator with an index split into shards; start reading at `sharded_buffer`."""
