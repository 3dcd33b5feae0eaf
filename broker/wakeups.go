package broker

import "math/bits"

// Wakeup counts how often a loop came round and what it found, so that a place that wakes for
// every message can be told from one that takes them by the hundred.
type Wakeup struct {
	Place string `json:"place"`
	Count uint64 `json:"count"`
	Items uint64 `json:"items"` // frames read, or batches moved or written
	Bytes uint64 `json:"bytes"`
	// ItemsHist and BytesHist say what the rounds found, in powers of two: element 0 counts the
	// rounds that found nothing, element i those that found 2^(i-1) to 2^i - 1. They end with the
	// last element that is not 0. Empty where only the sums are kept.
	ItemsHist []uint64 `json:"items_hist,omitempty"`
	BytesHist []uint64 `json:"bytes_hist,omitempty"`
}

const (
	itemBuckets = 18 // the last from 65,536 up
	byteBuckets = 33 // the last from 2 GiB up
)

// loopCount is the plain form of Wakeup's sums.
type loopCount struct{ count, items, bytes uint64 }

func (l *loopCount) add(o loopCount) {
	l.count += o.count
	l.items += o.items
	l.bytes += o.bytes
}

func (l loopCount) wakeup(place string) Wakeup {
	return Wakeup{Place: place, Count: l.count, Items: l.items, Bytes: l.bytes}
}

// loopHist is a loopCount with its histograms, of fixed size; its owner's lock guards it.
type loopHist struct {
	loopCount
	itemsHist [itemBuckets]uint64
	bytesHist [byteBuckets]uint64
}

// record counts one round that found so much.
func (h *loopHist) record(items, bytes uint64) {
	h.count++
	h.items += items
	h.bytes += bytes
	h.itemsHist[min(bits.Len64(items), itemBuckets-1)]++
	h.bytesHist[min(bits.Len64(bytes), byteBuckets-1)]++
}

func (h *loopHist) add(o *loopHist) {
	h.loopCount.add(o.loopCount)
	for i, n := range o.itemsHist {
		h.itemsHist[i] += n
	}
	for i, n := range o.bytesHist {
		h.bytesHist[i] += n
	}
}

func (h *loopHist) wakeup(place string) Wakeup {
	w := h.loopCount.wakeup(place)
	w.ItemsHist, w.BytesHist = trimmed(h.itemsHist[:]), trimmed(h.bytesHist[:])
	return w
}

// trimmed copies the histogram without the zeros at its end.
func trimmed(h []uint64) []uint64 {
	for len(h) > 0 && h[len(h)-1] == 0 {
		h = h[:len(h)-1]
	}
	return append([]uint64(nil), h...)
}
