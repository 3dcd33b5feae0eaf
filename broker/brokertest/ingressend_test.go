package brokertest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"felix/broker"
	"felix/internal/transport"
	"felix/internal/wire"
)

// TestGoneWhileWaiting: waiting for room ends with the connection, and what waited is counted.
func TestGoneWhileWaiting(t *testing.T) {
	for _, commit := range []bool{false, true} {
		cfg := stalling(broker.Config{PubIngressWait: true, AckOnCommit: commit, PubQueueDepth: 1, PubWorkers: 1})
		run(t, fmt.Sprintf("commit %v", commit), cfg, func(t *testing.T, n *Net) {
			ev, first := stall(t, n, n.Control(n.Dial()), Demo)
			c := n.Dial()
			p, q := n.Control(c), n.Control(c)
			p.PublishAcked(1, Demo, "has the place")
			wait(10)
			p.PublishAcked(2, Demo, "waits", "waits")
			q.Publish(Demo, "waits", "waits", "waits")
			settle()
			if st := n.Broker.Stats(); st.Ingress.Waiting != 2 {
				t.Fatalf("%+v", st.Ingress)
			}
			c.Close(transport.CodeDone, "")
			settle()
			st := n.Broker.Stats()
			checkIngress(t, st)
			if st.Ingress.Waiting != 0 || st.Flow.IngressDroppedMsgs != 5 || dropped(st, "gone") != 5 || st.Ingress.Counts[0].Checkpoint != 4 {
				t.Errorf("%+v, %+v", st.Ingress, st.Flow)
			}
			if got := count(ev, first+1); got != first+1 {
				t.Errorf("%d arrived", got)
			}
			settle()
			wantIdle(t, n)
		})
	}
}

// TestShutdownRunsEmpty: what was accepted is published and written, also what waits in a parked
// lane and what waits for a place; commit acks are sent.
func TestShutdownRunsEmpty(t *testing.T) {
	cfg := stalling(broker.Config{PubIngressWait: true, AckOnCommit: true, AckWait: time.Hour, PubQueueDepth: 3})
	everywhere(t, "lossless", cfg, func(t *testing.T, n *Net) {
		ev, first := stall(t, n, n.Control(n.Dial()), Demo)
		p := n.Control(n.Dial())
		var all []byte
		const sent = 20
		for i := range uint64(sent) {
			all = append(all, acked(i, Demo, "x")...)
		}
		p.Raw(all) // one packet, and so one Read
		settle()
		done := make(chan uint64, 1)
		go func() {
			discarded, err := n.Broker.Shutdown(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- discarded
		}()
		wait(1)
		if got := count(ev, first+sent); got != first+sent {
			t.Errorf("%d arrived, want %d", got, first+sent)
		}
		ev.WantEnd()
		for i := range uint64(sent) {
			p.Want(wire.PublishAck{RequestID: i, OK: true})
		}
		if d := <-done; d != 0 {
			t.Errorf("discarded %d", d)
		}
		wantIdle(t, n)
	})
	everywhere(t, "deadline", cfg, func(t *testing.T, n *Net) {
		_, first := stall(t, n, n.Control(n.Dial()), Demo)
		p := n.Control(n.Dial())
		for i := range uint64(50) {
			p.PublishAcked(i, Demo, "x", "y")
		}
		settle()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		discarded, err := n.Broker.Shutdown(ctx)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("shutdown: %v", err)
		}
		// Nothing was written whole, and so all that was accepted is discarded.
		if want := n.Broker.Stats().Flow.AcceptedMsgs; discarded != want || want <= uint64(first) {
			t.Errorf("discarded %d, want %d", discarded, want)
		}
		wantIdle(t, n)
	})
}
