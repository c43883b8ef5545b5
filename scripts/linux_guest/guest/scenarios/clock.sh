# Records a program that works for a second of the guest, each 65536th of its operations.
perf record -q -e arm_spe_0/ts_enable=1/ -c 65536 -o second.data -- timeout 1 sh -c 'while :; do :; done'
section bytes
stat -c %s second.data
