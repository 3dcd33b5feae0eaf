package measure

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// DefaultIntervalNs is the length of an interval of the series: 100 ms.
const DefaultIntervalNs = 100_000_000

// maxIntervals bounds a series: one hour of non-empty intervals at 100 ms. The last one takes
// whatever comes after it.
const maxIntervals = 36_000

// Series stand on one grid for all processes: interval k covers [k x length, (k+1) x length) on
// the machine's monotonic clock. So they merge by number, whenever each process got its mark.

// grid is the position of a series on it.
type grid struct {
	length int64
	cell   int64
	end    int64 // where cell ends; 0: no cell was begun
	cells  int   // begun so far
	packed []byte
	prev   int64 // the last cell that was packed
}

// due reports whether now lies beyond the current cell (or no cell was begun).
func (g *grid) due(now int64) bool { return now >= g.end }

// begin moves to the cell of now, and reports whether it may: a full series stays where it is.
func (g *grid) begin(now int64) bool {
	if g.cells >= maxIntervals {
		g.end = math.MaxInt64
		return false
	}
	g.cells++
	g.cell = max(now, 0) / g.length
	g.end = (g.cell + 1) * g.length
	return true
}

// header packs the number of the current cell.
func (g *grid) header() {
	g.packed = binary.AppendUvarint(g.packed, uint64(g.cell-g.prev))
	g.prev = g.cell
}

// receiverSeries counts one subscriber's deliveries per interval. Packed, an interval is
// uvarints: number (minus the one before), messages, bytes, change of skipped (zigzag), buckets,
// and per bucket its number (minus the one before) and count.
type receiverSeries struct {
	grid
	messages    uint64
	bytes       uint64
	skipped     int64
	skippedThen int64
	low, high   int // buckets hit
	bins        [binCount]uint32
}

func newReceiverSeries(length int64) *receiverSeries {
	s := &receiverSeries{grid: grid{length: length, packed: make([]byte, 0, 4096)}}
	s.low, s.high = binCount, -1
	return s
}

// record counts one delivery of so many bytes; skipped is the number of messages missing by now.
func (s *receiverSeries) record(now, latency, skipped int64, bytes uint64) {
	if s.due(now) {
		s.advance(now)
	}
	s.messages++
	s.bytes += bytes
	s.skipped = skipped
	bin := binOf(latency)
	s.bins[bin]++
	s.low = min(s.low, bin)
	s.high = max(s.high, bin)
}

func (s *receiverSeries) advance(now int64) {
	if s.cells >= maxIntervals {
		s.begin(now)
		return
	}
	s.flush()
	s.begin(now)
}

func (s *receiverSeries) flush() {
	if s.messages == 0 {
		return
	}
	s.header()
	s.packed = binary.AppendUvarint(s.packed, s.messages)
	s.packed = binary.AppendUvarint(s.packed, s.bytes)
	s.packed = binary.AppendVarint(s.packed, s.skipped-s.skippedThen)
	s.skippedThen = s.skipped
	used := 0
	for _, c := range s.bins[s.low : s.high+1] {
		if c != 0 {
			used++
		}
	}
	s.packed = binary.AppendUvarint(s.packed, uint64(used))
	prev := 0
	for bin := s.low; bin <= s.high; bin++ {
		if s.bins[bin] == 0 {
			continue
		}
		s.packed = binary.AppendUvarint(s.packed, uint64(bin-prev))
		s.packed = binary.AppendUvarint(s.packed, uint64(s.bins[bin]))
		prev = bin
		s.bins[bin] = 0
	}
	s.messages, s.bytes = 0, 0
	s.low, s.high = binCount, -1
}

// senderSeries counts one publisher's messages and bytes per interval and stream. Packed, an
// interval is uvarints: number (minus the one before), streams, and per stream its number (minus
// the one before), messages and bytes.
type senderSeries struct {
	grid
	byStream []sent
	touched  []uint16
}

// sent is what went to one stream in one interval.
type sent struct{ messages, bytes uint64 }

func newSenderSeries(length int64, streams int) *senderSeries {
	return &senderSeries{
		grid:     grid{length: length, packed: make([]byte, 0, 1024)},
		byStream: make([]sent, streams),
		touched:  make([]uint16, 0, streams),
	}
}

func (s *senderSeries) record(now int64, stream uint16, messages, bytes uint64) {
	if s.due(now) {
		if s.cells < maxIntervals {
			s.flush()
		}
		s.begin(now)
	}
	at := &s.byStream[stream]
	if at.messages == 0 && messages > 0 {
		s.touched = append(s.touched, stream)
	}
	at.messages += messages
	at.bytes += bytes
}

func (s *senderSeries) flush() {
	if len(s.touched) == 0 {
		return
	}
	slices.Sort(s.touched)
	s.header()
	s.packed = binary.AppendUvarint(s.packed, uint64(len(s.touched)))
	prev := uint16(0)
	for _, stream := range s.touched {
		s.packed = binary.AppendUvarint(s.packed, uint64(stream-prev))
		s.packed = binary.AppendUvarint(s.packed, s.byStream[stream].messages)
		s.packed = binary.AppendUvarint(s.packed, s.byStream[stream].bytes)
		s.byStream[stream] = sent{}
		prev = stream
	}
	s.touched = s.touched[:0]
}

// receiverCell and senderCell are unpacked intervals.
type receiverCell struct {
	cell     int64
	messages uint64
	bytes    uint64
	skipped  int64 // in all, at the interval's end
	bins     []binCountOf
}

type senderCell struct {
	cell     int64
	byStream []streamCount
}

type streamCount struct {
	stream uint16
	sent
}

// errSeries means that packed intervals are not what flush writes.
var errSeries = errors.New("malformed interval series")

type varints struct {
	b   []byte
	bad bool
}

func (v *varints) next() uint64 {
	x, n := binary.Uvarint(v.b)
	if n <= 0 {
		v.bad, v.b = true, nil
		return 0
	}
	v.b = v.b[n:]
	return x
}

func (v *varints) nextSigned() int64 {
	x, n := binary.Varint(v.b)
	if n <= 0 {
		v.bad, v.b = true, nil
		return 0
	}
	v.b = v.b[n:]
	return x
}

// nextCell adds the next delta to cell; a cell whose nanoseconds overflow is refused.
func (v *varints) nextCell(cell, length int64) int64 {
	d := v.next()
	if limit := math.MaxInt64/length - 1; d > uint64(limit) || cell > limit-int64(d) {
		v.bad = true
		return cell
	}
	return cell + int64(d)
}

func parseReceiverSeries(packed []byte, length int64) ([]receiverCell, error) {
	if length <= 0 {
		return nil, errSeries
	}
	v := varints{b: packed}
	var cells []receiverCell
	var at, skipped int64
	for len(v.b) > 0 {
		at = v.nextCell(at, length)
		c := receiverCell{cell: at, messages: v.next(), bytes: v.next()}
		skipped += v.nextSigned()
		c.skipped = skipped
		used, bin := v.next(), uint64(0)
		if used > binCount || len(cells) >= maxIntervals {
			return nil, errSeries
		}
		for range used {
			bin += v.next()
			count := v.next()
			if v.bad || bin >= binCount || count > math.MaxUint32 {
				return nil, errSeries
			}
			c.bins = append(c.bins, binCountOf{bin: int(bin), count: count})
		}
		if v.bad || c.messages > math.MaxInt64>>16 || c.bytes > math.MaxInt64>>16 {
			return nil, errSeries
		}
		cells = append(cells, c)
	}
	return cells, nil
}

func parseSenderSeries(packed []byte, length int64) ([]senderCell, error) {
	if length <= 0 {
		return nil, errSeries
	}
	v := varints{b: packed}
	var cells []senderCell
	var at int64
	for len(v.b) > 0 {
		at = v.nextCell(at, length)
		streams, stream := v.next(), uint64(0)
		if streams > math.MaxUint16+1 || len(cells) >= maxIntervals {
			return nil, errSeries
		}
		c := senderCell{cell: at}
		for range streams {
			stream += v.next()
			n := sent{v.next(), v.next()}
			if v.bad || stream > math.MaxUint16 || n.messages > math.MaxInt64>>16 || n.bytes > math.MaxInt64>>16 {
				return nil, errSeries
			}
			c.byStream = append(c.byStream, streamCount{stream: uint16(stream), sent: n})
		}
		if v.bad {
			return nil, errSeries
		}
		cells = append(cells, c)
	}
	return cells, nil
}
