# SPDX-License-Identifier: MIT OR Apache-2.0
# Downloads through RED, for ns-2.35. Arguments, each KEY=VALUE: see the defaults. Prints the payload
# in Mbit/s, the share of packets dropped at the queue, its mean length in packets, Jain's index.
array set o {agent TCP/Newreno sink TCPSink gentle true size 1000 window 100 seed 1 seconds 600 flows 9 minrto 0.2 tick 0.01 iw 2 lt 1 bytes false mean 500 limit 50 stagger 0.1 fix false}
foreach pair $argv { set kv [split $pair =]; set o([lindex $kv 0]) [lindex $kv 1] }
ns-random $o(seed)
set ns [new Simulator]
Queue/RED set thresh_ 5
Queue/RED set maxthresh_ 15
Queue/RED set q_weight_ 0.002
Queue/RED set linterm_ 10
Queue/RED set gentle_ $o(gentle)
Queue/RED set bytes_ $o(bytes)
Queue/RED set queue_in_bytes_ $o(bytes)
Queue/RED set mean_pktsize_ $o(mean)
Agent/TCP set window_ $o(window)
Agent/TCP set packetSize_ $o(size)
Agent/TCP set minrto_ $o(minrto)
Agent/TCP set tcpTick_ $o(tick)
Agent/TCP set windowInit_ $o(iw)
Agent/TCP set singledup_ $o(lt)
Agent/TCP set LimTransmitFix_ $o(fix)
set near [$ns node]
set far [$ns node]
$ns duplex-link $near $far 1.5Mb 10ms RED
$ns queue-limit $near $far $o(limit)
set monitor [$ns monitor-queue $near $far ""]
set integral [$monitor get-pkts-integrator]
set start [new RandomVariable/Uniform]
$start set max_ $o(stagger)
for {set i 0} {$i < $o(flows)} {incr i} {
    set from [$ns node]
    set to [$ns node]
    $ns duplex-link $from $near 100Mb 1ms DropTail
    $ns duplex-link $far $to 100Mb 2ms DropTail
    $ns queue-limit $from $near 1000
    $ns queue-limit $far $to 1000
    $ns queue-limit $to $far 1000
    set tcp($i) [$ns create-connection $o(agent) $from $o(sink) $to $i]
    set ftp($i) [$tcp($i) attach-app FTP]
    $ns at [$start value] "$ftp($i) start"
}
proc report {} {
    global o ns tcp monitor integral
    set sum 0.0
    set squares 0.0
    for {set i 0} {$i < $o(flows)} {incr i} {
        set acked [$tcp($i) set ack_]
        set sum [expr $sum + $acked]
        set squares [expr $squares + 1.0 * $acked * $acked]
    }
    set payload [expr $sum * $o(size) * 8e-6 / $o(seconds)]
    set drops [expr 1.0 * [$monitor set pdrops_] / [$monitor set parrivals_]]
    set queue [expr [$integral set sum_] / $o(seconds)]
    puts "[format %.4f $payload] [format %.4f $drops] [format %.2f $queue] [format %.4f [expr $sum * $sum / $o(flows) / $squares]]"
    exit 0
}
$ns at $o(seconds) report
$ns run
