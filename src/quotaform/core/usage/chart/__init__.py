"""What pictures of usage show, and the tables beside them."""
