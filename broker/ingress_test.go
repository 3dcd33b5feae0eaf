package broker

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A bench is an ingress with lanes whose publishes a test executes.
type bench struct {
	*ingress
	pool  batchPool
	lanes []*lane
}

func newBench(t testing.TB, cfg Config) *bench {
	t.Helper()
	cfg, err := cfg.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{ingress: newIngress(&cfg)}
}

func (b *bench) lane(tenant string, execute func(*batch, *waiter) bool) *lane {
	l := new(lane)
	b.addLane(l, uint64(len(b.lanes)), tenant, execute)
	b.lanes = append(b.lanes, l)
	return l
}

// A reader is a client stream of a connection.
type reader struct {
	bench *bench
	conn  *budget
	wait  admission
}

func (b *bench) conn() *budget { return &budget{max: b.cfg.PubConnInflightBytes} }

func (b *bench) reader(conn *budget) *reader {
	return &reader{bench: b, conn: conn, wait: admission{admitted: make(chan struct{}, 1)}}
}

// batch makes one of a size and with a number, which it wears as its count of messages.
func (r *reader) batch(size int64, number int) *batch {
	b := r.bench.pool.get(100)
	b.count = number
	b.way.held, b.way.conn = size, r.conn
	return b
}

// publish submits a batch and waits if it must, until done is closed or the time is up.
func (r *reader) publish(l *lane, b *batch, policy enqueuePolicy, done <-chan struct{}, timeout time.Duration) reason {
	why, waits := r.bench.submit(b, l, policy, &r.wait)
	if waits {
		var expired <-chan time.Time
		if timeout > 0 {
			timer := time.NewTimer(timeout)
			defer timer.Stop()
			expired = timer.C
		}
		gone := false
		select {
		case <-r.wait.admitted:
			return reasonNone
		case <-done:
			gone = true
		case <-expired:
		}
		why = r.bench.giveUp(&r.wait, gone)
	}
	if why != reasonNone {
		b.release()
	}
	return why
}

// wantEmpty checks that nothing is left of anything.
func (b *bench) wantEmpty(t *testing.T, conns ...*budget) {
	t.Helper()
	<-b.empty()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all.held != 0 || b.all.line.n != 0 || b.counts.waiting != 0 {
		t.Errorf("%d bytes held, %d in line, %d waiting; want nothing", b.all.held, b.all.line.n, b.counts.waiting)
	}
	for i, c := range conns {
		if c.held != 0 || c.line.n != 0 {
			t.Errorf("connection %d: %d bytes held, %d in line", i, c.held, c.line.n)
		}
	}
	for i, q := range b.queues {
		if q.queued+q.lent+q.ready+q.running+q.called+q.direct+q.waiting+q.active.n != 0 {
			t.Errorf("queue %d: %+v", i, q)
		}
		for _, tn := range q.tenants {
			if tn.slots+tn.backlog+tn.waiting.n+tn.ready.n != 0 {
				t.Errorf("queue %d, tenant %s: %+v", i, tn.name, tn)
			}
		}
	}
	if live := b.pool.live.Load(); live != 0 {
		t.Errorf("%d batches live", live)
	}
}

// gate executes publishes one by one as they are let through, and records their numbers.
type gate struct {
	pass chan struct{}
	mu   sync.Mutex
	seen []int
}

func (g *gate) execute(b *batch, _ *waiter) bool {
	g.mu.Lock()
	g.seen = append(g.seen, b.count)
	g.mu.Unlock()
	<-g.pass
	return false
}

func (g *gate) order() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]int(nil), g.seen...)
}

// stuck makes a lane whose publishes park, and the function that lets the parked one go on.
func (b *bench) stuck(tenant string) (l *lane, move func()) {
	var parked atomic.Pointer[waiter]
	l = b.lane(tenant, func(_ *batch, w *waiter) bool {
		w.pending.Store(1)
		parked.Store(w)
		return true
	})
	return l, func() {
		if w := parked.Swap(nil); w != nil {
			w.done()
		}
	}
}

// An idle ingress executes a publish in the goroutine that submits it.
func TestInline(t *testing.T) {
	b := newBench(t, Config{})
	ran := 0 // without a lock: -race tells if another goroutine runs it
	l := b.lane("a", func(*batch, *waiter) bool { ran++; return false })
	conn := b.conn()
	r := b.reader(conn)
	for i := range 100 {
		if why := r.publish(l, r.batch(100, 1), enqueueDrop, nil, 0); why != reasonNone || ran != i+1 {
			t.Fatalf("publish %d: reason %d, %d executed", i, why, ran)
		}
	}
	if b.counts.inline.count != 100 || b.queues[0].high != 0 {
		t.Errorf("%d in line, high water %d", b.counts.inline.count, b.queues[0].high)
	}
	b.wantEmpty(t, conn)
}

// A publish that waits for room may be let in before its executor knows that it is parked.
func TestMovedBeforeParked(t *testing.T) {
	b := newBench(t, Config{PubWorkers: 1})
	l := b.lane("a", func(_ *batch, w *waiter) bool {
		w.pending.Store(1)
		w.done()
		return true
	})
	conn := b.conn()
	r := b.reader(conn)
	for range 3 {
		if why := r.publish(l, r.batch(100, 1), enqueueDrop, nil, 0); why != reasonNone {
			t.Errorf("reason %d", why)
		}
		b.wantEmpty(t, conn)
	}
}

// TestPoliciesWithoutRoom: what each policy makes of a publish for which each bound has no room.
func TestPoliciesWithoutRoom(t *testing.T) {
	for _, tt := range []struct {
		why   reason
		cfg   Config
		bytes int64
	}{
		{reasonConnBytes, Config{PubConnInflightBytes: 1000}, 600},
		{reasonBytes, Config{PubInflightBytes: 1000}, 600},
		{reasonItems, Config{PubQueueDepth: 1, PubWorkers: 1}, 10},
	} {
		for _, policy := range []enqueuePolicy{enqueueDrop, enqueueFail, enqueueWait, enqueueBackpressure} {
			t.Run(reasonNames[tt.why]+"/"+enqueueNames[policy], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { withoutRoom(t, tt.cfg, tt.why, policy, tt.bytes) })
			})
		}
	}
}

func withoutRoom(t *testing.T, cfg Config, why reason, policy enqueuePolicy, size int64) {
	b := newBench(t, cfg)
	l, move := b.stuck("a")
	conn, other := b.conn(), b.conn()
	first := b.reader(conn)
	// The first is parked. With items the second has the only slot.
	before := 1
	if why == reasonItems {
		before = 2
	}
	for range before {
		if got := first.publish(l, first.batch(size, 1), enqueueDrop, nil, 0); got != reasonNone {
			t.Fatalf("the first: %d", got)
		}
	}
	if why == reasonBytes {
		conn = other // the bound of all, not of one connection
	}
	r := b.reader(conn)
	began := time.Now()
	try := func(done <-chan struct{}, timeout time.Duration) reason {
		return r.publish(l, r.batch(size, 7), policy, done, timeout)
	}
	var got reason
	var dropped, rejected, gone, accepted uint64
	switch policy {
	case enqueueDrop:
		got, dropped = try(nil, 0), 7
	case enqueueFail:
		got, rejected = try(nil, 0), 7
	case enqueueWait:
		got, rejected = try(nil, 2*time.Second), 7
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("waited for %v", waited)
		}
		// There is room in time.
		time.AfterFunc(time.Second, move)
		time.AfterFunc(time.Second+1, move)
		if again := try(nil, 2*time.Second); again != reasonNone {
			t.Errorf("with room after a second: reason %d", again)
		}
		accepted = 7
	case enqueueBackpressure:
		done := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(done) })
		got, gone = try(done, 0), 7
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("waited for %v", waited)
		}
		time.AfterFunc(time.Hour, move)
		time.AfterFunc(time.Hour+1, move)
		if again := try(nil, 0); again != reasonNone {
			t.Errorf("with room after an hour: reason %d", again)
		}
		accepted = 7
	}
	if got != why {
		t.Errorf("reason %d, want %d", got, why)
	}
	for b.pendingNow() > 0 {
		move()
		synctest.Wait()
	}
	c := b.counts
	want := ingressCounts{received: uint64(before) + dropped + rejected + gone + accepted, accepted: uint64(before) + accepted, rejected: rejected, dropped: dropped + gone}
	if c.received != want.received || c.accepted != want.accepted || c.rejected != want.rejected || c.dropped != want.dropped {
		t.Errorf("counted %+v, want %+v", c, want)
	}
	tc := b.tenants["a"]
	if tc.dropped[why] != dropped || tc.rejected[why] != rejected || tc.gone[why] != gone || l.dropped != dropped+gone || l.rejected != rejected {
		t.Errorf("counted by reason %+v, lane %d dropped, %d rejected", tc, l.dropped, l.rejected)
	}
	if policy >= enqueueWait && (c.blocked[why.checkpoint()].Total() == 0 || c.waits.Total() != 2) {
		t.Errorf("waits: %+v", c)
	}
	b.wantEmpty(t, conn)
}

func (b *bench) pendingNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pending
}

// A publish larger than a whole budget passes when nothing else is held, and meanwhile nothing
// else does.
func TestOversize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{PubConnInflightBytes: 1000, PubInflightBytes: 2000})
		l, move := b.stuck("a")
		conn := b.conn()
		r, s := b.reader(conn), b.reader(conn)
		if why := r.publish(l, r.batch(5000, 1), enqueueDrop, nil, 0); why != reasonNone {
			t.Fatalf("alone: reason %d", why)
		}
		if why := r.publish(l, r.batch(1, 1), enqueueDrop, nil, 0); why != reasonConnBytes {
			t.Errorf("beside it: reason %d", why)
		}
		o := b.reader(b.conn())
		if why := o.publish(l, o.batch(1, 1), enqueueDrop, nil, 0); why != reasonBytes {
			t.Errorf("beside it, other connection: reason %d", why)
		}
		move()
		if why := r.publish(l, r.batch(10, 1), enqueueDrop, nil, 0); why != reasonNone {
			t.Fatalf("after it: reason %d", why)
		}
		large := make(chan reason)
		go func() { large <- s.publish(l, s.batch(5000, 1), enqueueBackpressure, nil, 0) }()
		synctest.Wait()
		// The small ones that still fit go past, as long as that takes nothing from the large one.
		if why := r.publish(l, r.batch(10, 1), enqueueDrop, nil, 0); why != reasonNone {
			t.Errorf("past a waiting one: reason %d", why)
		}
		move() // the one that it waits for; what went past is all that is left
		synctest.Wait()
		if why := r.publish(l, r.batch(10, 1), enqueueDrop, nil, 0); why != reasonConnBytes {
			t.Errorf("in the way of the large one: reason %d", why)
		}
		move()
		if why := <-large; why != reasonNone {
			t.Errorf("large: reason %d", why)
		}
		for b.pendingNow() > 0 {
			move()
			synctest.Wait()
		}
		b.wantEmpty(t, conn)
	})
}

// TestOrder: publishes of one lane are executed one at a time and in the order in which they were
// admitted, whatever the number of executors.
func TestOrder(t *testing.T) {
	for _, workers := range []int{1, 4} {
		b := newBench(t, Config{PubWorkers: workers, PubIngressWait: true, PubQueueDepth: 3})
		const lanes, readers, each = 3, 4, 500
		var ls []*lane
		for range lanes {
			var busy atomic.Bool
			last := make(map[int]int)
			ls = append(ls, b.lane("a", func(bt *batch, _ *waiter) bool {
				if busy.Swap(true) {
					t.Error("two at a time")
				}
				from, seq := bt.payload, bt.count
				if seq <= last[from] {
					t.Errorf("reader %d: %d after %d", from, seq, last[from])
				}
				last[from] = seq
				busy.Store(false)
				return false
			}))
		}
		var wg sync.WaitGroup
		conn := b.conn()
		for from := range readers {
			wg.Go(func() {
				r := b.reader(conn)
				for i := range each {
					bt := r.batch(100, i+1)
					bt.payload = from
					r.publish(ls[(from+i)%lanes], bt, enqueueBackpressure, nil, 0)
				}
			})
		}
		wg.Wait()
		b.wantEmpty(t, conn)
	}
}
