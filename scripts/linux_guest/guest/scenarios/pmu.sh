# Events counted and recorded by the guest's own driver of the Performance Monitors.
hot=/bin/hot
section driver
dmesg | grep -i 'pmu.*counters available'
section counted
perf stat -x, -e instructions:u,cycles:u,branches:u,instructions:k,instructions $hot 3 2>&1 >once | grep -v '^$'
section counted twice as long
perf stat -x, -e instructions:u,branches:u $hot 6 2>&1 >twice | grep -v '^$'
section workload
cat once
section workload twice as long
cat twice
section recorded
perf record -q -o pmu.data -e cycles,instructions -c 10007 $hot 20 >/dev/null && perf script -i pmu.data -F event,sym | sort | uniq -c
section cache events
perf stat -x, -e branch-misses,cache-references,cache-misses $hot 3 2>&1 >/dev/null | grep -v '^$'
perf record -q -o misses.data -e branch-misses:u,cache-misses:u -c 101 $hot 20 >/dev/null && perf script -i misses.data -F event,sym | sort | uniq -c
section interrupts
grep -i pmu /proc/interrupts
