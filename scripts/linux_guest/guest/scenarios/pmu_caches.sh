# Events of caches and of the branch predictor, by the guest's own driver: for --model cache.
hot=/bin/hot
section counted
perf stat -x, -e branch-misses,cache-references,cache-misses $hot 3 2>&1 >/dev/null | grep -v '^$'
section recorded
perf record -q -o misses.data -e branch-misses:u,cache-misses:u -c 101 $hot 20 >/dev/null
perf script -i misses.data -F event,sym | sort | uniq -c
