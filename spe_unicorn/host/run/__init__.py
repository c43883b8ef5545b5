"""Running the engine: how far, which operation is chosen, what was sampled."""
