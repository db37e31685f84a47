"""What files are compared with: an earlier commit, or the receipt of an apply."""
