# What the kernel tells programs of the core: by /proc/cpuinfo, and in the auxiliary vector of a process.
section release
uname -r
section features
grep -m 1 Features /proc/cpuinfo
section errata
dmesg | grep 'SSBS not fully self-synchronizing'
cat /proc/self/auxv > auxv
send auxv
