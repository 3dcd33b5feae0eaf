//go:build !race

// Under -race sync.Pool drops what it is given at random.

package client

import (
	"crypto/tls"
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
	for _, mode := range []wire.AckMode{wire.AckNone, wire.AckPerBatch} {
		step := func() {
			a, err := p.Publish(t.Context(), demo, payloads, mode)
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
			t.Errorf("%s: %.0f allocations for %d batches, want 1", mode, allocs, slabAcks)
		}
	}
}
