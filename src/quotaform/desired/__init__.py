"""Files and what they say: quotas.d and quotaform.yaml are read and checked here, and written for an import.

The only package that imports yaml and jsonschema, and that only when a file is read.
"""
