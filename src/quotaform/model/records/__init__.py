"""Records: how fields become JSON and what is read back; the JSON Schemas."""
