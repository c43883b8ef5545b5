# Mounts two host folders and a disk by Linux's own drivers, reads random numbers, prints on a virtio console.
mkdir /shared /given /disk
mount -t 9p -o trans=virtio,version=9p2000.L share0 /shared
mount -t 9p -o trans=virtio,version=9p2000.L share1 /given
section shared
cat /shared/greeting
cp -r /bin/busybox /shared/folder && mv /shared/folder/busybox /shared/moved && cmp /bin/busybox /shared/moved && echo same
echo "from the guest" >/shared/answer
ls -1 /shared
ln -s /etc/passwd /shared/link || echo no link
section given
cat /given/greeting
touch /given/new || echo read-only
section disk
sha256sum /dev/vda
echo written | dd of=/dev/vda conv=notrunc 2>/dev/null
sync
head -c 8 /dev/vda
echo
section random
cat /sys/devices/virtual/misc/hw_random/rng_current
head -c 8 /dev/hwrng | wc -c
for n in 1 2 3; do echo "to the host"; done >/dev/hvc0
umount /shared /given
