"""Views of what spans clusters."""
