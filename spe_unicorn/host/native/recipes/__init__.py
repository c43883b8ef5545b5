"""How compiled code foresees, at a block's start, what a later operation of it will find."""
