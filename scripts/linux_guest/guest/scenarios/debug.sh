# Watchpoints of perf, counted, and gdb on a program: a breakpoint, a watchpoint, steps.
hot=/bin/hot
section second
perf stat -x, -e mem:0x413000:w $hot 3 2>&1 >/dev/null | grep mem: || exit 1
section third
perf stat -x, -e mem:0x403004/4:rw $hot 3 2>&1 >/dev/null | grep mem: || exit 1
section code
perf stat -x, -e mem:0x400640:x $hot 3 2>&1 >/dev/null | grep mem: || exit 1
section recorded
perf record -q -o mem.data -e mem:0x413000:w $hot 3 >/dev/null 2>&1 && perf script -i mem.data -F ip
cat >commands <<'END'
set pagination off
set style enabled off
break _start
run 1
hbreak fill_second
continue
watch *(unsigned long *)0x413000
continue
x/i $pc
stepi
stepi
printf "after two steps %#lx\n", $pc
delete
continue
END
section gdb
gdb -q -nx -batch -x commands $hot 2>&1 | grep -v '^$'
