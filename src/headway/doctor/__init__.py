"""`headway doctor`: what of the machine stands in the way. Independent checks; each reads, and changes nothing."""
