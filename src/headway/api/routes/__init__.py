"""One file per noun. A route looks up, asks view or the inbox, and answers bytes."""
