"""What acting shares: calls of a network, sampling, recurrent memory, the modes of a policy."""
