package wire

import "fmt"

const (
	typeSubscribe            = "subscribe"
	typeSubscribed           = "subscribed"
	typeSubscribeCursorError = "subscribe_cursor_error"
	typeEventStreamHello     = "event_stream_hello"
)

// The reasons of a SubscribeCursorError.
const (
	CursorTooOld   = "too_old"
	CursorInFuture = "in_future"
)

// StartKind is where a subscription begins.
type StartKind uint8

const (
	StartLatest   StartKind = iota // what is published from now on
	StartEarliest                  // the oldest payload that the stream still has
	StartOffset                    // a given offset
)

var startKindNames = [...]string{"latest", "earliest", "offset"}

// String is "latest", "earliest" or "offset".
func (k StartKind) String() string {
	if int(k) < len(startKindNames) {
		return startKindNames[k]
	}
	return fmt.Sprintf("startkind(%d)", uint8(k))
}

// MarshalText fails on a kind that has no name.
func (k StartKind) MarshalText() ([]byte, error) {
	if int(k) >= len(startKindNames) {
		return nil, fmt.Errorf("start %d: want latest, earliest or offset", uint8(k))
	}
	return []byte(k.String()), nil
}

// UnmarshalText takes the text of String; its error lists the choices.
func (k *StartKind) UnmarshalText(text []byte) error {
	for i, name := range startKindNames {
		if string(text) == name {
			*k = StartKind(i)
			return nil
		}
	}
	return fmt.Errorf("start %.64q: want latest, earliest or offset", text)
}

// Start is where a subscription begins. The zero Start is the latest.
type Start struct {
	Kind StartKind
	// Offset counts the stream's payloads from 0. Only StartOffset uses it.
	Offset uint64
}

// String is "latest", "earliest" or "offset 41".
func (s Start) String() string {
	if s.Kind == StartOffset {
		return fmt.Sprintf("offset %d", s.Offset)
	}
	return s.Kind.String()
}

// Subscribe asks for the events of a stream.
type Subscribe struct {
	Scope          Scope   // tenant_id, namespace, stream
	SubscriptionID *uint64 // chosen by the client; nil leaves the choice to the broker
	Start          *Start  // nil is the latest
}

// Subscribed answers a Subscribe once delivery is set up.
type Subscribed struct {
	SubscriptionID uint64
}

// SubscribeCursorError answers a Subscribe whose start is not to be had.
type SubscribeCursorError struct {
	Reason string // CursorTooOld or CursorInFuture
	// Requested is the offset asked for, Available the nearest one that can be had.
	Requested, Available uint64
}

// EventStreamHello is the first frame of an event stream: it says which subscription's it is.
type EventStreamHello struct {
	SubscriptionID uint64
}

// Type is "subscribe".
func (Subscribe) Type() string { return typeSubscribe }

// Type is "subscribed".
func (Subscribed) Type() string { return typeSubscribed }

// Type is "subscribe_cursor_error".
func (SubscribeCursorError) Type() string { return typeSubscribeCursorError }

// Type is "event_stream_hello".
func (EventStreamHello) Type() string { return typeEventStreamHello }

func (m Subscribe) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldStream)
	dst = appendOptUintField(dst, fieldSubscriptionID, m.SubscriptionID)
	if m.Start == nil {
		return dst
	}
	if m.Start.Kind != StartOffset {
		return appendTextField(dst, fieldStart, m.Start.Kind.String())
	}
	dst = appendFieldName(dst, fieldStart)
	dst = append(dst, `{"offset":`...)
	dst = appendUint(dst, m.Start.Offset)
	return append(dst, '}')
}

func (m Subscribed) appendFields(dst []byte) []byte {
	return appendUintField(dst, fieldSubscriptionID, m.SubscriptionID)
}

func (m SubscribeCursorError) appendFields(dst []byte) []byte {
	dst = appendTextField(dst, fieldReason, m.Reason)
	dst = appendUintField(dst, fieldRequested, m.Requested)
	return appendUintField(dst, fieldAvailable, m.Available)
}

func (m EventStreamHello) appendFields(dst []byte) []byte {
	return appendUintField(dst, fieldSubscriptionID, m.SubscriptionID)
}

func parseSubscribe(d *decoder) Subscribe {
	return Subscribe{
		Scope:          d.scope(fieldStream),
		SubscriptionID: d.optUint64(fieldSubscriptionID),
		Start:          parseStart(d),
	}
}

// parseStart reads "latest", "earliest" or {"offset": n}.
func parseStart(d *decoder) *Start {
	if !d.has(fieldStart) {
		return nil
	}
	if d.fields[fieldStart].kind == '{' {
		var inner decoder
		err := inner.scan(d.fields[fieldStart].raw)
		offset := inner.uint64(fieldOffset)
		if err == nil {
			err = inner.err
		}
		if err != nil {
			d.fail(fieldStart, err)
		}
		return &Start{Kind: StartOffset, Offset: offset}
	}
	switch text := d.text(fieldStart); text {
	case "latest":
		return &Start{Kind: StartLatest}
	case "earliest":
		return &Start{Kind: StartEarliest}
	default:
		d.fail(fieldStart, fmt.Errorf(`%w %.64q: want "latest", "earliest" or {"offset": n}`, ErrValue, text))
		return nil
	}
}

func parseSubscribeCursorError(d *decoder) SubscribeCursorError {
	return SubscribeCursorError{
		Reason:    d.text(fieldReason),
		Requested: d.uint64(fieldRequested),
		Available: d.uint64(fieldAvailable),
	}
}
