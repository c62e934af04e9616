"""The parts of bench.page: each is a program of its own that prints its figures as JSON."""
