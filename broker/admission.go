package broker

import "time"

// A budget is checkpoint 3: bytes of publishes, from when their frame was read until they have
// been fanned out; one for each connection and one over all. The ingress's lock guards it.
//
// Who finds no room waits in a line. While somebody waits, others may go past only if that does
// not make the first in the line wait longer: if the first would not fit even without all that
// went past it. So a large publish never starves, and one that waits for a stalled stream to move
// does not hold up those that still fit.
type budget struct {
	max, held int64
	high      int64 // the most that was ever held

	line chain[admission]
	// passed are the bytes now held by those that went past the present first of the line, which
	// is the one of turn.
	passed int64
	turn   uint64
}

// fits reports whether n bytes may be held besides held ones. More than the whole budget passes
// alone.
func (b *budget) fits(held, n int64) bool { return held == 0 || held+n <= b.max }

// open reports whether somebody new may take n bytes now.
func (b *budget) open(n int64) bool {
	if !b.fits(b.held, n) {
		return false
	}
	first := b.line.first()
	return first == nil || !b.fits(b.held-b.passed, first.batch.way.held)
}

// take holds n bytes, for which open has said that there is room. The result is what release
// needs to know.
func (b *budget) take(n int64) (pass uint64) {
	b.held += n
	b.high = max(b.high, b.held)
	if b.line.n == 0 {
		return 0
	}
	b.passed += n
	return b.turn + 1
}

// release gives n bytes back that were taken with this pass.
func (b *budget) release(n int64, pass uint64) {
	b.held -= n
	if pass == b.turn+1 && b.line.n > 0 {
		b.passed -= n
	}
}

// join lets somebody wait.
func (b *budget) join(a *admission) {
	if b.line.n == 0 {
		b.newFirst()
	}
	b.line.pushBack(a, &a.link)
}

// leave takes somebody out of the line who gives up.
func (b *budget) leave(a *admission) {
	first := b.line.first() == a
	a.link.unlink()
	if first {
		b.newFirst()
	}
}

// newFirst begins the turn of another first in the line: what is held now is held before it.
func (b *budget) newFirst() {
	b.turn++
	b.passed = 0
}

// next takes the bytes of one who waits and may go on now, and returns it, out of the line; nil
// if there is none. The first in the line is asked first.
func (b *budget) next() (a *admission, pass uint64) {
	first := b.line.first()
	if first == nil {
		return nil, 0
	}
	if b.fits(b.held, first.batch.way.held) {
		b.leave(first)
		b.held += first.batch.way.held
		b.high = max(b.high, b.held)
		return first, 0
	}
	if b.fits(b.held-b.passed, first.batch.way.held) {
		return nil, 0 // only those that went past it are in its way
	}
	for l := b.line.head.next; l != nil; l = l.next {
		if a := l.owner; b.fits(b.held, a.batch.way.held) {
			l.unlink()
			return a, b.take(a.batch.way.held)
		}
	}
	return nil, 0
}

// A reason says which bound had no room.
type reason uint8

const (
	reasonNone reason = iota
	reasonConnBytes
	reasonBytes
	reasonItems
	numReasons
)

// checkpoint is the number of the checkpoint whose bound it is.
func (r reason) checkpoint() int {
	if r == reasonItems {
		return 4
	}
	return 3
}

var reasonNames = [numReasons]string{reasonConnBytes: "conn_bytes", reasonBytes: "bytes", reasonItems: "items"}

// overloaded is the answer to an acked publish that is refused for this reason.
func (r reason) overloaded() string {
	if r == reasonItems {
		return "overloaded: publish_queue_full"
	}
	return "overloaded: publish_bytes_full"
}

// enqueuePolicy is the one decision over checkpoints 3 and 4: what becomes of a publish that finds
// no room.
type enqueuePolicy uint8

const (
	enqueueDrop         enqueuePolicy = iota // shed
	enqueueFail                              // refused
	enqueueWait                              // waits until PublishQueueWait has passed, then refused
	enqueueBackpressure                      // waits for as long as its connection lives
)

var enqueueNames = [...]string{enqueueDrop: "drop", enqueueFail: "fail", enqueueWait: "wait", enqueueBackpressure: "backpressure"}

func (c *Config) enqueuePolicy(acked bool) enqueuePolicy {
	switch {
	case c.PubIngressWait:
		return enqueueBackpressure
	case !acked:
		return enqueueDrop
	case c.AckOnCommit:
		return enqueueWait
	}
	return enqueueFail
}

// enqueuePolicyText names the policies in force, of unacked and acked publishes.
func (c *Config) enqueuePolicyText() string {
	if c.PubIngressWait {
		return enqueueNames[enqueueBackpressure]
	}
	return enqueueNames[c.enqueuePolicy(false)] + "/" + enqueueNames[c.enqueuePolicy(true)]
}

// An admission is how a client stream waits for room for the publish that it has read. It waits
// for one at a time: nothing more is read from its stream meanwhile. The ingress's lock guards all
// but admitted.
type admission struct {
	link  link[admission]
	batch *batch
	lane  *lane
	at    reason    // the bound that it waits for; none: it does not wait
	began time.Time // of the whole wait
	since time.Time // when it began to wait for at
	// admitted receives when the wait is over because there was room. Its capacity is 1.
	admitted chan struct{}
}
