"""Files and folders of the host that the guest's devices store in: disks, flash, shared folders."""
