package broker

import "time"

// recentSlots divide the window of recentBytes: the bytes of the last three whole slots and the
// current one are counted, which is at least a round trip when a slot is a third of it.
const recentSlots = 4

// recentBytes counts what went to a stream lately: all of the last smoothed round trip, and up to
// a third of one more. It reads the round trip once a slot.
type recentBytes struct {
	width time.Duration // of a slot
	start time.Duration // of the current slot
	at    int           // the current slot
	slots [recentSlots]int
	sum   int
}

// below reports whether less than limit bytes went out within the last round trip.
func (r *recentBytes) below(limit int, now time.Duration, rtt func() time.Duration) bool {
	if r.width == 0 {
		r.measure(rtt)
	}
	if past := (now - r.start) / r.width; past > 0 {
		r.advance(int(min(past, recentSlots)))
		r.start = now
		r.measure(rtt)
	}
	return r.sum < limit
}

// add counts bytes that went out just now.
func (r *recentBytes) add(n int, now time.Duration) {
	if r.width > 0 {
		if past := (now - r.start) / r.width; past > 0 {
			r.advance(int(min(past, recentSlots)))
			r.start = now
		}
	}
	r.slots[r.at] += n
	r.sum += n
}

// advance begins a new slot, n slots after the current one.
func (r *recentBytes) advance(n int) {
	for range n {
		r.at = (r.at + 1) % recentSlots
		r.sum -= r.slots[r.at]
		r.slots[r.at] = 0
	}
}

func (r *recentBytes) measure(rtt func() time.Duration) {
	r.width = max(rtt()/(recentSlots-1), time.Microsecond)
}
