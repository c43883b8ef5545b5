# Records the workload once with each filter, on all CPUs if there are several; else with an interval that does not vary, too.
workload="hot 4" all=
if [ "$(nproc)" -gt 1 ]; then
    last=$(($(nproc) - 1))
    echo "for cpu in \$(seq 0 $last); do taskset -c \$cpu hot 4 & done; wait" >everywhere
    workload="sh everywhere" all=-a
fi
filtered() {
    perf record -q $all -e "arm_spe_0/ts_enable=1,$2/u" -c 1024 -o "$1.data" -- $workload >/dev/null
    send "$1.data"
}
filtered loads load_filter=1
filtered stores store_filter=1
filtered branches branch_filter=1
filtered retired event_filter=0x2
filtered mispredicted event_filter=0x80
filtered latency min_latency=5
if [ -z "$all" ]; then
    filtered steady jitter=0
    filtered jitter jitter=1
fi
