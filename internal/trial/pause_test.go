package trial

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// A generator that paused kept its processor, and where a process ran one goroutine at once, everybody
// else waited for up to 10 ms: in an open loop every message was milliseconds late by the instrument.
func TestPauseLeavesTheProcessorToOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := newPauser()
	defer p.close()
	const pauses, length = 20, 200 * time.Microsecond
	var ran atomic.Int64
	calls := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range calls {
			ran.Add(1)
		}
	}()
	inTime, short := 0, 0
	for range pauses {
		// The runtime's monitor, which takes processors away, looks every 20 us until it has found
		// nothing to take for a while of work, and then every 10 ms.
		for busy := time.Now(); time.Since(busy) < 30*time.Millisecond; {
		}
		before := ran.Load()
		calls <- struct{}{} // somebody has work now
		began := time.Now()
		p.pause(length)
		if time.Since(began) < length/2 {
			short++
		}
		if ran.Load() > before {
			inTime++
		}
	}
	close(calls)
	<-done
	if inTime < pauses*9/10 {
		t.Errorf("in %d of %d pauses another goroutine got to run", inTime, pauses)
	}
	if short > pauses/10 {
		t.Errorf("%d of %d pauses took less than half of %v", short, pauses, length)
	}
}
