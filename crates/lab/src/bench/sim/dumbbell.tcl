# SPDX-License-Identifier: MIT OR Apache-2.0
# The same dumbbell for ns-2: ns dumbbell.tcl LINE ACCESS FLOWS SECONDS QUEUE
# Prints packets acknowledged and milliseconds of the event loop.
foreach {line access flows seconds queue} $argv {}
set ns [new Simulator]
foreach name {servers near far clients} { set $name [$ns node] }
$ns duplex-link $servers $near $access 1ms DropTail
$ns duplex-link $near $far $line 8ms DropTail
$ns duplex-link $far $clients $access 1ms DropTail
foreach {a b} [list $servers $near $near $servers $far $clients $clients $far $far $near] {
    $ns queue-limit $a $b 1000
}
$ns queue-limit $near $far $queue
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 2000
for {set i 0} {$i < $flows} {incr i} {
    set tcp($i) [$ns create-connection TCP/Newreno $servers TCPSink $clients $i]
    set ftp [$tcp($i) attach-app FTP]
    $ns at [expr {0.1 * $i / $flows}] "$ftp start"
}
$ns at $seconds {
    set took [expr {[clock clicks -milliseconds] - $begun}]
    set packets 0
    for {set i 0} {$i < $flows} {incr i} { incr packets [$tcp($i) set ack_] }
    puts "$packets $took"
    exit 0
}
set begun [clock clicks -milliseconds]
$ns run
