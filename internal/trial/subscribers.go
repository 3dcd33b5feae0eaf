package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"felix/client"
	"felix/internal/measure"
	"felix/internal/transport"
)

// subscribers are all subscriptions of the case as one process has them.
type subscribers struct {
	plan    *Plan
	clock   *measure.Clock
	system  subscribing
	monitor *transport.Monitor
	subs    []*subscriber
	tracer  *measure.Tracer // nil: nothing is traced
	wg      sync.WaitGroup
	cancel  context.CancelFunc // of every Next
}

type subscriber struct {
	sub    subscription
	recv   *measure.Receiver
	stream int
	hold   *hold // nil: it reads as fast as it can
	atMark client.Wakeups
	err    atomic.Pointer[error] // why it ended, if not by us
}

// openSubscribers connects and subscribes all: fanout times to each stream.
func openSubscribers(ctx context.Context, p *Plan, a *access, tag uint32, clock *measure.Clock) (_ *subscribers, err error) {
	s := &subscribers{plan: p, clock: clock, monitor: transport.NewMonitor(p.Sizes.ConnStats)}
	if s.tracer, err = p.newTracer(tag); err != nil {
		return nil, err
	}
	if s.system, err = connectSubscribing(ctx, p, a, s.monitor, subscriberTrace(s.tracer, clock)); err != nil {
		return nil, err
	}
	reads, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	defer func() {
		if err != nil {
			cancel()
			err = errors.Join(err, s.system.close(ctx))
		}
	}()
	filler, mixed := fillersOf(p)
	for stream := range p.Case.AllStreams() {
		for i := range p.Case.Fanout {
			sub, err := s.system.subscribe(ctx, stream, i)
			if err != nil {
				return nil, fmt.Errorf("subscriber %d.%d: %w", stream, i, err)
			}
			recv, err := measure.NewReceiver(measure.ReceiverConfig{
				ID: fmt.Sprintf("%d.%d", stream, i), Tag: tag, Stream: uint16(stream), Publishers: p.Case.AllPublishers(),
				OrderPromised: p.Case.OrderPromised(), PayloadLen: p.Case.MessageBytes(), Filler: filler, Mixed: mixed,
				Tracer: s.tracer, Subscription: sub.ID(),
			})
			if err != nil {
				return nil, err
			}
			s.subs = append(s.subs, &subscriber{sub: sub, recv: recv, stream: stream, hold: newHold(reads, &p.Case, stream, i)})
		}
	}
	for _, sub := range s.subs {
		s.wg.Go(func() { sub.receive(reads, clock) })
	}
	return s, nil
}

// receive records everything until the subscription ends. Between Next and the record there is one clock reading.
func (s *subscriber) receive(ctx context.Context, clock *measure.Clock) {
	var err error
	if s.hold != nil {
		err = s.hold.run(ctx, clock.Now, func(ctx context.Context) (int, error) { return s.next(ctx, clock) })
	} else {
		for err == nil {
			_, err = s.next(ctx, clock)
		}
	}
	if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		if errors.Is(err, io.EOF) {
			err = errors.New("the broker finished the event stream")
		}
		s.err.Store(&err)
	}
}

// next records one event frame and returns its bytes of payload.
func (s *subscriber) next(ctx context.Context, clock *measure.Clock) (int, error) {
	payloads, err := s.sub.next(ctx)
	if err != nil {
		return 0, err
	}
	s.recv.RecordBatch(payloads, clock.Now())
	n := 0
	for _, p := range payloads {
		n += len(p)
	}
	return n, nil
}

func (s *subscribers) mark(_ context.Context, at int64) error {
	for _, sub := range s.subs {
		sub.recv.Mark(at)
		if sub.hold != nil {
			sub.hold.mark(at)
		}
		sub.atMark = sub.sub.Stats().Wakeups
	}
	s.monitor.Mark()
	return nil
}

func (s *subscribers) progress() sideProgress {
	p := sideProgress{Subs: make([]subProgress, len(s.subs))}
	for i, sub := range s.subs {
		got := sub.recv.Progress()
		p.Subs[i] = subProgress{Warmup: got.Warmup, Measured: got.Measured, Bytes: got.Bytes, Next: sub.recv.Heads()}
		if err := sub.err.Load(); err != nil {
			p.Subs[i].Err = (*err).Error()
		}
	}
	return p
}

// stop unsubscribes and returns what was recorded.
func (s *subscribers) stop(ctx context.Context) (*sideResult, error) {
	r := &sideResult{Conns: s.monitor.Timelines()}
	s.cancel()
	s.wg.Wait()
	for _, sub := range s.subs {
		res := receiverResult{
			ReceiverResult: sub.recv.Result(), Subscription: sub.sub.ID(), LocalAddr: sub.sub.LocalAddr(),
			Stats: sub.sub.Stats(),
		}
		w, was := &res.Stats.Wakeups, sub.atMark
		w.Count, w.Items, w.Bytes = w.Count-was.Count, w.Items-was.Items, w.Bytes-was.Bytes
		if err := sub.err.Load(); err != nil {
			res.Err = (*err).Error()
		}
		r.Receivers = append(r.Receivers, res)
	}
	r.Traces = s.tracer.Result()
	if err := s.system.close(ctx); err != nil {
		r.Warn = append(r.Warn, fmt.Sprintf("closing the subscribers: %v", err))
	}
	return r, nil
}
