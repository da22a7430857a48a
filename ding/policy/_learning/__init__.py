"""What learning shares: optimisers, target networks, compiled updates, several processes, loading of states."""
