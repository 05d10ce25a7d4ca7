# SPDX-License-Identifier: MIT OR Apache-2.0
# One TCP connection over a link that loses the packets of a list, for ns-2.35.
# Arguments: agent, sink, packets lost (a list, from 0), limited transmit (0 or 1), trace file.
set ns [new Simulator]
set agent [lindex $argv 0]
$ns trace-all [open [lindex $argv 4] w]
Trace set show_tcphdr_ 1

# Reno may recover twice in a window, as in RFC 5681; NewReno as in RFC 6582.
Agent/TCP set bugFix_ [expr {$agent != "TCP/Reno"}]
Agent/TCP/Newreno set newreno_changes1_ 1
Agent/TCP/Newreno set partial_window_deflation_ 1
Agent/TCP set window_ 28
Agent/TCP set windowInit_ 1
Agent/TCP set minrto_ 1
Agent/TCP set tcpTick_ 0.1
Agent/TCP set rtxcur_init_ 6.0
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set useHeaders_ false
Agent/TCP set singledup_ [lindex $argv 3]

set s [$ns node]
set r [$ns node]
set k [$ns node]
$ns duplex-link $s $r 8Mb 0ms DropTail
$ns duplex-link $r $k 800Kb 100ms DropTail
$ns queue-limit $s $r 1000
$ns queue-limit $r $k 1000
$ns queue-limit $k $r 1000
set errors [new ErrorModel/List]
$errors droplist [lindex $argv 2]
$errors drop-target [new Agent/Null]
$ns lossmodel $errors $r $k

set ftp [[$ns create-connection $agent $s [lindex $argv 1] $k 1] attach-app FTP]
$ns at 0.0 "$ftp start"
$ns at 10.0 "exit 0"
$ns run
