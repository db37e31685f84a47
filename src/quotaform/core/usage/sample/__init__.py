"""Series, samples of them, and the rows of the table of usage that they become."""
