# Filters that newer drivers know: data sources, and classes of operations and events that are not to be.
filtered() {
    section "client $1"
    spe_client -e "arm_spe_0/ts_enable=1,$2/u" -c 256 -o recorded md5sum /bin/spe_client
    mv recorded.0 "$1.data"
    send "$1.data"
}
formats=/sys/bus/event_source/devices/arm_spe_0/format
section formats
ls $formats
[ -e $formats/inv_data_src_filter ] || return 0
filtered all_loads load_filter=1
filtered elsewhere load_filter=1,inv_data_src_filter=0x1
filtered no_loads load_filter=0,load_filter_mask=1
filtered no_branches branch_filter=0,branch_filter_mask=1
filtered hits inv_event_filter=0x8,load_filter=1
