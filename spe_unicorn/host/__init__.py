"""The only importer of the engine and of the disassembler."""
