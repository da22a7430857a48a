"""How optimisers make their steps: counted, in one call of a kernel, and without denormal numbers."""
