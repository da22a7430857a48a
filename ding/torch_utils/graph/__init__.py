"""Updates of networks as graphs: parameters in one tensor, and what is done to them recorded."""
