"""What controls and features come to: effective controls, identification, start state."""
