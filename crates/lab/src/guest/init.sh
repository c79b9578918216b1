#!/bin/sh
# The first process of a guest: see guest.rs. The root is the host's own file tree, read only, so the host's programs
# are the guest's. Reads one command a line from the console; answers with its output and a line "@@RC STATUS"; powers
# off at the end of its input, so that a guest never outlives the program that started it.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
stty -echo -onlcr
# There is no modprobe to find what a module needs: they come in the order in which they need each other.
folder=$MODULES/$(uname -r)/kernel
for module in $(echo "$LOAD" | tr , ' '); do
    insmod "$folder/$module.ko" || echo "@@LACKS $module"
done
ip link set lo up
echo "@@READY"
while IFS= read -r line; do
    timeout "$LIMIT" sh -c "$line" </dev/null 2>&1
    printf '\n@@RC %d\n' $?
done
echo o >/proc/sysrq-trigger
sleep 60
