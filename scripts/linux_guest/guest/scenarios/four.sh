# Each filter on all CPUs at once, while a workload runs on each: for --smp 4.
filtered() {
    perf record -q -a -e "arm_spe_0/ts_enable=1,$2/u" -c 8192 -o "$1.data" -- \
        sh -c 'for n in 0 1 2 3; do taskset $((1 << n)) hot 8 & done; wait' >/dev/null
    send "$1.data"
}
section formats
ls /sys/bus/event_source/devices/arm_spe_0/format
filtered loads load_filter=1
filtered stores store_filter=1
filtered branches branch_filter=1
filtered retired event_filter=0x2
filtered latency min_latency=5
if [ -e /sys/bus/event_source/devices/arm_spe_0/format/inv_event_filter ]; then
    filtered taken branch_filter=1,inv_event_filter=0x40
fi
