"""What people and machines read: pure functions from values to text."""
