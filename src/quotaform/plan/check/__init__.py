"""The checks of a plan: guards, lints, and what lifts a block."""
