//go:build !race

// Under -race sync.Pool drops what it is given at random.

package client

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"felix/internal/wire"
)

// A batch costs a share of a slab of acks, whose life is the caller's, and no other allocation.
func TestPublishDoesNotAllocate(t *testing.T) {
	cfg, err := Config{Addr: brokerAddr, TLS: new(tls.Config), Tenant: "t1", Token: "secret"}.resolve()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{queue: make(chan *Ack, 1), dead: make(chan struct{}), flags: wire.FlagPublish | wire.FlagAcked}
	p := &Publisher{cfg: cfg, workers: []*worker{w}}
	p.admission.budget = semaphore.NewWeighted(cfg.PublishInflightBytes)
	w.p = p
	payloads := make([][]byte, 64)
	for i := range payloads {
		payloads[i] = make([]byte, 4096)
	}
	sizes := slices.Repeat([]int{4096}, 64)
	fill := func(payloads [][]byte) { payloads[63][4095] = 1 }
	inPlace := func(mode wire.AckMode) (*Ack, error) { return p.PublishFunc(t.Context(), demo, sizes, fill, mode) }
	copied := func(mode wire.AckMode) (*Ack, error) { return p.Publish(t.Context(), demo, payloads, mode) }
	for _, tt := range []struct {
		name    string
		publish func(wire.AckMode) (*Ack, error)
		mode    wire.AckMode
	}{
		{"Publish", copied, wire.AckNone}, {"Publish", copied, wire.AckPerBatch},
		{"PublishFunc", inPlace, wire.AckNone}, {"PublishFunc", inPlace, wire.AckPerBatch},
	} {
		step := func() {
			a, err := tt.publish(tt.mode)
			if err != nil {
				t.Fatal(err)
			}
			<-w.queue
			putBuffer(a.frame)
			p.admission.release(a.weight)
			a.resolve(nil, time.Now())
			if err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// Counted are whole allocations a run: eight publishes are one slab.
		allocs := testing.AllocsPerRun(200, func() {
			for range slabAcks {
				step()
			}
		})
		if allocs > 1 {
			t.Errorf("%s, %s: %.0f allocations for %d batches, want 1", tt.name, tt.mode, allocs, slabAcks)
		}
	}
}
