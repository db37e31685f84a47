"""The history of a fleet: what clusters held and when, as a slowly changing table of their snapshots."""
