# Samples as often as can be while much memory is touched for the first time.
perf record -q -m ,1M -e arm_spe_0/ts_enable=1/ -c 256 -o collisions.data -- dd if=/dev/zero of=file bs=1M count=1 2>/dev/null
send collisions.data
