"""Reads, validates and writes the files: quotas.d, quotaform.yaml, approvals.yaml and policies.

The only package that imports `yaml`, and only when a file is read.
"""
