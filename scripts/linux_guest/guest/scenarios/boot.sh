# Boots, and shows what the kernel found.
uname -srvm
grep -m 1 Features /proc/cpuinfo
ls /sys/bus/event_source/devices
cat /sys/bus/event_source/devices/arm_spe_0/cpumask
dmesg | grep arm_spe
