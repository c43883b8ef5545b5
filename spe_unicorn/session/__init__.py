"""One machine as Python holds it: ``Machine``, its options, what a run came to."""
