"""What a policy would have made of a log of requests."""
