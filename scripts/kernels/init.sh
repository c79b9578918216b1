#!/bin/bash
# What a guest does: runs one line after the other, and says on a second console what became of each.
set -o pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
# The kernel asks for modules itself. They stand in the repository.
cat >/run/modprobe <<END
#!/bin/sh
exec modprobe --dirname $MODULES "\$@"
END
chmod 755 /run/modprobe
echo /run/modprobe >/proc/sys/kernel/modprobe
ip link set lo up
while IFS= read -r line; do
    printf '\n--- %s\n' "$line"
    begin=$SECONDS status=0
    timeout "$LIMIT" bash -c "$line" </dev/null 2>&1 | cat || status=$?
    word=ok
    ((!status)) || word=FAILED
    echo "$word after $((SECONDS - begin)) s, status $status: $line" >/dev/ttyS1
done <"$PLACE/lines"
# Complaints of the kernel are failures too.
if dmesg | grep -E -A 20 'BUG:|WARNING:|Oops|general protection'; then echo "FAILED: the kernel complained" >/dev/ttyS1; fi
echo end >/dev/ttyS1
echo o >/proc/sysrq-trigger
# No program is started any more: its disk may be gone.
while :; do :; done
