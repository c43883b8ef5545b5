"""Device models: registers and lines, no engine."""
