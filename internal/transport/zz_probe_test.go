package transport

import (
	"context"
	"testing"
	"time"
)

func TestZZProbe(t *testing.T) {
	id := newIdentity(t)
	l := listen(t, id, Config{Monitor: NewMonitor(time.Millisecond)})
	notAccepted, notDone := 0, 0
	for i := range 150 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		accepted := make(chan *Conn, 1)
		go func() {
			c, err := l.Accept(ctx)
			if err != nil {
				c = nil
			}
			accepted <- c
		}()
		c, err := Dial(t.Context(), l.Addr().String(), id.client, Config{Monitor: NewMonitor(time.Millisecond)})
		if err != nil {
			t.Fatal(i, err)
		}
		closeConn(t, c)
		a := <-accepted
		cancel()
		if a == nil {
			notAccepted++
			continue
		}
		select {
		case <-a.done:
		case <-time.After(5 * time.Second):
			notDone++
			t.Logf("iter %d: not done, ctx err %v", i, context.Cause(a.Context()))
		}
	}
	t.Logf("never accepted %d, never done %d of 150", notAccepted, notDone)
}
