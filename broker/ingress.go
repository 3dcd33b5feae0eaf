package broker

import (
	"sync"
	"time"
)

// The ingress is checkpoints 3 and 4, as one decision, and the executors behind them.
//
// One lock guards all of it. A publish takes it twice, for some 100 ns: to be admitted, and when
// it has been fanned out. Finer locks would have to be taken together to decide on bytes and items
// at once, and to wake in order those who wait for either.
type ingress struct {
	cfg    *Config
	queues []*workQueue // one, or one for each shard

	mu        sync.Mutex
	all       budget
	pending   int             // accepted and not fanned out yet
	executors int             // goroutines
	emptied   []chan struct{} // closed when both are 0
	counts    ingressCounts
	tenants   map[string]*tenantCounts // fixed
}

// shardFor is the work queue, and so the shard, of a stream: of its publishes and of its
// subscriptions' feeder steps alike. Without shards there is one queue.
func (in *ingress) shardFor(stream uint64) int { return int(stream % uint64(len(in.queues))) }

func newIngress(cfg *Config) *ingress {
	in := &ingress{cfg: cfg, all: budget{max: cfg.PubInflightBytes}, tenants: make(map[string]*tenantCounts)}
	n, permits := cfg.CoreShards, 1
	if n == 0 {
		n, permits = 1, cfg.PubWorkers
	}
	for range n {
		q := &workQueue{permits: permits, depth: cfg.PubQueueDepth}
		q.execute = func() { in.executor(q) }
		in.queues = append(in.queues, q)
	}
	return in
}

// addLane adds a stream's lane. All are added before the first publish.
func (in *ingress) addLane(l *lane, stream uint64, tenantName string, execute func(*batch, *waiter) bool) {
	q := in.queues[in.shardFor(stream)]
	if in.tenants[tenantName] == nil {
		in.tenants[tenantName] = new(tenantCounts)
	}
	var t *tenant
	for _, have := range q.tenants {
		if have.name == tenantName {
			t = have
		}
	}
	if t == nil {
		t = &tenant{name: tenantName, counts: in.tenants[tenantName]}
		q.tenants = append(q.tenants, t)
	}
	n := len(in.queues)
	// Of depth x workers, which shards divide, the tenants have theirs, and the rest is lent.
	q.lendable = max(0, (in.cfg.PubQueueDepth*in.cfg.PubWorkers+n-1)/n-q.depth*len(q.tenants))
	l.stream, l.queue, l.tenant, l.execute = stream, q, t, execute
	l.wait.ready = func() { in.moved(l) }
}

// obstacle is the first bound that has no room for the batch.
func (in *ingress) obstacle(b *batch, l *lane) reason {
	switch q := l.queue; {
	case !b.way.conn.open(b.way.held):
		return reasonConnBytes
	case !in.all.open(b.way.held):
		return reasonBytes
	case !q.idle(l) && !q.room(l.tenant):
		return reasonItems
	}
	return reasonNone
}

// submit offers a publish to checkpoints 3 and 4; b.way has its bytes, connection and receipt. If
// it is admitted, the caller's hold on the batch has gone over to the ingress, and the publish may
// have been executed already, in this goroutine: that is so when an executor was idle and nothing
// else was ready, which saves a hand-over. If it waits, a.admitted or giveUp ends that. Otherwise
// it is refused for the reason returned, and the batch is the caller's.
func (in *ingress) submit(b *batch, l *lane, policy enqueuePolicy, a *admission) (why reason, waits bool) {
	w := &b.way
	q := l.queue
	w.slot, w.waits = slotNone, nil
	in.mu.Lock()
	why = in.obstacle(b, l)
	for tries := 0; why == reasonItems && tries < maxHelp && in.help(q); tries++ {
		why = in.obstacle(b, l)
	}
	if why != reasonNone {
		switch policy {
		case enqueueDrop, enqueueFail:
			in.refuse(b, l, why, policy == enqueueDrop)
		default:
			waits = true
			in.startWait(a, b, l)
		}
		in.mu.Unlock()
		return why, waits
	}
	w.connPass = w.conn.take(w.held)
	w.allPass = in.all.take(w.held)
	in.accept(b)
	switch {
	case !q.idle(l):
		w.slot = slotHeld
		q.takeSlot(l.tenant)
	case q.shard != nil:
		w.slot = slotDirect
		q.direct++
	default:
		q.running++
		l.state, l.current = laneRunning, b
		in.counts.inline.add(loopCount{1, 1, uint64(w.held)})
		in.mu.Unlock()
		in.run(l, b)
		return reasonNone, false
	}
	q.push(l, b)
	in.call(q)
	in.mu.Unlock()
	return reasonNone, false
}

// run executes a publish in its reader's goroutine, which has taken a permit for it.
func (in *ingress) run(l *lane, b *batch) {
	parked := l.execute(b, &l.wait)
	q := l.queue
	in.mu.Lock()
	owed := in.executed(l, parked)
	if q.ready > q.called {
		in.startExecutor(q) // it goes on with this permit: the reader has its stream to read
	} else {
		q.running--
	}
	in.mu.Unlock()
	owed.give("")
}

// maxHelp bounds the publishes that a reader executes before one of its own.
const maxHelp = 16

// help executes one ready publish in the goroutine of a reader that would otherwise find no place
// for its own: when there are more readers than processors, the executor that was called may not
// have come to run yet, and there is nothing to shed or to wait for. It reports whether there was
// one. The lock is held, but not meanwhile.
func (in *ingress) help(q *workQueue) bool {
	if q.shard != nil || q.running == q.permits {
		return false
	}
	l, b := in.begin(q)
	if l == nil {
		return false
	}
	q.running++
	in.mu.Unlock()
	in.run(l, b)
	in.mu.Lock()
	return true
}

// call has the queue's executors look for work.
func (in *ingress) call(q *workQueue) {
	switch {
	case q.ready <= q.called:
	case q.shard != nil:
		q.shard.wake()
	case q.running < q.permits:
		q.running++
		in.startExecutor(q)
	}
}

// startExecutor starts one that has a permit.
func (in *ingress) startExecutor(q *workQueue) {
	q.called++
	in.executors++
	go q.execute()
}

// executor executes what is ready, and ends when nothing is.
func (in *ingress) executor(q *workQueue) {
	in.mu.Lock()
	q.called--
	in.counts.woken.count++
	var owed receipt
	for l, b := in.begin(q); l != nil; l, b = in.begin(q) {
		in.mu.Unlock()
		owed.give("")
		parked := l.execute(b, &l.wait)
		in.mu.Lock()
		owed = in.executed(l, parked)
	}
	q.running--
	in.executors--
	in.checkEmpty()
	in.mu.Unlock()
	owed.give("")
}

// step executes one publish, if one is ready: what a shard does, which has one permit. woken says
// that the shard has slept.
func (in *ingress) step(q *workQueue, woken bool) (worked bool) {
	in.mu.Lock()
	if woken {
		in.counts.woken.count++
	}
	l, b := in.begin(q)
	if l == nil {
		in.mu.Unlock()
		return false
	}
	q.running++
	in.mu.Unlock()
	if hook := q.shard.hook(); hook != nil {
		hook(stepPublish, l.stream, q.shard.index)
	}
	parked := l.execute(b, &l.wait)
	in.mu.Lock()
	q.running--
	owed := in.executed(l, parked)
	in.mu.Unlock()
	owed.give("")
	return true
}

// begin picks a lane and takes its batch off checkpoint 4, or returns nil.
func (in *ingress) begin(q *workQueue) (*lane, *batch) {
	l, b := q.pick()
	if l == nil {
		return nil, nil
	}
	in.counts.woken.add(loopCount{0, 1, uint64(b.way.held)})
	switch b.way.slot {
	case slotHeld:
		q.freeSlot(l.tenant)
		in.grantSlots(q, l.tenant)
	case slotDirect:
		q.direct--
	case slotNone: // its turn came before a slot did
		q.waiting--
		b.way.waits.link.unlink()
		in.admit(b.way.waits)
	}
	return l, b
}

// executed ends the execution of a lane's publish: it is parked, or it is finished, and then the
// receipt is to be given, without the lock.
func (in *ingress) executed(l *lane, parked bool) receipt {
	if parked && !l.moved {
		l.state, l.parkedAt = laneParked, time.Now()
		return receipt{}
	}
	l.moved = false
	return in.finish(l)
}

// moved says that a parked publish no longer waits for any subscriber. It is called with a
// subscriber queue's lock held.
func (in *ingress) moved(l *lane) {
	in.mu.Lock()
	if l.state != laneParked {
		l.moved = true // executed is still to come
		in.mu.Unlock()
		return
	}
	in.counts.parked.add(time.Since(l.parkedAt))
	owed := in.finish(l)
	in.call(l.queue)
	in.mu.Unlock()
	owed.give("")
}

// finish gives back what a publish held that has been fanned out, and lets those in who wait.
func (in *ingress) finish(l *lane) receipt {
	b, owed := l.current, l.current.way.owed
	l.current = nil
	l.state = laneIdle
	if l.waiting.n > 0 {
		l.queue.makeReady(l)
	}
	in.giveAll(b)
	in.giveConn(b)
	b.release()
	in.pending--
	in.checkEmpty()
	return owed
}

func (in *ingress) checkEmpty() {
	if in.pending > 0 || in.executors > 0 {
		return
	}
	for _, c := range in.emptied {
		close(c)
	}
	in.emptied = nil
}

// empty returns a channel that is closed when all that was accepted has been fanned out, and no
// executor is left.
func (in *ingress) empty() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	c := make(chan struct{})
	in.emptied = append(in.emptied, c)
	in.checkEmpty()
	return c
}
