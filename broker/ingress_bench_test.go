package broker

import (
	"fmt"
	"testing"

	"felix/internal/wire"
)

// BenchmarkPublish is the way of a batch that has been read: admission, lane, numbering, ring and
// the offer to each subscription, and back. Subscriptions take nothing out, so what is measured
// of them is the offer to a full queue.
func BenchmarkPublish(b *testing.B) {
	for _, subs := range []int{0, 1, 10} {
		for _, commit := range []bool{false, true} {
			b.Run(fmt.Sprintf("subscribers=%d/commit=%v", subs, commit), func(b *testing.B) { benchmarkPublish(b, subs, commit) })
		}
	}
}

func benchmarkPublish(b *testing.B, subs int, commit bool) {
	scope := wire.Scope{Tenant: "t1", Namespace: "default", Stream: "demo"}
	br, err := New(Config{Streams: []wire.Scope{scope}, AckOnCommit: commit})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	st := br.streams[scope]
	for range subs {
		addTestSubscription(br, st, &testSink{}, true)
	}
	frame := (&wire.PublishBatch{Scope: scope, Payloads: [][]byte{make([]byte, 256)}}).Append(nil)
	body := frame[wire.HeaderLen:]
	head, err := wire.ParsePublishHead(wire.FlagPublish, body)
	if err != nil {
		b.Fatal(err)
	}
	s := &clientStream{conn: &conn{broker: br, admission: budget{max: 1 << 20}}}
	s.admission.admitted = make(chan struct{}, 1)
	var a answer
	if commit {
		s.replies = replies{send: new(nobody), commit: true, attended: true, ackWait: br.cfg.AckWait}
		s.replies.changed.L = &s.replies.mu
		a.form = answerBinary
	}
	b.ReportAllocs()
	for b.Loop() {
		bt := br.pool.get(len(body))
		copy(bt.body(len(body)), body)
		end := eventHeadBytes + len(body)
		bt.setTail(end-len(head.Tail), end, head.Count, head.PayloadBytes)
		if err := s.publish(st, bt, a); err != nil {
			b.Fatal(err)
		}
		if s.replies.full() {
			if err := s.replies.flush(); err != nil {
				b.Fatal(err)
			}
			s.replies.attend()
		}
	}
	b.StopTimer()
	for _, sub := range st.subs {
		sub.close()
		endTest(sub)
	}
}

// nobody reads replies.
type nobody struct{}

func (*nobody) Write(p []byte) (int, error) { return len(p), nil }
func (*nobody) TryWriteAll([]byte) error    { return nil }

// BenchmarkIngress is checkpoints 3 and 4 alone, with as many readers as there are processors on
// one lane, or on a lane each.
func BenchmarkIngress(b *testing.B) {
	for _, lanes := range []int{1, 16} {
		b.Run(fmt.Sprintf("lanes=%d", lanes), func(b *testing.B) {
			bench := newBench(b, Config{PubIngressWait: true})
			for range lanes {
				bench.lane("a", func(*batch, *waiter) bool { return false })
			}
			conn := bench.conn()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := bench.reader(conn)
				for i := 0; pb.Next(); i++ {
					r.publish(bench.lanes[i%lanes], r.batch(100, 1), enqueueBackpressure, nil, 0)
				}
			})
			<-bench.empty()
		})
	}
}
