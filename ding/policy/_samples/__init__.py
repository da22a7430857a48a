"""What becomes of transitions before learning: segments, sequences, and which of their steps are learned."""
