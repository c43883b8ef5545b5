"""The memory system (VMSA): descriptors, permissions, regimes, walks, AT."""
