"""What to tell a user who misses something: samples, SPE itself, an instruction."""
