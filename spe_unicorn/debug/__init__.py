"""Looking at a machine: traces of what happens, and a report of what cannot go on."""
