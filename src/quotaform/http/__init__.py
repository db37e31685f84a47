"""The one door to servers over HTTP: bounded requests, answers that show no secret, and retries."""
