package broker

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// TestRoundRobin: a tenant that floods does not keep another's publishes from being admitted, nor
// from being executed after a turn of 64 KiB.
func TestRoundRobin(t *testing.T) {
	for _, size := range []int64{1000, 30_000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{PubWorkers: 1, PubInflightBytes: 1 << 40, PubConnInflightBytes: 1 << 40, PubQueueDepth: 500})
				g := gate{pass: make(chan struct{})}
				flood, quiet := b.lane("flood", g.execute), b.lane("quiet", g.execute)
				conn := b.conn()
				r := b.reader(conn)
				go r.publish(flood, r.batch(size, 1), enqueueDrop, nil, 0) // has the executor
				synctest.Wait()
				w := b.reader(conn)
				shed := 0
				for range 2000 {
					if w.publish(flood, w.batch(size, 1), enqueueDrop, nil, 0) != reasonNone {
						shed++
					}
				}
				const quiets = 20
				for range quiets {
					if why := w.publish(quiet, w.batch(1000, 2), enqueueDrop, nil, 0); why != reasonNone {
						t.Fatalf("the quiet tenant was refused: reason %d", why)
					}
				}
				if shed == 0 {
					t.Error("the flood was admitted whole: the test tests nothing")
				}
				close(g.pass)
				<-b.empty()
				// One turn of the quiet tenant takes all its 20 KB. Before it the other has at most its
				// turn and what begins within it.
				at := 0
				order := g.order()
				for i, n := range order {
					if n == 2 {
						at = i
					}
				}
				if limit := int64(drrQuantum + 2*size); int64(at-quiets)*size > 2*limit {
					t.Errorf("the quiet tenant was done after %d publishes of %d bytes of the other", at-quiets, size)
				}
				b.wantEmpty(t, conn)
			})
		})
	}
}

// Large publishes of two tenants share by bytes: 10 of 1 MiB weigh as much as 40 of 256 KiB.
func TestRoundRobinByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{PubWorkers: 1, PubInflightBytes: 1 << 40, PubConnInflightBytes: 1 << 40, PubQueueDepth: 500})
		g := gate{pass: make(chan struct{})}
		l1, l2 := b.lane("one", g.execute), b.lane("two", g.execute)
		conn := b.conn()
		r := b.reader(conn)
		go r.publish(l1, r.batch(1, 3), enqueueDrop, nil, 0)
		synctest.Wait()
		w := b.reader(conn)
		for range 100 {
			w.publish(l1, w.batch(1<<20, 1), enqueueDrop, nil, 0)
			w.publish(l2, w.batch(256<<10, 2), enqueueDrop, nil, 0)
		}
		close(g.pass)
		<-b.empty()
		var bytes [3]int
		for _, n := range g.order()[1:51] {
			bytes[n] += map[int]int{1: 1 << 20, 2: 256 << 10}[n]
		}
		if d := bytes[1] - bytes[2]; d < -2<<20 || d > 2<<20 {
			t.Errorf("of the first 50 publishes one has %d bytes, the other %d", bytes[1], bytes[2])
		}
		b.wantEmpty(t, conn)
	})
}

// TestGuaranteedDepth: the bound of checkpoint 4 is max(depth x workers, depth x tenants); each
// tenant finds its depth, whatever the others have taken.
func TestGuaranteedDepth(t *testing.T) {
	for _, tt := range []struct{ tenants, workers, depth, first int }{
		{1, 4, 10, 40}, // all there is
		{2, 4, 10, 30}, // its own and what is lent
		{4, 4, 10, 10},
		{6, 2, 10, 10},
	} {
		b := newBench(t, Config{PubWorkers: tt.workers, PubQueueDepth: tt.depth})
		conn := b.conn()
		r := b.reader(conn)
		var moves []func()
		for i := range tt.tenants {
			_, move := b.stuck(fmt.Sprint(i))
			moves = append(moves, move)
		}
		for i, l := range b.lanes {
			admitted := -1 // the one that parks has no place
			for r.publish(l, r.batch(10, 1), enqueueDrop, nil, 0) == reasonNone {
				admitted++
			}
			if want := tt.depth; i == 0 && admitted != tt.first || i > 0 && admitted != want {
				t.Errorf("%+v: tenant %d has %d admitted", tt, i, admitted)
			}
		}
		for b.pendingNow() > 0 {
			for _, m := range moves {
				m()
			}
		}
		q := b.queues[0]
		if want := max(tt.depth*tt.workers, tt.depth*tt.tenants); q.bound() != want || q.high > want {
			t.Errorf("%+v: bound %d, high water %d, want %d", tt, q.bound(), q.high, want)
		}
		b.wantEmpty(t, conn)
	}
}
