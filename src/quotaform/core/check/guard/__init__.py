"""Guards: what blocks a plan, and what lifts a block."""
