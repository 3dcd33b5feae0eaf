package trial

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/workload"
)

// reader is a subscription of which a frame of so many bytes can always be read once it is full.
type reader struct {
	begun time.Time
	frame int
	full  chan struct{} // closed: there is always something to read
	at    []time.Duration
	most  int // frames
}

var errRead = errors.New("the subscription ended")

func (r *reader) now() int64 { return int64(time.Since(r.begun)) }

func (r *reader) next(ctx context.Context) (int, error) {
	select {
	case <-r.full:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(r.at) == r.most {
		return 0, errRead
	}
	r.at = append(r.at, time.Since(r.begun))
	return r.frame, nil
}

func holdOf(t *testing.T, ctx context.Context, stall, slow string) *hold {
	t.Helper()
	var c workload.Case
	if stall != "" {
		if err := c.Stall.Set(stall); err != nil {
			t.Fatal(err)
		}
	}
	if slow != "" {
		if err := c.Slow.Set(slow); err != nil {
			t.Fatal(err)
		}
	}
	c, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return newHold(ctx, &c, 0, 0)
}

// A slow subscriber reads what its rate allows, to the byte, from the mark on and for as long as there is something.
func TestSlowReadsAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{begun: time.Now(), frame: 1_000_000, full: make(chan struct{}), most: 41}
		h := holdOf(t, t.Context(), "", "*:20MB")
		done := make(chan error)
		go func() { done <- h.run(t.Context(), r.now, r.next) }()
		synctest.Wait()
		h.mark(r.now())
		close(r.full)
		if err := <-done; !errors.Is(err, errRead) {
			t.Fatal(err)
		}
		for i, at := range r.at {
			if want := time.Duration(i) * 50 * time.Millisecond; at != want {
				t.Fatalf("frame %d of 1 MB was read at %v, want %v at 20 MB/s", i, at, want)
			}
		}
	})
}

// What was not there to be read is no credit: after an idle time the reader is as slow as ever.
func TestSlowHasNoCreditForIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{begun: time.Now(), frame: 1_000_000, full: make(chan struct{}), most: 11}
		h := holdOf(t, t.Context(), "", "0:10MB")
		done := make(chan error)
		go func() { done <- h.run(t.Context(), r.now, r.next) }()
		synctest.Wait()
		h.mark(r.now())
		time.Sleep(5 * time.Second)
		close(r.full)
		if err := <-done; !errors.Is(err, errRead) {
			t.Fatal(err)
		}
		if took, want := r.at[10]-r.at[0], time.Second-paceCredit; took != want {
			t.Errorf("10 frames of 1 MB at 10 MB/s took %v, want %v", took, want)
		}
	})
}

// A stalled subscriber reads nothing from the beginning of its stall to the end, even if it waits for a frame when the
// stall begins, and reads on behind it.
func TestStallReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{begun: time.Now(), frame: 1, full: make(chan struct{}), most: 3}
		h := holdOf(t, t.Context(), "0:6s:1s,0:1s:3s", "")
		done := make(chan error)
		go func() { done <- h.run(t.Context(), r.now, r.next) }()
		synctest.Wait()
		h.mark(r.now())
		time.Sleep(2 * time.Second) // a second into the stall
		close(r.full)
		if err := <-done; !errors.Is(err, errRead) {
			t.Fatal(err)
		}
		for i, at := range r.at {
			if at != 4*time.Second {
				t.Errorf("read %d at %v, want all three at 4 s, when the stall ends", i, at)
			}
		}
	})
}

func TestHoldEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, 30 * time.Second} { // before the mark, and in a stall
			ctx, cancel := context.WithCancel(t.Context())
			r := &reader{begun: time.Now(), frame: 1, full: make(chan struct{}), most: 1}
			h := holdOf(t, ctx, "0:1s:10m", "")
			done := make(chan error)
			go func() { done <- h.run(ctx, r.now, r.next) }()
			synctest.Wait()
			if wait > 0 {
				h.mark(r.now())
				time.Sleep(wait)
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("after %v: %v, want canceled", wait, err)
			}
		}
	})
}

// A read that fails before the mark, or in a stall's last moment, is not taken for the end of a wait.
func TestHoldTellsFailuresFromItsOwnContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := holdOf(t, t.Context(), "0:1s:1s", "")
		if err := h.run(t.Context(), func() int64 { return 0 }, func(context.Context) (int, error) { return 0, errRead }); !errors.Is(err, errRead) {
			t.Errorf("%v, want the read's own error", err)
		}
		if holdOf(t, t.Context(), "", "") != nil {
			t.Error("a subscriber that nobody holds is held")
		}
	})
}

func TestPausesAreNoIdleness(t *testing.T) {
	for _, tt := range []struct {
		stall, slow string
		want        time.Duration
	}{
		{"", "", 0},
		{"0:1s:7s", "", 7 * time.Second},
		{"", "*:64KiB", time.Second}, // a frame of 64 KiB
		{"0:1s:7s", "*:8KiB", 8 * time.Second},
		{"", "*:1", time.Hour},
	} {
		c := workload.Case{Payload: 256}
		for text, v := range map[string]interface{ Set(string) error }{tt.stall: &c.Stall, tt.slow: &c.Slow} {
			if text == "" {
				continue
			}
			if err := v.Set(text); err != nil {
				t.Fatal(err)
			}
		}
		if got := planOf(t, c).longestPause(); got != tt.want {
			t.Errorf("stall %q, slow %q: %v, want %v", tt.stall, tt.slow, got, tt.want)
		}
	}
}
