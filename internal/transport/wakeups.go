package transport

import (
	"math/bits"
	"sync/atomic"
)

// wakeupBuckets covers 0, 1, 2-3, 4-7 … up to 2^30 and more.
const wakeupBuckets = 32

// Wakeups says how often the loop that reads a socket went to the kernel and how much it found
// there. Many datagrams a wake-up are cheap, one a wake-up is the slow mode.
type Wakeups struct {
	Count uint64 `json:"count"`
	Items uint64 `json:"items"` // datagrams
	Bytes uint64 `json:"bytes"`
	// ItemsHist and BytesHist count wake-ups by their items and bytes: bucket 0 is none, bucket
	// i is 2^(i-1) up to 2^i - 1, the last one also all above. Trailing zeros are cut.
	ItemsHist []uint64 `json:"items_hist,omitempty"`
	BytesHist []uint64 `json:"bytes_hist,omitempty"`
}

// meter counts the wake-ups of one loop. Only that loop calls record; snapshot is for anyone.
// Atomics, not a lock: a wake-up costs tens of microseconds, this some nanoseconds.
type meter struct {
	count, items, bytes  atomic.Uint64
	itemsHist, bytesHist [wakeupBuckets]atomic.Uint64
}

func (m *meter) record(items, bytes uint64) {
	m.count.Add(1)
	m.items.Add(items)
	m.bytes.Add(bytes)
	m.itemsHist[min(bits.Len64(items), wakeupBuckets-1)].Add(1)
	m.bytesHist[min(bits.Len64(bytes), wakeupBuckets-1)].Add(1)
}

func (m *meter) snapshot() Wakeups {
	return Wakeups{
		Count: m.count.Load(), Items: m.items.Load(), Bytes: m.bytes.Load(),
		ItemsHist: loadHist(&m.itemsHist), BytesHist: loadHist(&m.bytesHist),
	}
}

func loadHist(h *[wakeupBuckets]atomic.Uint64) []uint64 {
	var out []uint64
	for i := range h {
		if n := h[i].Load(); n > 0 {
			for len(out) <= i {
				out = append(out, 0)
			}
			out[i] = n
		}
	}
	return out
}
