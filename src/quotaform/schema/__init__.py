"""The JSON Schemas of all files and documents, and their validators."""
