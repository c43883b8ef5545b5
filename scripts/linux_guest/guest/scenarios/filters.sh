# Records the workload once with each filter, and with an interval that does not vary.
filtered() {
    perf record -q -e "arm_spe_0/ts_enable=1,$2/u" -c 1024 -o "$1.data" -- hot 4 >/dev/null
    send "$1.data"
}
filtered loads load_filter=1
filtered stores store_filter=1
filtered branches branch_filter=1
filtered retired event_filter=0x2
filtered mispredicted event_filter=0x80
filtered latency min_latency=5
filtered steady jitter=0
filtered jitter jitter=1
