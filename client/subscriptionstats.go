package client

// SubscriptionStats count one subscription since it began, in messages unless a name says
// otherwise. They are taken under one lock, so at any time
// Messages = DeliveredMsgs + DroppedMsgs + QueuedMsgs + DiscardedMsgs.
type SubscriptionStats struct {
	ID    uint64 `json:"id"`
	Local string `json:"local"` // LocalAddr
	Scope string `json:"scope"`

	// Frames, Messages and Bytes (of payload) were taken from the QUIC stream.
	Frames   uint64 `json:"frames"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`

	DeliveredMsgs uint64 `json:"delivered_msgs"` // returned by Next
	DroppedMsgs   uint64 `json:"dropped_msgs"`   // by the policy
	DroppedFrames uint64 `json:"dropped_frames"`
	QueuedMsgs    uint64 `json:"queued_msgs"`
	DiscardedMsgs uint64 `json:"discarded_msgs"` // queued when Close came
	// QueueHighWater is the most frames queued at a time; 0 under PolicyBlock.
	QueueHighWater int `json:"queue_high_water"`

	// Wakeups are those of whoever reads the QUIC stream: items are frames, bytes as read.
	Wakeups Wakeups `json:"wakeups"`
}

func (c *SubscriptionStats) arrived(ev Events) {
	c.Frames++
	c.Messages += uint64(len(ev.Payloads))
	for _, p := range ev.Payloads {
		c.Bytes += uint64(len(p))
	}
}

// Stats returns the counts. It may be called at any time, also after Close.
func (s *Subscription) Stats() SubscriptionStats {
	s.mu.Lock()
	st := s.counted
	s.mu.Unlock()
	st.ID, st.Local, st.Scope = s.id, s.local, s.scope.String()
	st.Wakeups = s.wakeups.snapshot()
	return st
}
