"""What leaves the machine beside requests to brokers: HTTP to GitHub, GitLab and webhooks, and metrics."""
