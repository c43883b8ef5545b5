# Records the workload, whose operations are known, at EL0: all kinds, with jitter and physical addresses.
perf record -q -e arm_spe_0/ts_enable=1,pa_enable=1,jitter=1/u -c 1000 -o shares.data -- hot 20 >hot.txt
section shares by perf
perf report --stdio -i shares.data --itrace=i1i -n --sort comm,symbol 2>/dev/null | grep hot
section workload
cat hot.txt
send shares.data
