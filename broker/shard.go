package broker

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A shard is one goroutine, locked to its thread, that executes the publishes and the posted
// feeder steps of its streams, one after the other. A step never blocks: a publish that waits for
// room parks its lane, and writing to QUIC is done elsewhere. It is one goroutine for both because
// a hand-over between two that are locked to their threads costs 34 to 75 us.
type shard struct {
	index  int
	broker *Broker
	queue  *workQueue

	wakeup chan struct{} // of capacity 1
	quit   chan struct{} // closed by stopShards
	stop   sync.Once
	done   chan struct{} // closed when run returns

	anySteps atomic.Bool // spares the lock when there is none
	mu       sync.Mutex
	steps    []*subscription
	posted   map[*subscription]struct{} // those in steps
}

// stepKind is what a test's hook is told.
type stepKind uint8

const (
	stepPublish stepKind = iota
	stepFeeder
)

// stepHook is called by a shard before each step: what, of which stream, on which shard.
type stepHook func(kind stepKind, stream uint64, shard int)

func (s *shard) hook() stepHook {
	if h := s.broker.onStep.Load(); h != nil {
		return *h
	}
	return nil
}

// startShards starts those that the configuration asks for. The broker's lock is held.
func (b *Broker) startShards() {
	if b.cfg.CoreShards == 0 || b.shards != nil {
		return
	}
	cpus := allowedCPUs()
	for i, q := range b.ingress.queues {
		s := &shard{
			index: i, broker: b, queue: q,
			wakeup: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
			posted: make(map[*subscription]struct{}),
		}
		q.shard = s
		b.shards = append(b.shards, s)
	}
	for _, s := range b.shards {
		go s.run(cpus)
	}
}

// stopShards ends them, when there is nothing left for them to do.
func (b *Broker) stopShards() {
	b.mu.Lock()
	shards := b.shards
	b.mu.Unlock()
	for _, s := range shards {
		s.stop.Do(func() { close(s.quit) })
	}
	for _, s := range shards {
		<-s.done
	}
}

func (s *shard) run(cpus []int) {
	defer close(s.done)
	// Never unlocked: the thread ends with the goroutine, and its CPU binding with it.
	runtime.LockOSThread()
	if err := pin(cpus, s.index); err != nil {
		s.broker.cfg.Logger.Warn("core shard is not pinned", "shard", s.index, "cause", err)
	}
	var steps []*subscription
	for woken := false; ; {
		steps = s.take(steps)
		for i, sub := range steps {
			if hook := s.hook(); hook != nil {
				hook(stepFeeder, sub.stream.id, s.index)
			}
			sub.step()
			steps[i] = nil
		}
		if s.broker.ingress.step(s.queue, woken) || len(steps) > 0 {
			woken = false
			continue
		}
		select {
		case <-s.wakeup:
			woken = true
		case <-s.quit:
			return
		}
	}
}

// take returns the posted steps, in place of the last ones.
func (s *shard) take(last []*subscription) []*subscription {
	if !s.anySteps.Load() {
		return last[:0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := s.steps
	s.steps = last[:0]
	s.anySteps.Store(false)
	clear(s.posted)
	return steps
}

// post asks for a feeder step of a subscription. While one is queued, another changes nothing.
func (s *shard) post(sub *subscription) {
	s.mu.Lock()
	if _, queued := s.posted[sub]; !queued {
		s.posted[sub] = struct{}{}
		s.steps = append(s.steps, sub)
		s.anySteps.Store(true)
	}
	s.mu.Unlock()
	s.wake()
}

// wake has the shard look for work. It does not block.
func (s *shard) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}
