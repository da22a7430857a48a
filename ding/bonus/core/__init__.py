"""What all agents share: their env, their config, their training."""
