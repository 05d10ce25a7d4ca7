# SPDX-License-Identifier: MIT OR Apache-2.0
# TFRC of ns-2 over a path without a queue: packets per second, after a quarter of the time.
#   ns ns2.tcl list N SECONDS [BURST]   the last BURST of each N packets are lost
#   ns ns2.tcl rate P SECONDS           each packet is lost with chance P
lassign $argv mode value seconds burst
if {$burst eq ""} { set burst 1 }
set ns [new Simulator]
set from [$ns node]
set to [$ns node]
$ns duplex-link $from $to 1000Mb 50ms DropTail
$ns queue-limit $from $to 100000
set tfrc [$ns create-connection TFRC $from TFRCSink $to 0]
$tfrc set packetSize_ 1000
if {$mode eq "rate"} {
    set loss [new ErrorModel]
    $loss set rate_ $value
    set rng [new RNG]
    $rng seed 7
    set uniform [new RandomVariable/Uniform]
    $uniform use-rng $rng
    $loss ranvar $uniform
    $loss drop-target [new Agent/Null]
} else {
    set loss [new ErrorModel/List]
    set drops {}
    for {set i 1} {$i < 1000000 / $value} {incr i} {
        for {set j 0} {$j < $burst} {incr j} { lappend drops [expr $i * $value - $burst + $j] }
    }
    $loss droplist $drops
}
$loss unit pkt
$ns lossmodel $loss $from $to
$ns at 0.0 "$tfrc start"
$ns at [expr $seconds / 4.0] "set before \[$tfrc set ndatapack_\]"
$ns at $seconds {
    puts [expr ([$tfrc set ndatapack_] - $before) / ($seconds * 0.75)]
    exit 0
}
$ns run
