"""Findings: what is wrong with, or worth knowing of, a plan or what a cluster holds."""
