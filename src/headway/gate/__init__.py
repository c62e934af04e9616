"""The gate: the request path, in a process of its own."""
