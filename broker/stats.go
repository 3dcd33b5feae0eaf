package broker

import "time"

// Stats is a snapshot of a broker. Each subscription is counted under its own lock, so the
// equation at SubscriptionStats holds in every snapshot; different parts are read one after
// the other.
type Stats struct {
	StartedAt     time.Time           `json:"started_at"`
	Flow          Flow                `json:"flow"`
	Ingress       IngressStats        `json:"ingress"`
	Streams       []StreamStats       `json:"streams"`
	Subscriptions []SubscriptionStats `json:"subscriptions"` // the live ones and the last 4,096 that ended
	Checkpoints   []Checkpoint        `json:"checkpoints"`   // of the broker: 3 to 6
	Wakeups       []Wakeup            `json:"wakeups"`
	Connections   int                 `json:"connections"` // open now
	Subscribers   int                 `json:"subscribers"` // those of them that have subscriptions
	// SubscribesAccepted and SubscribesRefused count subscribe requests.
	SubscribesAccepted uint64 `json:"subscribes_accepted"`
	SubscribesRefused  uint64 `json:"subscribes_refused"`
	// AuthFailures counts streams whose authentication was refused or did not come in time.
	AuthFailures uint64 `json:"auth_failures"`
	// RingBytes is what all replay rings keep alive.
	RingBytes int64 `json:"ring_bytes"`
	// LiveBatches counts pooled buffers in use: being read, queued, written or kept for replay.
	LiveBatches int64 `json:"live_batches"`
	// SubscriberHeld is what all subscriptions hold of SubscriberQueueMaxBytesTotal.
	SubscriberHeld int64 `json:"subscriber_held_bytes"`
	// WriterBlocked is how long feeders waited at checkpoint 6, each wait that has ended.
	WriterBlocked WaitHistogram `json:"writer_blocked"`
}

// Flow counts messages and payload bytes from the start of the broker. At any time Received =
// Accepted + Rejected + IngressDropped: a publish that waits for room at checkpoint 3 or 4 counts
// as received when its wait ends.
type Flow struct {
	ReceivedMsgs uint64 `json:"received_msgs"` // read from publish and control streams
	AcceptedMsgs uint64 `json:"accepted_msgs"` // admitted at 3 and 4: published, or soon
	// RejectedMsgs counts messages that were refused: unknown stream, other tenant, no permission,
	// and acked ones for which there was no room at 3 or 4.
	RejectedMsgs uint64 `json:"rejected_msgs"`
	// IngressDroppedMsgs counts unacked messages for which there was no room at 3 or 4, and those
	// whose connection ended while they waited for it. Ingress.Counts has them by reason.
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
	// IngressDroppedMsgs and IngressRejectedMsgs are the stream's part of what found no room at
	// checkpoints 3 and 4.
	IngressDroppedMsgs  uint64 `json:"ingress_dropped_msgs"`
	IngressRejectedMsgs uint64 `json:"ingress_rejected_msgs"`
}

// SubscriptionStats counts one subscription, in messages. At any time
//
//	Published = Written + DroppedQueue + DroppedWriter + DiscardedClosed + Queued + QueuedWriter
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
	// DroppedQueue and DroppedWriter count checkpoints 5 and 6, by any policy; under block nothing
	// is dropped.
	DroppedQueue    uint64 `json:"dropped_queue"`
	DroppedWriter   uint64 `json:"dropped_writer"`
	DiscardedClosed uint64 `json:"discarded_closed"` // still queued or being written when it ended
	Queued          uint64 `json:"queued"`           // at 5: replay and a publish that waits included
	QueuedWriter    uint64 `json:"queued_writer"`    // at 6, or being written

	QueuedBytes     int64 `json:"queued_bytes"`      // held against SubscriberQueueMaxBytes
	EgressHeldBytes int64 `json:"egress_held_bytes"` // held against the share of SubscriberEgressMaxBytes
	LaneQueueLen    int   `json:"lane_queue_len"`    // frames at 6, not counting those being written

	// The most there was at a time at checkpoint 5 and, with Writer, at 6.
	HighWaterItems        int   `json:"high_water_items"`
	HighWaterBytes        int64 `json:"high_water_bytes"`
	WriterHighWaterFrames int   `json:"writer_high_water_frames"`
	WriterHighWaterBytes  int64 `json:"writer_high_water_bytes"`
	// BlockedNs is how long publishes waited for room at 5, WriterBlockedNs how long the feeder
	// waited for room at 6; a wait that goes on counts as far as it has come.
	BlockedNs       int64 `json:"blocked_ns"`
	WriterBlockedNs int64 `json:"writer_blocked_ns"`
	// WriteNs is how long the writer was in QUIC's Write, which is mostly waiting: for the
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
	// At 3 each connection has a bound of its own; the high-water mark is the fullest one's. 0: no such bound.
	ConnBoundBytes     int64 `json:"conn_bound_bytes,omitempty"`
	ConnHighWaterBytes int64 `json:"conn_high_water_bytes,omitempty"`

	BlockedNs int64  `json:"blocked_ns"`
	Dropped   uint64 `json:"dropped"` // messages; from 5 on, of one subscription each
}
