package workload

import (
	"fmt"
	"time"
)

// Limits of the size rule. The 64 MiB floor and the factor of 4 answer an investigation in which runs that fitted
// the transport's send window were read as sustained throughput, 5 to 60 times too high.
const (
	DefaultSendWindow    = 64 << 20
	SizeFactor           = 4
	MinThroughputTime    = 2 * time.Second
	MaxBacklogShare      = 0.25
	DefaultMaxDeliveries = 3_000_000
	// TinyMessage is the payload below which bytes say nothing about a run's length: time and backlog alone decide.
	TinyMessage = 64
)

// Limits of a latency run under --total auto.
const (
	AutoLatencyMessages    = 10_000
	MinLatencyMessages     = 1_000
	AutoLatencyMeasureTime = 8 * time.Second
)

// Sizing is the size rule of one throughput run: what it must reach before its rate may be believed.
type Sizing struct {
	WindowBytes   int64 // W: what publishers can be ahead by inside QUIC
	MessageBytes  int
	Subscribers   int // per published message
	MaxDeliveries int64
}

// Window returns W: the sum over publish connections of min(connection window, QUIC streams in use x stream
// window), in bytes.
func Window(connWindow, streamWindow int64, streamsInUse []int) int64 {
	var w int64
	for _, n := range streamsInUse {
		w += min(connWindow, int64(n)*streamWindow)
	}
	return w
}

// NeedBytes is the payload that has to be published: 4 x max(64 MiB, W); 0 for messages too small for bytes to
// mean anything.
func (s Sizing) NeedBytes() int64 {
	if s.MessageBytes < TinyMessage {
		return 0
	}
	return SizeFactor * max(DefaultSendWindow, s.WindowBytes)
}

// Reached is how far a run has come. Peak backlog is published minus delivered bytes of the slowest subscriber.
type Reached struct {
	RunBytes    int64 // payload bytes published in the measure phase
	PeakBacklog int64
	Deliveries  int64 // published messages x subscribers
	Elapsed     time.Duration
}

// Enough reports whether --total auto may stop publishing: sized, or capped by the number of deliveries.
func (s Sizing) Enough(r Reached) bool {
	if r.Elapsed < MinThroughputTime {
		return false
	}
	if s.MaxDeliveries > 0 && r.Deliveries >= s.MaxDeliveries {
		return true
	}
	return r.RunBytes >= s.NeedBytes() && float64(r.PeakBacklog) <= MaxBacklogShare*float64(r.RunBytes)
}

// Grade is the verdict of the size rule.
type Grade string

// The grades. Capped is quotable only as such; undersized and buffer-absorbed invalidate a throughput figure.
const (
	GradeNone           Grade = "n/a" // the rule does not apply: a latency run
	GradeSized          Grade = "sized"
	GradeCapped         Grade = "capped"
	GradeUndersized     Grade = "undersized"
	GradeBufferAbsorbed Grade = "buffer-absorbed"
)

// Grade judges a finished run; the reason says what was missed, "" for sized and capped. A run that is too small is
// undersized whatever its backlog: that buffers could hold all of it is what the word means.
func (s Sizing) Grade(r Reached) (Grade, string) {
	long, large := r.Elapsed >= MinThroughputTime, r.RunBytes >= s.NeedBytes()
	capped := long && s.MaxDeliveries > 0 && r.Deliveries >= s.MaxDeliveries
	switch {
	case !large && !capped:
		return GradeUndersized, fmt.Sprintf("undersized: %s published, want at least %s (4 x max(64 MiB, send window %s)): the rate is how fast buffers fill", MB(r.RunBytes), MB(s.NeedBytes()), MB(s.WindowBytes))
	case !long:
		return GradeUndersized, fmt.Sprintf("undersized: lasted %v, want at least %.0f s", r.Elapsed.Truncate(time.Millisecond), MinThroughputTime.Seconds())
	case s.Absorbed(r) != "":
		return GradeBufferAbsorbed, s.Absorbed(r)
	case large:
		return GradeSized, ""
	}
	return GradeCapped, ""
}

// Absorbed says, at any size, that the backlog passed its limit; "" if it did not.
func (s Sizing) Absorbed(r Reached) string {
	if float64(r.PeakBacklog) <= MaxBacklogShare*float64(r.RunBytes) {
		return ""
	}
	return fmt.Sprintf("buffer-absorbed: the publisher was up to %s ahead of the slowest subscriber, over 25 %% of the run's %s: the rate is how fast buffers fill", MB(r.PeakBacklog), MB(r.RunBytes))
}

// MB prints bytes in units of 10^6, the unit of every rate of the bench.
func MB(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
