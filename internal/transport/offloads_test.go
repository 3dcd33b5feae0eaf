package transport

import (
	"math/bits"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestGSOIsObserved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no segmentation offload on " + runtime.GOOS)
	}
	for _, tt := range []struct {
		set  Offload
		many bool // datagrams a send call
	}{{OffloadAuto, true}, {OffloadOn, true}, {OffloadOff, false}} {
		dialled, accepted := pair(t, Config{GSO: tt.set}, Config{GSO: tt.set})
		bulk(t, dialled, accepted, 4<<20)
		s := dialled.Stats()
		if many := *s.SendCalls*2 < *s.DatagramsSent; many != tt.many {
			t.Errorf("gso %v: %d datagrams in %d calls, several a call: want %v", tt.set, *s.DatagramsSent, *s.SendCalls, tt.many)
		}
		if gso := dialled.SocketInfo().GSO; gso == nil || *gso != tt.many || dialled.ConnectionState().GSO != tt.many {
			t.Errorf("gso %v: SocketInfo says %v, quic-go %v, want %v", tt.set, gso, dialled.ConnectionState().GSO, tt.many)
		}
		if mtu := s.MTUBytes; mtu == nil || *mtu < safePacketSize {
			t.Errorf("gso %v: mtu %v", tt.set, mtu)
		}
	}
}

func TestGROIsObserved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no receive offload on " + runtime.GOOS)
	}
	perRead := map[Offload]float64{}
	for _, gro := range []Offload{OffloadOff, OffloadOn} {
		dialled, accepted := pair(t, Config{GRO: gro}, Config{})
		bulk(t, accepted, dialled, 8<<20)
		bulk(t, dialled, accepted, 8<<20)
		s := accepted.Stats() // before the reads that it is of
		r := accepted.SocketInfo().Reads
		perRead[gro] = float64(r.Items) / float64(r.Count)
		// Counting is exact: what the reads brought is what was handed over, and in the histograms.
		var items, bytes uint64
		for _, n := range r.ItemsHist {
			items += n
		}
		for _, n := range r.BytesHist {
			bytes += n
		}
		if items != r.Count || bytes != r.Count {
			t.Errorf("gro %v: %d reads, %d and %d in the histograms", gro, r.Count, items, bytes)
		}
		// quic-go has room for 8 datagrams: reads of 16 KiB and more brought merged ones.
		if merged := len(r.BytesHist) > bits.Len(16<<10-1)+1; merged != (gro == OffloadOn) {
			t.Errorf("gro %v: reads by their bytes %v", gro, r.BytesHist)
		}
		if *s.DatagramsReceived > r.Items || *s.BytesHandedOver > r.Bytes || r.Bytes-*s.BytesHandedOver > groBuffer {
			t.Errorf("gro %v: read %d datagrams, %d bytes, handed over %d, %d", gro, r.Items, r.Bytes, *s.DatagramsReceived, *s.BytesHandedOver)
		}
		if *s.DatagramsReceived < 8<<20/maxPacketSize {
			t.Errorf("gro %v: %d datagrams received", gro, *s.DatagramsReceived)
		}
	}
	t.Logf("datagrams a read: %.1f without, %.1f with", perRead[OffloadOff], perRead[OffloadOn])
}

func TestGateIsObserved(t *testing.T) {
	if !receiveCounted {
		t.Skip("no batched reads on " + runtime.GOOS)
	}
	dialled, accepted := pair(t, Config{RecvGateBytes: 20_000}, Config{})
	bulk(t, dialled, accepted, 16<<20)
	g := accepted.SocketInfo().Gate
	if g == nil || g.Waits == 0 || g.WaitNs == 0 {
		t.Fatalf("gate of 20 kB under 16 MiB: %+v, want waits", g)
	}
	// A machine too busy to run the connection for so long makes the gate give up, and the queue overflow.
	if own, ok := accepted.Stats().OwnQueueBytes(); !ok || own > 64<<10 && g.Stalls == 0 {
		t.Errorf("%d bytes dropped or waiting in quic-go's queue, %v, want next to nothing", own, ok)
	}
	if dialled.SocketInfo().Gate != nil || dialled.SocketInfo().RecvGateBytes != 0 {
		t.Error("the end without a gate has one")
	}
}

// TestUnmetIsSaid asks for what a socket does not have: it works, and says what it lacks.
func TestUnmetIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{GSO: OffloadOn, GSOMerge: OffloadOn, GRO: OffloadOn, RecvGateBytes: 60_000}
		dialled, _ := newSimNetwork(t, time.Millisecond).pair(t, cfg, cfg)
		info := dialled.SocketInfo()
		text := strings.Join(info.Warnings, "\n")
		for _, name := range []string{"gso", "gso_merge", "gro", "recv_gate_bytes"} {
			if !strings.Contains(text, "udp socket: "+name+" has no effect") {
				t.Errorf("warnings %q: nothing of %s", info.Warnings, name)
			}
		}
		if info.GRO != nil || info.RecvGateBytes != 0 || info.Reads != nil || info.Unavailable["gro"] == "" {
			t.Errorf("SocketInfo = %+v, want nothing in effect, with reasons", info)
		}
	})
}

func TestParseOffload(t *testing.T) {
	for _, o := range []Offload{OffloadAuto, OffloadOn, OffloadOff} {
		if got, err := ParseOffload(o.String()); got != o || err != nil {
			t.Errorf("ParseOffload(%q) = %v, %v", o, got, err)
		}
	}
	if _, err := ParseOffload("yes"); err == nil || !strings.Contains(err.Error(), "auto, on, off") {
		t.Errorf("ParseOffload(yes) = %v, want the choices", err)
	}
}
