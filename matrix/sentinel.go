package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"runtime"
	"time"

	"felix/internal/runrecord"
	"felix/internal/verdict"
)

// A sentinel is work that no commit under test can change: matrix itself does it, beside each trial, with nothing but
// the standard library. If it is faster beside one arm than beside the other, the machine moved and not the code.

// sentinelTime is how long each of its two probes lasts: half a second in a pair for either, which is short beside a
// trial and long beside a scheduler's time slice.
const sentinelTime = 250 * time.Millisecond

// sentinelBlock is what a CPU round works on: it fits the second level cache, as the hot data of a broker does.
const sentinelBlock = 64 << 10

// sentinelReading is what the probes did. 0 was not probed.
type sentinelReading struct {
	cpuRounds float64 // blocks per second
	loopback  float64 // bytes per second there and back
	err       error
}

// runSentinel probes the CPU and then the loopback interface.
func runSentinel(d time.Duration) sentinelReading {
	if d <= 0 {
		return sentinelReading{}
	}
	r := sentinelReading{cpuRounds: probeCPU(d)}
	r.loopback, r.err = probeLoopback(d)
	return r
}

// probeCPU walks and sums a block again and again: arithmetic, loads and stores, and a data dependency between rounds.
func probeCPU(d time.Duration) float64 {
	block := make([]byte, sentinelBlock)
	for i := range block {
		block[i] = byte(i * 31)
	}
	rounds, sum := 0, uint32(0)
	began := time.Now()
	for time.Since(began) < d {
		for range 4 { // so that asking the clock does not count
			x := sum | 1
			for i := 0; i+4 <= len(block); i += 4 {
				x = x*1664525 + 1013904223
				block[i] ^= byte(x >> 24)
			}
			sum = crc32.ChecksumIEEE(block) ^ x
			rounds++
		}
	}
	runtime.KeepAlive(sum)
	return float64(rounds) / time.Since(began).Seconds()
}

// sentinelDatagram is the size of a QUIC packet.
const sentinelDatagram = 1200

// probeLoopback plays ping-pong with itself over two UDP sockets: system calls, wake-ups and the kernel's loopback, which
// is what a trial's time is made of, too.
func probeLoopback(d time.Duration) (bytesPerSec float64, err error) {
	listen := func() (*net.UDPConn, error) { return net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) }
	server, err := listen()
	if err != nil {
		return 0, fmt.Errorf("sentinel: %w", err)
	}
	client, err := listen()
	if err != nil {
		return 0, errors.Join(fmt.Errorf("sentinel: %w", err), server.Close())
	}
	deadline := time.Now().Add(d + 2*time.Second)
	for _, c := range []*net.UDPConn{server, client} {
		if err := c.SetDeadline(deadline); err != nil {
			return 0, errors.Join(fmt.Errorf("sentinel: %w", err), server.Close(), client.Close())
		}
	}
	echoed := make(chan struct{})
	go func() { // ends when the server's socket is closed
		defer close(echoed)
		buf := make([]byte, 2048)
		for {
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if _, err := server.WriteToUDPAddrPort(buf[:n], from); err != nil {
				return
			}
		}
	}()
	defer func() {
		_, _ = server.Close(), client.Close()
		<-echoed
	}()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	buf := make([]byte, 2048)
	bytes := 0
	began := time.Now()
	for time.Since(began) < d {
		n, err := client.WriteToUDPAddrPort(buf[:sentinelDatagram], to)
		if err == nil {
			_, _, err = client.ReadFromUDPAddrPort(buf)
		}
		if err != nil {
			return 0, fmt.Errorf("sentinel: %w", err)
		}
		bytes += 2 * n
	}
	return float64(bytes) / time.Since(began).Seconds(), nil
}

// record keeps a reading beside a trial: of its kind, so that no table takes it for a trial.
func (s sentinelReading) record(c runrecord.Case, at time.Time, took time.Duration, host runrecord.Host) *runrecord.Record {
	r := &runrecord.Record{
		Schema: runrecord.Schema, RunID: runrecord.NewSessionID(), StartedAt: at.UTC(), DurationNs: int64(took), Kind: verdict.SentinelKind,
		Case: c, Host: host, Build: runrecord.Build{Source: "none", Optimized: true}, Valid: s.err == nil, SizeGrade: "n/a",
		Reasons: []string{}, Warnings: []string{}, Perturbed: []string{}, Stages: []runrecord.Stage{}, Trimmed: []string{}, Files: []runrecord.File{},
	}
	if s.cpuRounds > 0 {
		r.Rates.DeliveredMsgsPerSec = &s.cpuRounds
	}
	if s.loopback > 0 {
		r.Rates.DeliveredBytesPerSec = &s.loopback
	}
	if s.err != nil {
		text := s.err.Error()
		r.Error, r.Reasons = &text, []string{text}
	}
	return r
}
