"""Headway shares the GPUs of a machine between model servers and everything else that wants them."""

__version__ = "0.1.0"
