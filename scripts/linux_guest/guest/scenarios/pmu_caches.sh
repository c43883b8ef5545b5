# Events of caches and of the branch predictor, by the guest's own driver: for --model cache.
hot=/bin/hot
# nothing here is about the kernel's symbols, and perf would read them all: half a billion operations
touch /nothing
mount -o bind /nothing /proc/kallsyms
section counted
perf stat -x, -e branch-misses,cache-references,cache-misses $hot 3 2>&1 >/dev/null | grep -v '^$'
section recorded
perf record -q -N -B -o misses.data -e branch-misses:u,cache-misses:u -c 101 $hot 3 >/dev/null
perf script -i misses.data -F event,sym | sort | uniq -c
