# Boots, and shows what the kernel found.
uname -srvm
grep -m 1 Features /proc/cpuinfo
ls /sys/bus/event_source/devices
cat /sys/bus/event_source/devices/arm_spe_0/cpumask
dmesg | grep arm_spe
section caches
for index in /sys/devices/system/cpu/cpu0/cache/index*; do
    for what in level type size ways_of_associativity coherency_line_size shared_cpu_list; do
        printf '%s ' "$(cat "$index/$what")"
    done
    echo
done
