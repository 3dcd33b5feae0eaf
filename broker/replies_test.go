package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"felix/internal/wire"
)

// client reads replies: it keeps what was written, and can stop reading.
type slowClient struct {
	mu      sync.Mutex
	got     bytes.Buffer
	blocked chan struct{} // not nil: Write waits until it is closed
	fail    error
}

func (c *slowClient) Write(p []byte) (int, error) {
	c.mu.Lock()
	blocked := c.blocked
	c.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return 0, c.fail
	}
	return c.got.Write(p)
}

func (c *slowClient) TryWriteAll(p []byte) error {
	_, err := c.Write(p)
	return err
}

// replies parses what the client has got.
func (c *slowClient) replies(t *testing.T) (out []any) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := bytes.NewReader(c.got.Bytes()); ; {
		h, body, err := wire.ReadFrame(r, 0, nil)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Flags == wire.FlagPublishAck {
			ack, err := wire.ParsePublishAck(body)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, ack)
			continue
		}
		m, err := wire.ParseMessage(body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
}

func commitReplies(c *slowClient, ackWait time.Duration) *replies {
	r := &replies{send: c, commit: true, attended: true, ackWait: ackWait}
	r.changed.L = &r.mu
	return r
}

// TestCommitOrder: however late and in whatever order the outcomes come, replies leave in the
// order of the requests, each once, and drain returns when all have left.
func TestCommitOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := new(slowClient)
		r := commitReplies(c, time.Hour)
		var want []any
		var wg sync.WaitGroup
		for i := range uint64(500) {
			err := ""
			if rng.IntN(4) == 0 {
				err = fmt.Sprint("no ", i)
			}
			switch rng.IntN(5) {
			case 0:
				r.message(wire.CacheOK{RequestID: i})
				want = append(want, wire.CacheOK{RequestID: i})
			case 1:
				r.answer(answer{answerBinary, i}, err)
				want = append(want, wire.PublishAck{RequestID: i, Err: err, OK: err == ""})
			default:
				a := answer{answerBinary, i}
				want = append(want, wire.PublishAck{RequestID: i, Err: err, OK: err == ""})
				if rng.IntN(2) == 0 {
					a.form = answerJSON
					if want[len(want)-1] = (wire.PublishOK{RequestID: i}); err != "" {
						want[len(want)-1] = wire.PublishError{RequestID: i, Message: err}
					}
				}
				rec := receipt{r, r.expect(a)}
				switch rng.IntN(3) {
				case 0:
					rec.give(err)
				default:
					wg.Go(func() { rec.give(err); rec.give("twice") })
				}
				r.limit(rec.seq)
			}
			if rng.IntN(20) == 0 {
				wg.Wait() // no debt may stand in the way of flush for an hour
				if err := r.flush(); err != nil {
					t.Fatal(err)
				}
				r.attend()
			}
			if rng.IntN(20) == 0 {
				r.leave()
				r.attend()
			}
		}
		if _, err := r.drain(); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		got := c.replies(t)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d:\n got %v\nwant %v", seed, got, want)
		}
		r.end()
	}
}

// An outcome that comes while the reader waits for the next request is written without it, by a
// goroutine that ends, and one that comes while the client does not read waits with nobody.
func TestCommitWhileReaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(slowClient)
		r := commitReplies(c, time.Minute)
		var recs []receipt
		for i := range uint64(4) {
			recs = append(recs, receipt{r, r.expect(answer{answerBinary, i})})
			r.limit(recs[i].seq)
		}
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		recs[1].give("")
		synctest.Wait()
		if n := len(c.replies(t)); n != 0 {
			t.Errorf("%d replies overtook the first", n)
		}
		recs[0].give("")
		synctest.Wait()
		if n := len(c.replies(t)); n != 2 {
			t.Errorf("%d replies, want 2", n)
		}
		c.blocked = make(chan struct{})
		recs[2].give("") // does not block
		recs[3].give("")
		synctest.Wait()
		close(c.blocked)
		synctest.Wait()
		if n := len(c.replies(t)); n != 4 {
			t.Errorf("%d replies, want 4", n)
		}
		r.end()
	})
}

// A publish that is not fanned out within the time is answered with an error at that moment, and
// so is nothing behind it before its own time; what it turns out to be later changes nothing.
func TestCommitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(slowClient)
		r := commitReplies(c, 2*time.Second)
		first := receipt{r, r.expect(answer{answerBinary, 1})}
		r.limit(first.seq)
		time.Sleep(time.Second)
		second := receipt{r, r.expect(answer{answerJSON, 2})}
		r.limit(second.seq)
		r.message(wire.OK{})
		if err := r.flush(); err != nil {
			t.Fatal(err)
		}
		text := "ack timeout: accepted, and not fanned out within 2s"
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.replies(t); len(got) != 1 || got[0] != (wire.PublishAck{RequestID: 1, Err: text}) {
			t.Errorf("after 2 s: %v", got)
		}
		first.give("")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.replies(t); len(got) != 3 || got[1] != (wire.PublishError{RequestID: 2, Message: text}) || got[2] != (wire.OK{}) {
			t.Errorf("after 3 s: %v", got)
		}
		second.give("")
		r.end()
		time.Sleep(time.Hour)
		if got := c.replies(t); len(got) != 3 {
			t.Errorf("at the end: %v", got)
		}
	})
}

// A client that is gone ends every wait.
func TestCommitClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := commitReplies(new(slowClient), time.Hour)
		rec := receipt{r, r.expect(answer{answerBinary, 1})}
		time.AfterFunc(time.Second, r.end)
		if _, err := r.drain(); !errors.Is(err, errReply) {
			t.Errorf("drain: %v", err)
		}
		rec.give("")

		c := &slowClient{fail: io.ErrClosedPipe}
		r = commitReplies(c, time.Hour)
		r.answer(answer{answerBinary, 1}, "")
		if err := r.flush(); !errors.Is(err, errReply) {
			t.Errorf("flush: %v", err)
		}
	})
}
