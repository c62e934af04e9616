"""A package, so that the browser is gone when the last of its tests is over: its loop would be in the way of others."""
