"""Recordings of other programs into the table `usage`: read in parts, parsed, and brought together by series."""
