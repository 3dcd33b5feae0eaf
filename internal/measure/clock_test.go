package measure_test

import (
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/measure"
)

func TestClockOnThisMachine(t *testing.T) {
	a, b := measure.NewClock(), measure.NewClock()
	// b's reading lies between two of a's, up to the error of both bases.
	slack := a.Check().BaseErrorNs + b.Check().BaseErrorNs
	before, x, after := a.Now(), b.Now(), a.Now()
	if x < before-slack || x > after+slack {
		t.Errorf("second clock reads %d between %d and %d of the first, error %d", x, before, after, slack)
	}
	if before <= 0 {
		t.Errorf("Now = %d, want the machine's clock, above 0", before)
	}
	c := a.Check()
	if c.BaseErrorNs < 0 || c.CheckErrorNs < 0 || c.Source == "" {
		t.Errorf("Check = %+v, want error bounds and a source", c)
	}
	if limit := c.BaseErrorNs + c.CheckErrorNs + int64(time.Millisecond); c.DriftNs > limit || c.DriftNs < -limit {
		t.Errorf("drift %d ns right after start, error %d", c.DriftNs, limit)
	}
}

func TestClockFollowsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := measure.NewClock()
		start, at := c.Now(), time.Now()
		time.Sleep(3 * time.Second) // fake time
		if got := c.Now() - start; got != int64(3*time.Second) {
			t.Errorf("3 s later Now is %d ns further", got)
		}
		if got := c.At(at); got != start {
			t.Errorf("At(start) = %d, want %d", got, start)
		}
	})
}
