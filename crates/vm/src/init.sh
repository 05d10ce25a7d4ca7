#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# The first process of the guest: loads modules, runs /etc/command, tells its exit status, stops the machine.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/ LC_ALL=C.UTF-8
/bin/busybox mkdir -p /proc /sys /dev /tmp /run
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts && mount -t devpts devpts /dev/pts
mount -t bpf bpf /sys/fs/bpf
mount -t debugfs debugfs /sys/kernel/debug
ip link set lo up
for module in $(cat /etc/modules); do
    insmod "$module" || echo "cannot load $module" >/dev/console
done
port() {
    for entry in /sys/class/virtio-ports/*; do
        [ "$(cat "$entry/name")" = "$1" ] && echo "/dev/${entry##*/}"
    done
}
# From here on an end is the command's, not the boot's.
echo begun >"$(port status)"
sh /etc/command </dev/null >"$(port output)" 2>&1
echo $? >"$(port status)"
sync
poweroff -f
