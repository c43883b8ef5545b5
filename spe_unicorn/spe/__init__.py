"""The Statistical Profiling Extension, file by file in the order a sample lives."""
