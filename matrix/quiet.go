package main

import (
	"context"
	"fmt"
	"time"

	"felix/internal/host"
)

// quietWindow is how long the machine is watched before it is called quiet.
const quietWindow = time.Second

// waitQuiet watches the machine until a window of it is quiet, or the limit is reached: then the trial runs all the
// same, and is graded by what happens during it. It returns early when ctx is done.
func waitQuiet(ctx context.Context, limit time.Duration, say func(string)) {
	if limit <= 0 {
		return
	}
	deadline := time.Now().Add(limit)
	for said := false; ; said = true {
		watch := host.StartNoise()
		pause(ctx, quietWindow)
		n := watch.Stop(0) // our own share of it is next to nothing
		switch {
		case ctx.Err() != nil:
			return
		case n.Grade == nil:
			say("cannot tell whether the machine is quiet: " + n.Unavailable)
			return
		case *n.Grade == host.Quiet:
			return
		case !time.Now().Before(deadline):
			say(fmt.Sprintf("still %s after %v: the trial runs all the same", noiseText(n), limit))
			return
		case !said:
			say(fmt.Sprintf("waiting up to %v for a quiet machine: %s", limit, noiseText(n)))
		}
	}
}

func noiseText(n host.Noise) string {
	return fmt.Sprintf("%s (others %.0f %% of the CPU, steal %.0f %%)", *n.Grade, 100**n.OthersCPU, 100**n.Steal)
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
