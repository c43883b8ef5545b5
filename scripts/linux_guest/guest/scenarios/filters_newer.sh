# Filters that newer drivers know: data sources, and classes of operations and events that are not to be.
filtered() {
    perf record -q -e "arm_spe_0/ts_enable=1,$2/u" -c 256 -o "$1.data" -- md5sum /bin/spe_client >/dev/null
    send "$1.data"
}
section formats
ls /sys/bus/event_source/devices/arm_spe_0/format
filtered all_loads load_filter=1
filtered elsewhere load_filter=1,inv_data_src_filter=0x1
filtered no_loads load_filter=0,load_filter_mask=1
filtered no_branches branch_filter=0,branch_filter_mask=1
filtered hits inv_event_filter=0x8,load_filter=1
