package broker

// offer hands a published batch to the subscription's queue.
func (s *subscription) offer(b *batch, w *waiter) { s.queue.offer(b, w) }

// step has nothing to do: the feeder is a goroutine of its own that looks for itself.
func (s *subscription) step() {}
