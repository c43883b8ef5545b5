"""What runs of tests, and the children that tests start, may do and say."""
