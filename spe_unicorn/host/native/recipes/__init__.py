"""How compiled code foresees, at a block's start, what an operation further on in it will find."""
