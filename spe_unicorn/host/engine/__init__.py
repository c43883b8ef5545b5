"""The engine made usable: memory, registers, the saved context, disassembly."""
