# Records a program that spends its time in the kernel, at EL0 and EL1, and shows both.
perf record -q -e arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,branch_filter=1/ -c 4000 -o kernel.data -- \
    dd if=/dev/zero of=file bs=4096 count=1000 2>/dev/null
section symbols by perf
perf report --stdio -i kernel.data --itrace=i1i -n --sort comm,symbol 2>/dev/null | grep -v '^#' | head -n 12
section perf script
perf script -i kernel.data --itrace=i1i 2>/dev/null | head -n 3
section perf report -D
perf report -D -i kernel.data 2>/dev/null | grep -A 10 'ARM SPE data' | head -n 11
section perf mem report
perf mem -i kernel.data report --stdio 2>/dev/null | grep -v '^#' | head -n 6
send kernel.data
