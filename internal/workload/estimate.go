package workload

import (
	"math"
	"time"

	"felix/internal/settings"
)

// What an estimate assumes until trials were observed: a quiet machine of two cores, in which broker and clients
// share the processors, so that a message costs the sum of what everybody does for it. Fitted to 4 KiB x 64 at
// 240 MB/s with one subscriber and 29 MB/s published with ten, 256 B x 64 at 0.7 and 0.09 M msg/s, and closed loops
// of one message at 80 us with one subscriber and 260 us with ten. Good within a factor of two, which is what a plan
// needs; Observe does the rest.
const (
	startTime    = 400 * time.Millisecond // processes, handshakes, stop and record
	connTime     = 5 * time.Millisecond   // on top, for every connection
	frameCost    = 5e-6                   // s for a published frame of a flood: generator, client, sockets, broker
	deliverCost  = 10e-6                  // s for a frame of a flood to one subscriber
	wakeCost     = 30e-6                  // s for a frame that everybody waits for, in place of frameCost
	wakeOneCost  = 20e-6                  // s for the same to one subscriber, in place of deliverCost
	tripTime     = 60e-6                  // s that such a frame and its ack travel while nothing is busy
	messageCost  = 0.1e-6                 // s for each message of a published frame
	receiveCost  = 0.05e-6                // s for each message of a delivered one
	byteCost     = 0.7e-9                 // s for each byte published
	sendByteCost = 3.3e-9                 // s for each byte delivered
	jsonByteCost = 4e-9                   // s more for each byte published as JSON: base64, written and read
	backlogBytes = 8 << 20                // by which a flood is ahead of its slowest subscriber
)

// The warm-up that latencydemo decides by itself.
const (
	warmupTime     = 500 * time.Millisecond
	warmupLimit    = 5 * time.Second
	warmupMessages = 500      // of a latency run
	warmupBytes    = 16 << 20 // of a throughput run
)

// Model estimates how long trials take: from the size rule and the costs of two cores, then, the longer a session
// lasts, from its own trials. It is not safe for concurrent use.
type Model struct {
	profiles map[string]map[string]string
	observed map[string]mean // s that trials of a cell took, by the cell's digest
	ratio    map[bool]mean   // log(observed / assumed), of throughput runs (true) and of others
}

type mean struct {
	sum float64
	n   int
}

func (m mean) add(x float64) mean { return mean{m.sum + x, m.n + 1} }
func (m mean) value() float64     { return m.sum / float64(m.n) }

// NewModel returns a model with no observations. profiles are the transport settings of each profile, whose windows
// are part of the size rule; a case of any other profile is taken to have the default ones.
func NewModel(profiles map[string]map[string]string) *Model {
	return &Model{profiles: profiles, observed: map[string]mean{}, ratio: map[bool]mean{}}
}

// Trial estimates one trial of the cell, from the start of its processes to their end: the mean of its own observed
// trials, else what is assumed, times the ratio at which trials of its kind (throughput, or not) were observed.
func (m *Model) Trial(c *Cell) time.Duration {
	if o := m.observed[Digest([]Cell{*c})]; o.n > 0 {
		return seconds(o.value())
	}
	assumed := m.assumed(c)
	if r := m.ratio[c.Case.Throughput()]; r.n > 0 {
		assumed *= math.Exp(r.value())
	}
	return seconds(assumed)
}

// Observe refines the model by a trial that took so long. One that was cut short should not be told.
func (m *Model) Observe(c *Cell, took time.Duration) {
	if took <= 0 {
		return
	}
	key, kind := Digest([]Cell{*c}), c.Case.Throughput()
	m.observed[key] = m.observed[key].add(took.Seconds())
	m.ratio[kind] = m.ratio[kind].add(math.Log(took.Seconds() / m.assumed(c)))
}

// Grid estimates as many trials of every cell, one after the other, without pauses between them.
func (m *Model) Grid(g *Grid, trials int) time.Duration {
	var sum time.Duration
	for i := range g.Cells {
		sum += m.Trial(&g.Cells[i]) * time.Duration(trials)
	}
	return sum
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// assumed is the estimate without observations, in s.
func (m *Model) assumed(c *Cell) float64 {
	conns := (c.Case.PubConns + c.Case.SubConns) * c.Case.TenantCount()
	return startTime.Seconds() + connTime.Seconds()*float64(conns) + warmup(c) + held(c, m.measure(c))
}

// heldBytes is what the queues of a subscriber that is held down are taken to have to give when publishing ends.
const heldBytes = 64 << 20

// held adds to a measure phase what slow and stalled subscribers make it last longer.
func held(c *Cell, measure float64) float64 {
	end := measure
	offered := rate(&c.Case) * float64(c.Case.MessageBytes()) / float64(c.Case.AllStreams()) // bytes/s of a stream
	for _, s := range c.Case.Slow {
		slow := float64(s.BytesPerSec)
		behind := min(max(0, offered-slow)*measure, heldBytes)
		end = max(end, measure+behind/slow)
	}
	return max(end, c.Case.Stall.Until().Seconds())
}

// rate is the messages/s that all publishers together get out.
func rate(c *Case) float64 {
	size, fanout, batch := float64(c.MessageBytes()), float64(c.Fanout), float64(c.Batch)
	frame, one := frameCost, deliverCost
	if c.Load == LoadClosed {
		frame, one = wakeCost, wakeOneCost
	}
	publish := frame/batch + messageCost + byteCost*size
	if c.Encoding == EncodingJSON {
		publish += jsonByteCost * size
	}
	deliver := one/batch + receiveCost + sendByteCost*size
	most := 1 / (publish + fanout*deliver)
	switch c.Load {
	case LoadOpen:
		return min(c.Rate, most)
	case LoadClosed:
		trip := tripTime + batch*fanout*deliver
		return min(float64(c.Publishers*c.Inflight)*batch/trip, most)
	}
	return most
}

func warmup(c *Cell) float64 {
	if c.Sizes.Warmup != nil {
		return float64(*c.Sizes.Warmup) / rate(&c.Case)
	}
	messages := float64(warmupMessages)
	if c.Case.Throughput() {
		messages = float64(warmupBytes / c.Case.MessageBytes())
	}
	return min(max(warmupTime.Seconds(), messages/rate(&c.Case)), warmupLimit.Seconds())
}

// measure is the measure phase and its drain: what was published until its end is delivered at the same cost.
func (m *Model) measure(c *Cell) float64 {
	perSec := rate(&c.Case)
	limit := math.Inf(1)
	if c.Sizes.Duration > 0 {
		limit = c.Sizes.Duration.Seconds()
	}
	switch {
	case c.Case.Burst > 0:
		return float64(c.Case.Burst) / perSec
	case c.Sizes.Total > 0:
		return min(float64(c.Sizes.Total)/perSec, limit)
	case c.Sizes.Duration > 0:
		return limit
	case !c.Case.Throughput():
		return max(min(AutoLatencyMessages/perSec, AutoLatencyMeasureTime.Seconds()), MinLatencyMessages/perSec)
	}
	s := Sizing{WindowBytes: m.window(c), MessageBytes: c.Case.MessageBytes(), MaxDeliveries: DefaultMaxDeliveries}
	if c.Sizes.MaxDeliveries > 0 {
		s.MaxDeliveries = c.Sizes.MaxDeliveries
	}
	bytes := max(float64(s.NeedBytes()), backlogBytes/MaxBacklogShare)
	messages := min(bytes/float64(s.MessageBytes), float64(s.MaxDeliveries)/float64(c.Case.Fanout))
	return max(messages/perSec, MinThroughputTime.Seconds())
}

// window is W of the size rule. Logical streams are taken to fall on QUIC streams, and these on connections, as
// evenly as they can; in a trial some share one, and W is smaller.
func (m *Model) window(c *Cell) int64 {
	conn, stream := int64(DefaultSendWindow), int64(DefaultSendWindow/4)
	for _, set := range []map[string]string{m.profiles[c.Case.Profile], c.Case.TransportSet} {
		if n, err := settings.ParseSize(set["conn_recv_window"]); err == nil {
			conn = n
		}
		if n, err := settings.ParseSize(set["stream_recv_window"]); err == nil {
			stream = n
		}
	}
	if n := c.Sizes.SendWindow; n > 0 {
		conn, stream = n, n/4
	}
	used := c.Case.PubConns * c.Case.PubStreamsPerConn
	if c.Case.Sharding == ShardingHashStream {
		used = min(used, c.Case.Streams)
	}
	perConn := make([]int, c.Case.PubConns)
	for i := range used {
		perConn[i%len(perConn)]++
	}
	return Window(conn, stream, perConn)
}
