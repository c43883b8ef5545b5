# Writes to a host folder by virtiofs, by programs of busybox and by perf, and tells the digest of each file.
mkdir /out
mount -t virtiofs share0 /out
dd if=/bin/busybox of=/out/dd bs=512k 2>/dev/null
dd if=/bin/busybox of=/out/small bs=1000 2>/dev/null
cp /bin/busybox /out/cp
cat /bin/busybox >/out/twice
cat /bin/busybox >>/out/twice
dd if=/dev/zero of=/out/both bs=4k count=2 2>/dev/null
exec 5<>/out/both
dd bs=4k count=1 <&5 >/dev/null 2>&1
printf renewed. | dd of=/out/both bs=8 seek=512 conv=notrunc 2>/dev/null
section both
dd bs=8 count=1 <&5 2>/dev/null
echo
exec 5<&-
section record
perf record -o /out/perf.data -e arm_spe_0/ts_enable=1/ -c 1000 -- md5sum /bin/busybox
section digests
cd /out && sha256sum *
