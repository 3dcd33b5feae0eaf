package trial

import (
	"context"
	"errors"
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
	// fail refuses after so many batches; 0: never. made says whether their messages are made all the same.
	fail int
	made bool
	n    int
}

func (k *taker) PublishFunc(_ context.Context, _ int, sizes []int, fill func([][]byte), _ wire.AckMode) (ack, error) {
	k.n++
	refused := k.n == k.fail
	if !refused || k.made {
		fill(k.rooms[:len(sizes)])
	}
	if refused {
		return nil, errors.New("no more")
	}
	return k, nil
}
func (k *taker) At() time.Time              { return k.at }
func (k *taker) Wait(context.Context) error { return nil }

// newFlood is a generator of batches of that shape, as fast as k takes them.
func newFlood(t *testing.T, payload, batch int, k *taker) (*generator, *measure.Sender, *measure.Clock) {
	t.Helper()
	c, err := workload.Case{Payload: payload, Batch: batch, Load: workload.LoadFlood}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	sender, err := measure.NewSender(measure.SenderConfig{Streams: 1, PayloadLen: payload})
	if err != nil {
		t.Fatal(err)
	}
	k.at, k.rooms = time.Now(), make([][]byte, batch)
	for i := range k.rooms {
		k.rooms[i] = make([]byte, payload)
	}
	clock := measure.NewClock()
	return newGenerator(&c, 0, k, clock, sender, 1), sender, clock
}

// What the bench allocates in a flood would be in the figures as if it were the broker's or the client's.
func TestGeneratorDoesNotAllocate(t *testing.T) {
	g, _, _ := newFlood(t, 4096, 64, &taker{})
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

// A batch that the client would not take was due all the same: offered and failed, whether its messages were made or not.
func TestGeneratorCountsWhatIsRefused(t *testing.T) {
	for _, made := range []bool{false, true} {
		g, sender, clock := newFlood(t, 256, 4, &taker{fail: 3, made: made})
		sender.Mark(clock.Now())
		if err := g.run(t.Context(), measure.PhaseMeasure, limit{total: 400, deadline: 1 << 62}); err == nil {
			t.Errorf("made %v: no error", made)
		}
		r := sender.Result()
		if r.Offered != 12 || r.Published != 8 || r.Failed["no more"] != 4 || r.PublishedBytes != 8*256 {
			t.Errorf("made %v: offered %d, published %d (%d bytes), failed %v; want 12, 8 (2048), 4", made, r.Offered, r.Published, r.PublishedBytes, r.Failed)
		}
	}
}
