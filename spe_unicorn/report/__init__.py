"""Tables made of records, and records for programs that look at many."""
