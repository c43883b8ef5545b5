"""What happened to SPE on a board, as marks on lanes of time."""
