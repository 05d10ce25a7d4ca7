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
if [ -e /etc/system ]; then
    # The disk's own system takes over. What it is to run, once it has come up, lies in /run and not on the disk.
    mkdir /system && mount /dev/vda /system && mount -t tmpfs -o mode=755 tmpfs /run || poweroff -f
    mkdir -p /run/guest /run/systemd/system/graphical.target.wants
    cp /etc/guest.sh /etc/command $(cat /etc/programs) /run/guest
    cp /etc/guest.service /run/systemd/system
    ln -s ../guest.service /run/systemd/system/graphical.target.wants
    umount /sys/kernel/debug /sys/fs/bpf /sys /proc /dev/pts
    mount -o move /dev /system/dev
    mount -o move /run /system/run
    exec switch_root /system /sbin/init
fi
# From here on an end is the command's, not the boot's.
read -r uptime _ </proc/uptime
echo "begun $uptime" >"$(port status)"
sh /etc/command </dev/null >"$(port output)" 2>&1
echo $? >"$(port status)"
sync
poweroff -f
