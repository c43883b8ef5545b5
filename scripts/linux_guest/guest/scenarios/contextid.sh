# Two threads whose IDs are known, 4002 and 4302: perf has the one before. It counts them from exec on.
for rounds in 0 3; do
    echo 4${rounds}00 >/proc/sys/kernel/ns_last_pid
    perf stat -x, -e instructions:u /bin/hot $rounds 2>counted >out
    section counted $rounds
    cat counted
    section workload $rounds
    cat out
done
