"""What the engine lacks or does wrongly at a PE: registers, exceptions, interrupts."""
