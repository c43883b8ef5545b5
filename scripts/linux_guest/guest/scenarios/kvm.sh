# Runs a guest by KVM, then again while its host is recorded: all PEs, all levels of the host.
section log
dmesg | grep -E "kvm \[|CPU: All CPU"
section kvm
kvm
perf record -q -a -e arm_spe_0/ts_enable=1,jitter=1/ -c 1000 -o kvm.data -- kvm >kvm.txt
section recorded
cat kvm.txt
send kvm.data
