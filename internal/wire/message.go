package wire

import "fmt"

// Message is a JSON message: the body of a frame whose flags are 0. The types of this package are
// the only ones, and each has them all by value: Auth, AuthOK, Publish, PublishMany, PublishOK,
// PublishError, Subscribe, Subscribed, SubscribeCursorError, EventStreamHello, Event, EventMany,
// CachePut, CacheGet, CacheValue, CacheOK, OK and Error.
//
// A pointer field is optional: nil is left out of the encoding, and is what absent and null decode
// to. Byte fields travel as standard base64 with padding.
type Message interface {
	// Type is the message's type tag, such as "publish".
	Type() string
	// appendFields appends ,"name":value for each field in the protocol's order.
	appendFields(dst []byte) []byte
}

// AppendMessage appends the whole frame of m, header and body, to dst. Text that is not UTF-8 has
// its bad bytes replaced by U+FFFD.
func AppendMessage(dst []byte, m Message) []byte {
	start := len(dst)
	dst = Header{}.Append(dst)
	dst = appendMessageBody(dst, m)
	Header{Length: len(dst) - start - HeaderLen}.Put(dst[start:])
	return dst
}

func appendMessageBody(dst []byte, m Message) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, m.Type())
	dst = m.appendFields(dst)
	return append(dst, '}')
}

// ParseMessage reads the body of a JSON frame and returns one of the message types, by value.
// Nothing of it aliases body.
//
// Field names are matched exactly, unknown fields are ignored, and a field of the type that occurs
// twice is an error. Every error is ErrMalformed: ErrSyntax, ErrMissingField, ErrUnknownType,
// ErrValue or ErrTrailing.
func ParseMessage(body []byte) (Message, error) {
	var d decoder
	if err := d.scan(body); err != nil {
		return nil, fmt.Errorf("malformed message: %w", err)
	}
	typ := d.plain(fieldType)
	if d.err != nil {
		return nil, fmt.Errorf("malformed message: %w", d.err)
	}
	m := d.message(typ)
	if d.err != nil {
		return nil, fmt.Errorf("malformed message: %.64q: %w", typ, d.err)
	}
	return m, nil
}

// message decodes the fields of a message of this type. After a fault d.err is set and the result
// is worth nothing.
func (d *decoder) message(typ []byte) Message {
	switch string(typ) {
	case typePublish:
		return parsePublish(d)
	case typePublishMany:
		return parsePublishMany(d)
	case typeEvent:
		return parseEvent(d)
	case typeEventMany:
		return parseEventMany(d)
	case typePublishOK:
		return PublishOK{RequestID: d.uint64(fieldRequestID)}
	case typePublishError:
		return PublishError{RequestID: d.uint64(fieldRequestID), Message: d.text(fieldMessage)}
	case typeAuth:
		return parseAuth(d)
	case typeAuthOK:
		return AuthOK{ServerFlags: d.flags(fieldServerFlags)}
	case typeSubscribe:
		return parseSubscribe(d)
	case typeSubscribed:
		return Subscribed{SubscriptionID: d.uint64(fieldSubscriptionID)}
	case typeSubscribeCursorError:
		return parseSubscribeCursorError(d)
	case typeEventStreamHello:
		return EventStreamHello{SubscriptionID: d.uint64(fieldSubscriptionID)}
	case typeCachePut:
		return parseCachePut(d)
	case typeCacheGet:
		return parseCacheGet(d)
	case typeCacheValue:
		return parseCacheValue(d)
	case typeCacheOK:
		return CacheOK{RequestID: d.uint64(fieldRequestID)}
	case typeOK:
		return OK{}
	case typeError:
		return Error{Message: d.text(fieldMessage)}
	}
	d.err = ErrUnknownType
	return nil
}
