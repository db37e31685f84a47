"""Pictures of usage and limits: the one door to matplotlib, which the extra `plot` installs."""
