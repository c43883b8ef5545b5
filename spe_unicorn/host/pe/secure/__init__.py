"""What Secure state without EL2 needs of the host: memory of its own, pointer authentication."""
