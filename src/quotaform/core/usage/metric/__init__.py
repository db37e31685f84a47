"""What metrics measure: names and labels as exporters write them, to series."""
