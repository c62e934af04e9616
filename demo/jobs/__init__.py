"""Two real jobs: `train` restarts from saved points, `render` gives its memory back while it lives."""
