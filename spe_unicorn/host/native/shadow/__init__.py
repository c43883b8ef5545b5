"""A shadow of RAM in compiled code: which bytes were written, and which an allocator gave away."""
