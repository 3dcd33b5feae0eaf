package broker

import "time"

// A lane is one stream's queue at checkpoint 4. Its publishes are executed one at a time and in
// the order of their arrival, whatever the number of executors. The ingress's lock guards it.
type lane struct {
	stream uint64 // its id
	queue  *workQueue
	tenant *tenant
	// execute publishes a batch and reports whether it is parked, that is, waits for subscribers;
	// then wait.ready comes when it no longer does.
	execute func(b *batch, w *waiter) (parked bool)
	wait    waiter

	link    link[lane] // in the tenant's ready lanes
	waiting chain[batch]
	state   laneState

	current  *batch // being executed or parked
	moved    bool   // wait.ready came before execute returned
	parkedAt time.Time

	dropped, rejected uint64 // messages, at 3 and 4
}

type laneState uint8

const (
	laneIdle    laneState = iota // nothing queued
	laneReady                    // waits for an executor, with something queued
	laneRunning                  // an executor has it
	laneParked                   // its publish waits for subscribers; it occupies no executor
)

// A tenant is its lanes of one work queue, and its part of checkpoint 4.
type tenant struct {
	name   string
	counts *tenantCounts // of the tenant in all queues

	link    link[tenant] // in the queue's active tenants: those with a ready lane
	ready   chain[lane]
	backlog int   // batches queued in its lanes
	deficit int64 // bytes that it may still have executed in its turn
	inTurn  bool  // its turn goes on, though no lane was ready for a moment

	slots   int              // it holds
	waiting chain[admission] // those that queued without a slot
}

// A slot is what a queued batch counts at checkpoint 4.
type slot uint8

const (
	slotNone   slot = iota // it goes to an idle executor at once, or its reader waits for a slot
	slotHeld               // one of its tenant's, or a borrowed one
	slotDirect             // none, but it has the word of an idle shard
)

// A workQueue is the publishes that one set of executors takes from: the broker's, or a shard's.
// The ingress's lock guards it.
//
// Of its bound each tenant has depth slots for itself, and what is left over is lent to whoever
// comes, so that a tenant below its own depth always finds room and the bound holds.
type workQueue struct {
	shard   *shard // nil: executors are goroutines on demand
	permits int    // publishes executed at once
	running int    // permits in use
	called  int    // of them, executors that have not looked for work yet
	execute func() // what an executor does: made once, as "go f(x)" would make one for each start
	direct  int    // batches with slotDirect

	depth    int // of each tenant
	lendable int
	lent     int
	queued   int // slots held
	high     int // the most there were
	waiting  int // admissions in the tenants' waiting

	tenants []*tenant
	active  chain[tenant]
	ready   int // lanes
}

// bound is how many batches may be queued.
func (q *workQueue) bound() int { return q.depth*len(q.tenants) + q.lendable }

// room reports whether a batch of the tenant finds a slot.
func (q *workQueue) room(t *tenant) bool { return t.slots < q.depth || q.lent < q.lendable }

// takeSlot takes one; there is room.
func (q *workQueue) takeSlot(t *tenant) {
	if t.slots >= q.depth {
		q.lent++
	}
	t.slots++
	q.queued++
	q.high = max(q.high, q.queued)
}

func (q *workQueue) freeSlot(t *tenant) {
	t.slots--
	q.queued--
	if t.slots >= q.depth {
		q.lent--
	}
}

// idle reports whether a batch of the lane would be executed at once, before anything else.
func (q *workQueue) idle(l *lane) bool {
	return l.state == laneIdle && q.ready == 0 && q.running+q.direct < q.permits
}

// push queues a batch in its lane.
func (q *workQueue) push(l *lane, b *batch) {
	t := l.tenant
	if t.backlog == 0 {
		t.deficit, t.inTurn = drrQuantum, false
	}
	t.backlog++
	l.waiting.pushBack(b, &b.way.link)
	if l.state == laneIdle {
		q.makeReady(l)
	}
}

// makeReady puts a lane with something queued in front of the executors.
func (q *workQueue) makeReady(l *lane) {
	t := l.tenant
	l.state = laneReady
	t.ready.pushBack(l, &l.link)
	q.ready++
	switch {
	case t.link.in != nil:
	case t.inTurn:
		q.active.pushFront(t, &t.link)
	default:
		q.active.pushBack(t, &t.link)
	}
}

// withdraw takes a queued batch out of its lane: its reader gave up.
func (q *workQueue) withdraw(l *lane, b *batch) {
	b.way.link.unlink()
	q.shrink(l.tenant)
	if l.state == laneReady && l.waiting.n == 0 {
		l.state = laneIdle
		q.unready(l)
	}
}

// shrink counts one batch less in the tenant's lanes.
func (q *workQueue) shrink(t *tenant) {
	if t.backlog--; t.backlog == 0 {
		t.deficit, t.inTurn = 0, false
	}
}

// unready takes a lane from in front of the executors.
func (q *workQueue) unready(l *lane) {
	t := l.tenant
	l.link.unlink()
	q.ready--
	if t.ready.n == 0 {
		t.link.unlink()
		t.inTurn = t.backlog > 0
	}
}

// drrQuantum is what a tenant may have executed in one turn, in bytes: long enough to be worth a
// turn, short enough that a tenant with one small publish waits for 64 KiB of each other.
const drrQuantum = 64 << 10

// pick takes the lane whose turn it is and its oldest batch, by deficit round robin between the
// tenants and one batch at a time between the lanes of a tenant. It returns nil if none is ready.
func (q *workQueue) pick() (*lane, *batch) {
	for looked := 0; q.active.n > 0; looked++ {
		t := q.active.first()
		l := t.ready.first()
		b := l.waiting.first()
		if b.way.held <= t.deficit {
			t.deficit -= b.way.held
			b.way.link.unlink()
			q.shrink(t)
			q.unready(l)
			l.state, l.current = laneRunning, b
			return l, b
		}
		if looked == q.active.n {
			q.skipTurns()
			looked = 0
		}
		t.deficit += drrQuantum
		t.link.unlink()
		q.active.pushBack(t, &t.link)
	}
	return nil, nil
}

// skipTurns lets as many turns pass as none of the active tenants could use, all having large
// batches: 16 MiB would take 256 rounds one by one.
func (q *workQueue) skipTurns() {
	turns := int64(-1)
	for l := q.active.head; l != nil; l = l.next {
		t := l.owner
		need := (t.ready.first().waiting.first().way.held - t.deficit - 1) / drrQuantum // short of one
		if turns < 0 || need < turns {
			turns = need
		}
	}
	for l := q.active.head; l != nil && turns > 0; l = l.next {
		l.owner.deficit += turns * drrQuantum
	}
}
