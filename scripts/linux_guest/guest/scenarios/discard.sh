# What newer drivers know: discard mode, events of SPEv1p2, and the filter that wants an event not to be there.
record() {
    section "record $1"
    perf record -q -e "arm_spe_0/$2" -c 1000 -o "$1.data" -- hot 20 >/dev/null
    if [ -s "$1.data" ]; then send "$1.data"; fi
}
section formats
ls /sys/bus/event_source/devices/arm_spe_0/format
record discard discard=1/u
record not_taken branch_filter=1,event_filter=0x40/
record taken branch_filter=1,inv_event_filter=0x40/
