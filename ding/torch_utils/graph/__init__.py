"""Network updates as graphs: parameters in one tensor, and recorded operations on them."""
