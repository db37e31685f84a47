"""What leaves the machine beside requests to brokers: comments to GitHub and GitLab, webhooks, and metrics."""
