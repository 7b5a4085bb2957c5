"""JSON Schemas of the files that a bundle holds."""
