package trial

import (
	"context"
	"fmt"
	"math"
	"time"

	"felix/internal/workload"
)

// Canary slows the system by a known amount, so that whoever judges can be judged: a gate that lets it pass is blind. It
// is no part of the case. The zero value slows nothing.
type Canary struct {
	// Delay is waited after the time in the stamp of every publish, inside what EndToEnd measures. It spins, because a timer is
	// coarser than a fifth of a median. What EndToEnd shows is at least the delay, and more where threads that were
	// still looking for work go to sleep meanwhile: on two cores 18 us made 67 us into 103 us, and into 175 us by
	// nanosleep. Latency cases only: in a flood it would hide behind backpressure.
	Delay time.Duration `json:"delay_ns"`
	// Rate is the most that all publishers together publish, in messages per second; 0 = no limit. Throughput cases only.
	Rate float64 `json:"rate"`
}

// check refuses what the case would not show.
func (y Canary) check(c *workload.Case) error {
	const hint = "matrix ab --canary chooses the one that fits the case"
	switch {
	case y.Delay < 0 || y.Delay > time.Second:
		return usage(hint, "canary: delay %v: want more than 0 and at most 1s", y.Delay)
	case !(y.Rate >= 0) || math.IsInf(y.Rate, 0):
		return usage(hint, "canary: rate %v: want messages per second, more than 0", y.Rate)
	case y.Delay > 0 && c.Throughput():
		return usage(hint, "canary: a delay hides behind the backpressure of a throughput case: hold its rate")
	case y.Rate > 0 && !c.Throughput():
		return usage(hint, "canary: a latency case has no rate to hold: delay its messages")
	}
	return nil
}

// warning is what the record says of it; "" for no canary.
func (y Canary) warning() string {
	switch {
	case y.Delay > 0:
		return fmt.Sprintf("canary: every publish was delayed by %v after the time in its stamp, by intention", y.Delay)
	case y.Rate > 0:
		return fmt.Sprintf("canary: the publishers were held to %.1f messages/s, by intention", y.Rate)
	}
	return ""
}

// brake is a canary as one generator obeys it, in one phase.
type brake struct {
	delay int64 // ns
	every int64 // ns between messages; 0 = no limit
	next  int64 // when the next batch may leave
}

func (g *generator) newBrake() brake {
	y := g.canary
	b := brake{delay: int64(y.Delay)}
	if y.Rate > 0 {
		b.every = int64(float64(g.plan.Publishers) / y.Rate * 1e9)
		b.next = g.clock.Now()
	}
	return b
}

// hold waits until n more messages may leave. What was late is not caught up with: a stall is no credit. It reports
// false if ctx ended the wait.
func (b *brake) hold(ctx context.Context, g *generator, n int) bool {
	if b.every == 0 {
		return true
	}
	if !g.sleepUntil(ctx, b.next) {
		return false
	}
	const most = int64(5 * time.Millisecond) // of lateness, so that a timer's own is made up for
	b.next = max(b.next, g.clock.Now()-most) + int64(n)*b.every
	return true
}

// delayAfter spends the delay, which begins with the time that the stamp will tell.
func (b *brake) delayAfter(g *generator, sent int64) {
	if b.delay == 0 {
		return
	}
	for g.clock.Now() < sent+b.delay {
	}
}
