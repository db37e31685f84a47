"""The JSON Schemas of files: whether a document fits, and in words why not."""
