"""Comparing clusters with what was last agreed, once or again and again."""
