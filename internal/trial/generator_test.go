package trial

import (
	"context"
	"testing"
	"time"

	"felix/internal/measure"
	"felix/internal/wire"
	"felix/internal/workload"
)

// taker takes what is published, at once.
type taker struct {
	at    time.Time
	rooms [][]byte
}

func (k *taker) PublishFunc(_ context.Context, _ int, sizes []int, fill func([][]byte), _ wire.AckMode) (ack, error) {
	fill(k.rooms[:len(sizes)])
	return k, nil
}
func (k *taker) At() time.Time              { return k.at }
func (k *taker) Wait(context.Context) error { return nil }

// What the bench allocates in a flood would be in the figures as if it were the broker's or the client's.
func TestGeneratorDoesNotAllocate(t *testing.T) {
	c, err := workload.Case{Payload: 4096, Batch: 64, Load: workload.LoadFlood}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	clock := measure.NewClock()
	sender, err := measure.NewSender(measure.SenderConfig{Streams: 1, PayloadLen: 4096})
	if err != nil {
		t.Fatal(err)
	}
	rooms := make([][]byte, 64)
	for i := range rooms {
		rooms[i] = make([]byte, 4096)
	}
	g := newGenerator(&c, 0, &taker{time.Now(), rooms}, clock, sender, 1)
	flood := func(batches int64) float64 {
		return testing.AllocsPerRun(20, func() {
			if err := g.run(t.Context(), measure.PhaseMeasure, limit{total: 64 * batches, deadline: 1 << 62}); err != nil {
				t.Fatal(err)
			}
		})
	}
	// A phase may allocate, a batch may not.
	if one, thousand := flood(1), flood(1000); thousand > one+10 {
		t.Errorf("%.0f allocations for a phase of 1,000 batches, %.0f for one of 1; want the same", thousand, one)
	}
}
