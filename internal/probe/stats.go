package probe

import (
	"sync"
	"sync/atomic"
)

// Wakeups says how often a loop had to wait, and what it found when it went on, in frames and bytes.
type Wakeups struct {
	Count uint64 `json:"count"`
	Items uint64 `json:"items"`
	Bytes uint64 `json:"bytes"`
}

func (w Wakeups) plus(v Wakeups) Wakeups {
	return Wakeups{w.Count + v.Count, w.Items + v.Items, w.Bytes + v.Bytes}
}

// Sub returns w without what v had counted before.
func (w Wakeups) Sub(v Wakeups) Wakeups {
	return Wakeups{w.Count - v.Count, w.Items - v.Items, w.Bytes - v.Bytes}
}

// meter counts for one loop; anybody reads.
type meter struct{ count, items, bytes atomic.Uint64 }

func (m *meter) record(items, bytes uint64) {
	m.count.Add(1)
	m.items.Add(items)
	m.bytes.Add(bytes)
}

func (m *meter) snapshot() Wakeups {
	return Wakeups{m.count.Load(), m.items.Load(), m.bytes.Load()}
}

// Stats are a relay's totals since it began.
type Stats struct {
	// ReceivedMsgs came from publishers and SentMsgs went to subscribers, in deliveries; UnheardMsgs found no subscriber
	// of their stream, or one that had gone.
	ReceivedMsgs uint64 `json:"received_msgs"`
	SentMsgs     uint64 `json:"sent_msgs"`
	UnheardMsgs  uint64 `json:"unheard_msgs"`
	// Reads are those of publishers' streams. Writes are the wake-ups of subscribers' writers, 0 where the reader
	// writes itself.
	Reads  Wakeups `json:"reads"`
	Writes Wakeups `json:"writes"`
	// WriteNs is the time spent in writes, which is mostly waiting.
	WriteNs int64 `json:"write_ns"`
}

// meters are those of a changing number of loops.
type meters struct {
	mu  sync.Mutex
	all []*meter
}

// one returns a meter for a new loop. The totals keep it after the loop's end.
func (m *meters) one() *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &meter{}
	m.all = append(m.all, x)
	return x
}

func (m *meters) total() Wakeups {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum Wakeups
	for _, x := range m.all {
		sum = sum.plus(x.snapshot())
	}
	return sum
}
