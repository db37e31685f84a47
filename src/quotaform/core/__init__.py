"""What follows from things: resolve, plan, effects, scope and drift.

Standard library and `model` only; no input, output, clock or environment.
"""
