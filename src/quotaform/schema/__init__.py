"""The JSON Schemas of all files and documents, and the validators over them."""
