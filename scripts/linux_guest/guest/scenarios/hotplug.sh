# A CPU goes offline while it is recorded, by our client and by perf; a CPU that does not is recorded well.
away='md5sum /bin/busybox; echo 0 >/sys/devices/system/cpu/cpu1/online; md5sum /bin/busybox'
terms=arm_spe_0/ts_enable=1/
section client
spe_client -a -c 20000 -o client -e "$terms" sh -c "$away" 2>&1
section client ends with $?
echo 1 >/sys/devices/system/cpu/cpu1/online
section both
spe_client -a -c 20000 -o both -e "$terms" md5sum /bin/busybox
section both ends with $?
section perf
perf record -q -a -e "$terms" -c 20000 -o hotplug.data -- sh -c "$away" 2>&1
send hotplug.data
