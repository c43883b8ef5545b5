# Two threads add to counters in one cache line, then to counters that are 128 bytes apart: for --smp 2 --model cache.
for how in shared padded; do
    perf c2c record -q -u -N -c 256 -o $how.data -- sharing $how 3000 >$how.txt
    section "$how"
    cat $how.txt
    section "report $how"
    # perf asks addr2line for lines, which is not there: it is not to end by that
    (trap '' PIPE; exec perf c2c report --stdio -i $how.data 2>&1)
    send $how.data
done
