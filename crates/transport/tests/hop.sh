#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Runs a command in a namespace from which a router leads to the namespace `far`, over a link with an MTU of 1400 B:
#
#   unshare --user --map-root-user --net --mount bash hop.sh COMMAND...
#
# near 10.9.1.1 -- 10.9.1.2 router 10.9.2.1 -- (1400 B) -- 10.9.2.2 far
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
for name in router far; do
    ip netns add $name
    ip -n $name link set lo up
done
ip link set lo up
ip link add near0 type veth peer name near1 netns router
ip -n router link add far1 mtu 1400 type veth peer name far0 netns far
ip -n far link set far0 mtu 1400
ip addr add 10.9.1.1/24 dev near0
ip -n router addr add 10.9.1.2/24 dev near1
ip -n router addr add 10.9.2.1/24 dev far1
ip -n far addr add 10.9.2.2/24 dev far0
ip link set near0 up
ip -n router link set near1 up
ip -n router link set far1 up
ip -n far link set far0 up
ip route add default via 10.9.1.2
ip -n far route add default via 10.9.2.1
ip netns exec router sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
exec "$@"
