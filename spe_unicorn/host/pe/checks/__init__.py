"""What is looked at before an operation: alignment, breakpoints, watched memory."""
