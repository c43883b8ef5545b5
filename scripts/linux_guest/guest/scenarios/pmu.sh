# Events counted and recorded by the guest's own driver of the Performance Monitors.
hot=/bin/hot
section driver
dmesg | grep -i 'pmu.*counters available'
section counted
perf stat -x, -e instructions:u,cycles:u,r21:u,instructions:k,instructions $hot 3 2>&1 >once | grep -v '^$'
section counted twice as long
perf stat -x, -e instructions:u,r21:u $hot 6 2>&1 >twice | grep -v '^$'
section once
cat once
section twice
cat twice
section recorded
perf record -q -o pmu.data -e '{cycles,instructions}' -c 10007 -- $hot 20 >/dev/null
perf script -i pmu.data -F event,sym | sort | uniq -c
section interrupts
grep -i pmu /proc/interrupts
