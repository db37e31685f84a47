"""Policies: files that are JSON Schemas of resolved entries, read, checked and asked."""
