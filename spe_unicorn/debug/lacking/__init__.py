"""What a core lacks: said of one instruction (``unavailable``), and of a file (``scanning``)."""
