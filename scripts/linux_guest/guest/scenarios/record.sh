# Records md5sum of 1 MiB, user and kernel, and has perf show it in four ways.
head -c 1048576 /dev/zero >file
perf record -e arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,branch_filter=1/ -c 2000 -- md5sum file
section perf report
perf report --stdio --itrace=i1i --sort dso,symbol 2>&1 | grep -v '^#$\|^$' | head -n 20
section perf script
perf script --itrace=i1i | head -n 8
section perf report -D
perf report -D 2>/dev/null | grep -A 10 'ARM SPE data'
section perf mem report
perf mem report --stdio 2>&1 | grep -v '^#$\|^$' | head -n 12
section interrupts
grep arm_spe /proc/interrupts
section kernel log
dmesg | tail -n 3
