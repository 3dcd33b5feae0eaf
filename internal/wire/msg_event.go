package wire

const (
	typeEvent     = "event"
	typeEventMany = "event_batch"
)

// Event is the JSON form of an event of one payload. Brokers of this project send the shared
// binary form; others may send this.
type Event struct {
	Scope   Scope // tenant_id, namespace, stream
	Payload []byte
	Offset  *uint64 // the payload's offset in the stream, from 0
}

// EventMany is the JSON form of an event batch, type "event_batch".
type EventMany struct {
	Scope      Scope // tenant_id, namespace, stream
	Payloads   [][]byte
	BaseOffset *uint64 // the first payload's offset in the stream, from 0
}

// Type is "event".
func (Event) Type() string { return typeEvent }

// Type is "event_batch".
func (EventMany) Type() string { return typeEventMany }

func (m Event) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldStream)
	dst = appendBytesField(dst, fieldPayload, m.Payload)
	return appendOptUintField(dst, fieldOffset, m.Offset)
}

func (m EventMany) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldStream)
	dst = appendBytesListField(dst, fieldPayloads, m.Payloads)
	return appendOptUintField(dst, fieldBaseOffset, m.BaseOffset)
}

func parseEvent(d *decoder) Event {
	return Event{Scope: d.scope(fieldStream), Payload: d.bytes(fieldPayload), Offset: d.optUint64(fieldOffset)}
}

func parseEventMany(d *decoder) EventMany {
	return EventMany{Scope: d.scope(fieldStream), Payloads: d.bytesList(fieldPayloads), BaseOffset: d.optUint64(fieldBaseOffset)}
}
