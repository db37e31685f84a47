"""What a history says, as text."""
