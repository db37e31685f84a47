"""Recording what brokers measure: the sources, when they are asked, and what came of it."""
