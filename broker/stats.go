package broker

import "time"

// Stats is a snapshot of a broker. Each subscription is counted under its own lock, so the
// equation at SubscriptionStats holds in every snapshot; different parts are read one after
// the other.
type Stats struct {
	StartedAt     time.Time           `json:"started_at"`
	Flow          Flow                `json:"flow"`
	Streams       []StreamStats       `json:"streams"`
	Subscriptions []SubscriptionStats `json:"subscriptions"` // the live ones and the last 4,096 that ended
	Checkpoints   []Checkpoint        `json:"checkpoints"`   // those that exist: 5
	Ingress       IngressStats        `json:"ingress"`
	Wakeups       []Wakeup            `json:"wakeups"`
	Connections   int                 `json:"connections"` // open now
	// SubscribesAccepted and SubscribesRefused count subscribe requests.
	SubscribesAccepted uint64 `json:"subscribes_accepted"`
	SubscribesRefused  uint64 `json:"subscribes_refused"`
	// AuthFailures counts streams whose authentication was refused or did not come in time.
	AuthFailures uint64 `json:"auth_failures"`
	// RingBytes is what all replay rings keep alive.
	RingBytes int64 `json:"ring_bytes"`
	// LiveBatches counts pooled buffers in use: being read, queued, written or kept for replay.
	LiveBatches int64 `json:"live_batches"`
}

// Flow counts messages and payload bytes from the start of the broker. Received = Accepted +
// Rejected + IngressDropped, and what is being executed now.
type Flow struct {
	ReceivedMsgs uint64 `json:"received_msgs"` // read from publish and control streams
	AcceptedMsgs uint64 `json:"accepted_msgs"` // admitted and published
	RejectedMsgs uint64 `json:"rejected_msgs"` // refused: unknown stream, other tenant, no permission
	// IngressDroppedMsgs counts messages whose publisher's connection ended while they waited for
	// their stream's turn. Shedding at checkpoints 3 and 4 does not exist yet.
	IngressDroppedMsgs uint64 `json:"ingress_dropped_msgs"`
	PublishedMsgs      uint64 `json:"published_msgs"` // numbered and fanned out
	QueuedMsgs         uint64 `json:"queued_msgs"`    // deliveries that checkpoint 5 let in
	SentMsgs           uint64 `json:"sent_msgs"`      // deliveries written to QUIC
	BytesIn            uint64 `json:"bytes_in"`       // payload bytes received
	BytesOut           uint64 `json:"bytes_out"`      // payload bytes written, per delivery
}

// StreamStats counts one registered stream.
type StreamStats struct {
	Scope         string `json:"scope"`
	PublishedMsgs uint64 `json:"published_msgs"`
	NextOffset    uint64 `json:"next_offset"`   // the offset of the next payload
	FirstOffset   uint64 `json:"first_offset"`  // the oldest payload that can be replayed
	RingBytes     int64  `json:"ring_bytes"`    // kept alive by the ring
	Subscriptions int    `json:"subscriptions"` // live ones
	// IngressDroppedMsgs and IngressRejectedMsgs are those of checkpoints 3 and 4.
	IngressDroppedMsgs  uint64 `json:"ingress_dropped_msgs"`
	IngressRejectedMsgs uint64 `json:"ingress_rejected_msgs"`
}

// IngressStats counts checkpoints 3 and 4.
type IngressStats struct {
	Counts          []IngressCount `json:"counts"`
	WaitedPublishes uint64         `json:"waited_publishes"`
	WaitNs          int64          `json:"wait_ns"`
	QueueDepth      int            `json:"queue_depth"` // publishes admitted and not fanned out
	HeldBytes       int64          `json:"held_bytes"`
}

// IngressCount counts messages of one tenant that found no room.
type IngressCount struct {
	Checkpoint   int    `json:"checkpoint"` // 3 or 4
	Reason       string `json:"reason"`     // "conn_bytes", "bytes" or "items"
	Tenant       string `json:"tenant"`
	DroppedMsgs  uint64 `json:"dropped_msgs"`
	RejectedMsgs uint64 `json:"rejected_msgs"`
}

// SubscriptionStats counts one subscription, in messages. At any time
//
//	Published = Written + DroppedQueue + DiscardedClosed + Queued
type SubscriptionStats struct {
	ID     uint64 `json:"id"`
	Remote string `json:"remote"` // the client's UDP address
	Scope  string `json:"scope"`

	// Published counts what was published since the subscribe, and the Replayed messages that
	// were handed to it from the ring.
	Published uint64 `json:"published"`
	Replayed  uint64 `json:"replayed"`
	// Written counts messages for which Write returned.
	Written uint64 `json:"written"`
	// DroppedQueue counts checkpoint 5, by any policy. Under block it is not zero only if a
	// publisher's connection ended while it waited.
	DroppedQueue uint64 `json:"dropped_queue"`
	// DroppedWriter counts checkpoint 6.
	DroppedWriter   uint64 `json:"dropped_writer"`
	DiscardedClosed uint64 `json:"discarded_closed"` // still queued or being written when it ended
	Queued          uint64 `json:"queued"`           // waiting, replay included, or being written

	QueuedBytes    int64 `json:"queued_bytes"` // held against SubscriberQueueMaxBytes
	HighWaterItems int   `json:"high_water_items"`
	HighWaterBytes int64 `json:"high_water_bytes"`
	// BlockedNs is how long publishes waited for room here.
	BlockedNs int64 `json:"blocked_ns"`
	// WriteNs is how long the feeder was in QUIC's Write, which is mostly waiting: for the
	// client's credit, the congestion window and the socket.
	WriteNs int64 `json:"write_ns"`
	// WrittenBytes are payload bytes.
	WrittenBytes uint64 `json:"written_bytes"`
	Live         bool   `json:"live"`
}

// Checkpoint is a bounded place, over all its queues.
type Checkpoint struct {
	Number         int    `json:"number"`
	Name           string `json:"name"`
	Bound          int64  `json:"bound"`       // items in each queue
	BoundBytes     int64  `json:"bound_bytes"` // bytes in each queue
	Policy         string `json:"policy"`
	HighWater      int64  `json:"high_water"` // items, of the fullest queue there was
	HighWaterBytes int64  `json:"high_water_bytes"`
	BlockedNs      int64  `json:"blocked_ns"`
	Dropped        uint64 `json:"dropped"` // messages of one subscription
}

// Wakeup counts how often a loop came round and what it found, so that a place that wakes for
// every message can be told from one that takes them by the hundred.
type Wakeup struct {
	Place string `json:"place"`
	Count uint64 `json:"count"`
	Items uint64 `json:"items"` // frames read, or batches written
	Bytes uint64 `json:"bytes"`
}

// loopCount is the plain form of Wakeup's figures.
type loopCount struct{ count, items, bytes uint64 }

func (l *loopCount) add(o loopCount) {
	l.count += o.count
	l.items += o.items
	l.bytes += o.bytes
}

func (l loopCount) wakeup(place string) Wakeup {
	return Wakeup{Place: place, Count: l.count, Items: l.items, Bytes: l.bytes}
}
