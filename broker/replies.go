package broker

import (
	"io"
	"sync"
	"time"

	"felix/internal/wire"
)

// replies are what a client stream owes its client, in the order of the requests.
//
// When publishes are acked as they are accepted, every reply is known when its request has been
// read, and the reader alone adds and writes them. With commit acks some are known later, by
// whoever fanned the publish out, who must not wait for the client to read them: if the reader is
// about to write them anyway, they are left to it, otherwise a goroutine is started that writes
// until nothing is left.
type replies struct {
	send    replyWriter   // nil: nobody is owed anything
	commit  bool          // with commit acks; otherwise all but out is unused, and mu too
	ackWait time.Duration // for a commit ack

	mu      sync.Mutex
	changed sync.Cond // L is mu; whenever something moved that drain or flush may wait for
	out     []byte    // ready to be written
	spare   []byte

	debts    []debt // not known yet, and what stands behind such a one; from head on
	head     int
	firstSeq uint64 // of debts[head]
	raw      int    // bytes of known replies in debts

	attended bool // the reader will flush before it waits for anything
	writing  bool // somebody is in Write
	dead     bool // nothing more can be written
	timer    *time.Timer
	timing   bool // timer runs
}

// replyWriter is the sending half of a QUIC stream.
type replyWriter interface {
	io.Writer
	TryWriteAll(p []byte) error
}

// A debt is a reply that is not in out yet.
type debt struct {
	answer   answer
	known    bool
	err      string // of a known answer
	raw      []byte // in place of an answer
	deadline time.Time
}

// An answer is the form of the reply to a publish. The zero value is none.
type answer struct {
	form answerForm
	id   uint64
}

type answerForm uint8

const (
	answerNone answerForm = iota
	answerBinary
	answerJSON
)

// append appends the reply; err is empty if the publish is acked.
func (a answer) append(dst []byte, err string) []byte {
	switch {
	case a.form == answerBinary:
		return wire.PublishAck{RequestID: a.id, Err: err, OK: err == ""}.Append(dst)
	case a.form == answerJSON && err == "":
		return wire.AppendMessage(dst, wire.PublishOK{RequestID: a.id})
	case a.form == answerJSON:
		return wire.AppendMessage(dst, wire.PublishError{RequestID: a.id, Message: err})
	}
	return dst
}

// A receipt is the commit ack that a publish carries with it. The zero value is none.
type receipt struct {
	to  *replies
	seq uint64
}

// give says what has become of the publish. It does not block.
func (r receipt) give(err string) {
	if r.to != nil {
		r.to.settle(r.seq, err)
	}
}

// replyBacklog is how many bytes of replies may wait for others before no further request is read.
const replyBacklog = 4 * replyBytes

// message owes the client a message.
func (r *replies) message(m wire.Message) {
	switch {
	case r.send == nil:
	case !r.commit:
		r.out = wire.AppendMessage(r.out, m)
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.owing() == 0 {
			r.out = wire.AppendMessage(r.out, m)
			return
		}
		raw := wire.AppendMessage(nil, m)
		r.raw += len(raw)
		r.debts = append(r.debts, debt{known: true, raw: raw})
	}
}

// answer owes the client the reply to a publish of which the outcome is known.
func (r *replies) answer(a answer, err string) {
	switch {
	case a.form == answerNone:
	case !r.commit:
		r.out = a.append(r.out, err)
	default:
		r.settle(r.expect(a), err)
	}
}

// expect owes the client an answer that settle will give.
func (r *replies) expect(a answer) (seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head == len(r.debts) {
		r.debts, r.head = r.debts[:0], 0
	} else if r.head >= 64 && 2*r.head >= len(r.debts) {
		r.debts = append(r.debts[:0], r.debts[r.head:]...)
		r.head = 0
	}
	r.debts = append(r.debts, debt{answer: a})
	return r.firstSeq + uint64(len(r.debts)-1-r.head)
}

func (r *replies) owing() int { return len(r.debts) - r.head }

// find returns a debt that is not in out yet, or nil.
func (r *replies) find(seq uint64) *debt {
	if seq < r.firstSeq {
		return nil
	}
	return &r.debts[r.head+int(seq-r.firstSeq)]
}

// limit bounds from now on how long an answer may stay unknown.
func (r *replies) limit(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.find(seq)
	if d == nil || d.known || r.dead {
		return
	}
	d.deadline = time.Now().Add(r.ackWait)
	if !r.timing {
		r.time(r.ackWait)
	}
}

func (r *replies) time(d time.Duration) {
	r.timing = true
	if r.timer == nil {
		r.timer = time.AfterFunc(d, r.expire)
		return
	}
	r.timer.Reset(d)
}

// expire gives up on the answers whose time is up. Their publishes were accepted and will be
// fanned out all the same.
func (r *replies) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timing = false
	if r.dead {
		return
	}
	now := time.Now()
	for i := r.head; i < len(r.debts); i++ {
		d := &r.debts[i]
		if d.known {
			continue
		}
		if d.deadline.IsZero() { // it is not accepted yet, nor is what comes behind it
			break
		}
		if d.deadline.After(now) {
			r.time(d.deadline.Sub(now))
			break
		}
		d.known, d.err = true, "ack timeout: accepted, and not fanned out within "+r.ackWait.String()
	}
	r.moveOn()
}

// settle makes an answer known. It does not block.
func (r *replies) settle(seq uint64, err string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.find(seq)
	if d == nil || d.known || r.dead {
		return // too late
	}
	d.known, d.err = true, err
	if seq == r.firstSeq {
		r.moveOn()
	}
}

// moveOn makes out of the debts what is known up to the first that is not.
func (r *replies) moveOn() {
	for ; r.head < len(r.debts) && r.debts[r.head].known; r.head++ {
		d := &r.debts[r.head]
		r.raw -= len(d.raw)
		r.out = append(r.out, d.raw...)
		r.out = d.answer.append(r.out, d.err)
		*d = debt{}
		r.firstSeq++
	}
	if len(r.out) > 0 && !r.attended && !r.writing && !r.dead {
		r.writing = true
		go func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.write()
		}()
	}
	r.changed.Broadcast()
}

// write writes out until nothing is left of it; mu is held, but not while it writes.
func (r *replies) write() {
	r.writing = true
	for len(r.out) > 0 && !r.dead {
		buf := r.out
		r.out, r.spare = r.spare[:0], nil
		r.mu.Unlock()
		_, err := r.send.Write(buf)
		r.mu.Lock()
		r.dead = r.dead || err != nil
		if cap(buf) <= 4*replyBytes {
			r.spare = buf[:0]
		}
	}
	r.writing = false
	r.changed.Broadcast()
}

// full reports whether enough has been collected to be written although more requests are
// buffered.
func (r *replies) full() bool {
	if r.commit {
		r.mu.Lock()
		defer r.mu.Unlock()
	}
	return len(r.out)+r.raw >= replyBytes
}

// flush writes what can be written; the reader is about to wait for requests. It blocks while the
// client does not read its replies: then it shall not send more requests either.
func (r *replies) flush() error {
	if !r.commit {
		return r.flushAlone()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.dead {
		switch {
		case len(r.out) > 0 && !r.writing:
			r.write()
			continue
		case len(r.out)+r.raw >= replyBacklog:
			r.changed.Wait()
			continue
		}
		r.attended = false
		return nil
	}
	return errReply
}

func (r *replies) flushAlone() error {
	if len(r.out) == 0 {
		return nil
	}
	_, err := r.send.Write(r.out)
	r.forget()
	if err != nil {
		return errReply
	}
	return nil
}

func (r *replies) forget() {
	if cap(r.out) > 4*replyBytes {
		r.out = nil
	}
	r.out = r.out[:0]
}

// leave does not block: the reader is about to wait for something else than requests. What is owed
// is written if that takes no waiting, or by somebody else.
func (r *replies) leave() {
	if !r.commit {
		if len(r.out) > 0 && r.send.TryWriteAll(r.out) == nil {
			r.forget()
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attended = false
	r.moveOn()
}

// attend says that the reader is back from waiting, and will flush before it waits again.
func (r *replies) attend() {
	if !r.commit {
		return
	}
	r.mu.Lock()
	r.attended = true
	r.mu.Unlock()
}

// drain waits until every reply is known and written. had says that there was one.
func (r *replies) drain() (had bool, err error) {
	if !r.commit {
		return len(r.out) > 0, r.flushAlone()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attended = true
	for !r.dead && (r.owing() > 0 || len(r.out) > 0) || r.writing {
		had = true
		if len(r.out) > 0 && !r.writing && !r.dead {
			r.write()
		} else {
			r.changed.Wait()
		}
	}
	if r.dead {
		return had, errReply
	}
	return had, nil
}

// end says that nothing more will be written. It does not block.
func (r *replies) end() {
	if !r.commit {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.changed.Broadcast()
}
