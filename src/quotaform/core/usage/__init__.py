"""What clients use of their quotas: the metrics that say so, and the results that are made of them."""
