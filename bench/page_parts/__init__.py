"""The parts of bench.queue: each is a program of its own that prints its figures as JSON."""
