package client

import (
	"maps"
)

// PublisherStats are totals since NewPublisher. Unless a name says otherwise they count messages;
// Batches, Messages and Bytes (of payload) count what Publish accepted. The fields are read one
// after the other: they agree when nothing is under way.
type PublisherStats struct {
	Batches  uint64 `json:"batches"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`

	// Written counts what Write took, WrittenBytes in bytes of frames, Writes in calls; Acked what
	// the broker acked positively.
	Written        uint64 `json:"written"`
	WrittenBatches uint64 `json:"written_batches"`
	WrittenBytes   uint64 `json:"written_bytes"`
	Writes         uint64 `json:"writes"`
	Acked          uint64 `json:"acked"`
	AckedBatches   uint64 `json:"acked_batches"`
	// Refused counts negative acks by the broker's text, Failed what was accepted and then lost
	// with its worker, by FailCause. Unacked messages that were written are not Failed even if
	// their connection breaks: Close reports those.
	Refused map[string]uint64 `json:"refused"`
	Failed  map[string]uint64 `json:"failed"`

	// Time that Publish waited at checkpoints 1 and 2, summed over its callers, and that the
	// writers spent in Write, summed over the workers.
	BlockedAdmissionNs int64 `json:"blocked_admission_ns"`
	BlockedQueueNs     int64 `json:"blocked_queue_ns"`
	BlockedWriteNs     int64 `json:"blocked_write_ns"`

	// AdmittedHighWaterBytes is the most that was held against PublishInflightBytes, QueueHighWater
	// the most batches that waited for one worker.
	AdmittedHighWaterBytes int64 `json:"admitted_high_water_bytes"`
	QueueHighWater         int   `json:"queue_high_water"`

	// WriterWakeups are the writers' (items are batches, bytes are of frames), AckWakeups the ack
	// readers' (items are acks).
	WriterWakeups Wakeups `json:"writer_wakeups"`
	AckWakeups    Wakeups `json:"ack_wakeups"`

	Workers      int `json:"workers"`
	WorkersEnded int `json:"workers_ended"`
	// QUICStreamsUsed has every connection of the pool.
	QUICStreamsUsed []ConnStreams `json:"quic_streams_used"`
}

// ConnStreams says how many QUIC streams of a connection have carried at least one batch.
type ConnStreams struct {
	ConnID      string `json:"conn_id"` // as in transport.ConnStats
	QUICStreams int    `json:"quic_streams"`
}

// Stats returns the totals. It may be called at any time, also after Close.
func (p *Publisher) Stats() PublisherStats {
	s := PublisherStats{
		BlockedAdmissionNs: p.admitNs.Load(), AdmittedHighWaterBytes: p.admission.high.Load(),
		Workers: len(p.workers),
	}
	for _, c := range p.conns {
		s.QUICStreamsUsed = append(s.QUICStreamsUsed, ConnStreams{ConnID: c.ID()})
	}
	perConn := len(p.workers) / len(p.conns)
	for i, w := range p.workers {
		s.Batches += w.accepted.batches.Load()
		s.Messages += w.accepted.messages.Load()
		s.Bytes += w.payload.Load()
		s.WrittenBatches += w.written.batches.Load()
		s.Written += w.written.messages.Load()
		s.WrittenBytes += w.wireBytes.Load()
		s.Writes += w.writeCalls.Load()
		s.AckedBatches += w.acked.batches.Load()
		s.Acked += w.acked.messages.Load()
		s.BlockedQueueNs += w.queueNs.Load()
		s.QueueHighWater = max(s.QueueHighWater, int(w.queueHigh.Load()))
		s.BlockedWriteNs += w.writeNs.Load()
		s.WriterWakeups.add(w.writes.snapshot())
		s.AckWakeups.add(w.acks.snapshot())
		if w.failed() != nil {
			s.WorkersEnded++
		}
		if w.written.batches.Load() > 0 {
			s.QUICStreamsUsed[i/perConn].QUICStreams++
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Refused, s.Failed = maps.Clone(p.refused), maps.Clone(p.failed)
	return s
}
