package client

import (
	"fmt"

	"felix/internal/wire"
)

// eventDecoder turns the frames of one event stream into Events. It reuses one slice of payloads.
type eventDecoder struct {
	id      uint64
	scope   wire.Scope
	scratch [][]byte
}

// decode reads one frame. The payloads of a binary one lie in body.
func (d *eventDecoder) decode(h wire.Header, body []byte) (Events, error) {
	ev, err := d.frame(h, body)
	if err != nil {
		return Events{}, fmt.Errorf("subscription %d of %s: %w", d.id, d.scope, err)
	}
	d.scratch = ev.Payloads
	return ev, nil
}

func (d *eventDecoder) frame(h wire.Header, body []byte) (Events, error) {
	if h.Flags == 0 {
		return d.message(body)
	}
	b, err := wire.ParseEventBatch(h.Flags, body, d.scratch[:0])
	if err != nil {
		return Events{}, err
	}
	if b.HasSubscriptionID && b.SubscriptionID != d.id {
		return Events{}, fmt.Errorf("event batch of subscription %d", b.SubscriptionID)
	}
	return Events{Payloads: b.Payloads, BaseOffset: b.BaseOffset, HasOffset: b.HasOffset}, nil
}

func (d *eventDecoder) message(body []byte) (Events, error) {
	m, err := wire.ParseMessage(body)
	if err != nil {
		return Events{}, err
	}
	var ev Events
	var offset *uint64
	switch m := m.(type) {
	case wire.Event:
		ev.Payloads, offset = append(d.scratch[:0], m.Payload), m.Offset
	case wire.EventMany:
		ev.Payloads, offset = m.Payloads, m.BaseOffset
	default:
		return Events{}, fmt.Errorf("%q message on an event stream", m.Type())
	}
	if offset != nil {
		ev.BaseOffset, ev.HasOffset = *offset, true
	}
	return ev, nil
}
