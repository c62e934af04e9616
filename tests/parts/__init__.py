"""Parts of the test world that stand in for hardware."""
