#!/bin/busybox sh
# The first process of a guest: see ../kernels.sh. Makes the host's file tree the root, and goes on there.
export PATH=/bin
busybox mount -t proc proc /proc
busybox mount -t devtmpfs dev /dev
for module in $(busybox cat /modules/order); do busybox insmod "/modules/$module"; done
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 host /root || {
    echo "the host's file tree cannot be mounted"
    echo o >/proc/sysrq-trigger
    busybox sleep 60
}
busybox mount -t devtmpfs dev /root/dev
exec busybox switch_root /root "$REPOSITORY/scripts/kernels/init.sh"
