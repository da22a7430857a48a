"""Replay buffers of a coordinator whose index of rows is in several places: `sharded_buffer` is where to begin."""
