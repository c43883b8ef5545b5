"""System registers in compiled code: accesses by MRS, MSR and SYS."""
