package broker

// OnStep has the shards call f before each step: of a publish, or else of a feeder, of which
// stream, on which shard. It is called by the shard itself.
func (b *Broker) OnStep(f func(publish bool, stream uint64, shard int)) {
	h := stepHook(func(kind stepKind, stream uint64, shard int) { f(kind == stepPublish, stream, shard) })
	b.onStep.Store(&h)
}

// ShardFor is where the steps of a stream belong.
func (b *Broker) ShardFor(stream uint64) int { return b.ingress.shardFor(stream) }

// PostAll asks for a feeder step of every subscription, as its writer does when it has room.
func (b *Broker) PostAll() {
	for _, s := range b.streamList {
		s.mu.Lock()
		subs := s.subs
		s.mu.Unlock()
		for _, sub := range subs {
			s.post(sub)
		}
	}
}
