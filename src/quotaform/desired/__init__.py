"""What people declare: YAML files with locations, read, checked, merged, formatted and written."""
