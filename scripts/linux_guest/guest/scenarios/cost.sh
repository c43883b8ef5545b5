# The work whose host time --rate compares: a program without and with perf, and perf of one that does nothing.
record() {
    perf record -q -c 10000 -e arm_spe_0/ts_enable=1,load_filter=1,store_filter=1,branch_filter=1/ -- "$@"
}
head -c 16777216 /dev/zero >file
section plain
md5sum file
section nothing
record true
section recorded
record md5sum file
section end
