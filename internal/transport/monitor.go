package transport

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	defaultSampleInterval = 250 * time.Millisecond
	maxClosedTimelines    = 1024
	// All ended connections together keep so many samples (9 MB); the oldest give theirs up first.
	maxClosedSamples = 64 << 10
)

// Monitor keeps the statistics of connections over time. Endpoints are given it in Config.Monitor;
// one serves any number of them. It has no goroutine of its own: each connection samples itself.
type Monitor struct {
	interval time.Duration

	mu            sync.Mutex
	seq           uint64
	live          map[*timeline]struct{}
	ended         []*timeline // in order of their ends, at most maxClosedTimelines
	endedSamples  int
	forgotten     uint64
	endedTotals   map[string]Totals
	warnings      []string // distinct, in order of appearance
	knownWarnings map[string]struct{}
}

// NewMonitor returns a monitor that samples each connection at the interval, and at its end. If
// interval is 0 it is 250 ms; if negative, there is only the end.
func NewMonitor(interval time.Duration) *Monitor {
	if interval == 0 {
		interval = defaultSampleInterval
	}
	return &Monitor{
		interval:      max(interval, 0),
		live:          make(map[*timeline]struct{}),
		endedTotals:   make(map[string]Totals),
		knownWarnings: make(map[string]struct{}),
	}
}

// open begins a connection's timeline.
func (m *Monitor) open(c *Conn) *timeline {
	t := &timeline{conn: c, interval: m.interval, began: time.Now(), socket: c.SocketInfo()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seq++
	t.seq = m.seq
	m.live[t] = struct{}{}
	for _, w := range t.socket.Warnings {
		if _, known := m.knownWarnings[w]; !known {
			m.knownWarnings[w] = struct{}{}
			m.warnings = append(m.warnings, w)
		}
	}
	return t
}

// add records a sample and returns the interval to the next.
func (m *Monitor) add(t *timeline, s ConnStats) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	t.add(s)
	return t.interval
}

// close ends a timeline with the last statistics of the connection and its socket.
func (m *Monitor) close(t *timeline, final ConnStats, socket SocketInfo) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, t)
	t.conn, t.final, t.socket = nil, final, socket
	t.samples = slices.Clip(t.samples)
	totals := m.endedTotals[final.Role]
	totals.add(final)
	m.endedTotals[final.Role] = totals

	m.ended = append(m.ended, t)
	m.endedSamples += len(t.samples)
	if len(m.ended) > maxClosedTimelines {
		m.endedSamples -= len(m.ended[0].samples)
		m.ended = slices.Delete(m.ended, 0, 1)
		m.forgotten++
	}
	for i := 0; m.endedSamples > maxClosedSamples && i < len(m.ended); i++ {
		m.endedSamples -= len(m.ended[i].samples)
		m.ended[i].samples = nil
	}
}

// Mark remembers the statistics of every connection as they are now, so that a phase that begins
// here can be told from what came before. A later mark replaces it.
func (m *Monitor) Mark() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for t := range m.live {
		t.marked, t.socketMarked = pointer(t.conn.Stats()), pointer(t.conn.SocketInfo())
	}
	for _, t := range m.ended {
		t.marked, t.socketMarked = &t.final, &t.socket
	}
}

// Timelines returns the history of every open connection and of the last 1,024 that ended, in the
// order they began. The caller owns the result.
func (m *Monitor) Timelines() []Timeline { return m.timelines(true) }

// Finals returns the same without the samples.
func (m *Monitor) Finals() []Timeline { return m.timelines(false) }

func (m *Monitor) timelines(samples bool) []Timeline {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.AppendSeq(slices.Clone(m.ended), maps.Keys(m.live))
	slices.SortFunc(all, func(a, b *timeline) int { return int(int64(a.seq) - int64(b.seq)) })
	out := make([]Timeline, 0, len(all))
	for _, t := range all {
		final, socket := t.final, t.socket
		if t.conn != nil {
			final, socket = t.conn.Stats(), t.conn.SocketInfo()
		}
		line := Timeline{Interval: t.interval, Socket: socket, Final: final}
		if t.marked != nil {
			line.Marked, line.SocketMarked = pointer(*t.marked), pointer(*t.socketMarked)
		}
		if samples {
			line.Samples = make([]ConnStats, len(t.samples))
			for i, s := range t.samples {
				line.Samples[i] = t.expand(s, final)
			}
		}
		out = append(out, line)
	}
	return out
}

// Warnings returns the warnings of all sockets so far, each text once.
func (m *Monitor) Warnings() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.warnings)
}

// Forgotten returns how many ended connections Timelines no longer has.
func (m *Monitor) Forgotten() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.forgotten
}
