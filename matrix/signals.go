package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// stops are the two ways to be asked to stop. soft ends at the first Ctrl-C or SIGTERM: the trial in flight drains and
// is recorded, no other begins. hard ends at the second: the trial in flight is killed and leaves nothing.
type stops struct{ soft, hard context.Context }

// watchSignals returns the stops, and what gives the signals back and waits for the watcher. say is called on the
// watcher's goroutine.
func watchSignals(say func(string)) (stops, func()) {
	soft, cancelSoft := context.WithCancel(context.Background())
	hard, cancelHard := context.WithCancel(context.Background())
	got := make(chan os.Signal, 4)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-quit:
				return
			case <-got:
			}
			switch n {
			case 0:
				cancelSoft()
				say("interrupted: a trial in flight drains and is recorded, nothing else begins; once more quits at once")
			case 1:
				cancelSoft()
				cancelHard()
			default:
				os.Exit(exitInvalid)
			}
		}
	}()
	return stops{soft, hard}, func() {
		signal.Stop(got)
		close(quit)
		<-done
		cancelSoft()
		cancelHard()
	}
}
