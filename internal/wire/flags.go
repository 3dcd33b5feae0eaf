package wire

import (
	"fmt"
	"strings"
)

// Flags is the flags field of a frame header, and what auth and auth_ok offer of it.
type Flags uint16

const (
	FlagPublish            Flags = 0x0001 // binary publish batch
	FlagEventPerSubscriber Flags = 0x0002 // binary event batch that begins with its subscription id
	FlagEventShared        Flags = 0x0004 // binary event batch without one: the stream's hello gave it
	FlagAcked              Flags = 0x0008 // modifies FlagPublish: request id and ack mode come first
	FlagPublishAck         Flags = 0x0010 // binary publish ack, broker to client
	FlagEventOffsets       Flags = 0x0020 // modifies the event flags: the base offset precedes the count

	// KnownFlags are all bits that this package knows, and what a broker advertises.
	KnownFlags Flags = 0x003F
	// OriginalV1Flags is what silence about flags means: a peer that offers none knows these.
	OriginalV1Flags Flags = 0x0007
)

// flagNames are in bit order.
var flagNames = [...]string{"publish", "event_per_subscriber", "event_shared", "acked", "publish_ack", "event_offsets"}

// String names the bits, for logs: "publish|acked", "json" for 0, "0x0040" for an unknown bit.
func (f Flags) String() string {
	if f == 0 {
		return "json"
	}
	var parts []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			parts = append(parts, name)
		}
	}
	if u := f &^ KnownFlags; u != 0 {
		parts = append(parts, fmt.Sprintf("0x%04x", uint16(u)))
	}
	return strings.Join(parts, "|")
}

// Has reports whether all bits of want are set.
func (f Flags) Has(want Flags) bool { return f&want == want }

// Kind is what the body of a frame is. The zero Kind is that of unsupported flags.
type Kind uint8

const (
	KindUnsupported        Kind = iota
	KindJSON                    // one JSON message
	KindPublish                 // publish batch that nobody answers
	KindPublishAcked            // publish batch with request id and ack mode
	KindEventPerSubscriber      // event batch with a subscription id, with or without base offset
	KindEventShared             // event batch without one, with or without base offset
	KindPublishAck              // publish ack
)

var kindNames = [...]string{"unsupported", "json", "publish", "publish_acked", "event_per_subscriber", "event_shared", "publish_ack"}

// String is the kind's name in logs.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// FromClient reports whether a client may send frames of this kind.
func (k Kind) FromClient() bool {
	return k == KindJSON || k == KindPublish || k == KindPublishAcked
}

// FromBroker reports whether a broker may send frames of this kind.
func (k Kind) FromBroker() bool {
	return k == KindJSON || k == KindEventPerSubscriber || k == KindEventShared || k == KindPublishAck
}

// Kind classifies the flags of a header. Unknown bits, a modifier without what it modifies and two
// bodies at once are ErrUnsupportedFlags; no bit is ever masked off. Whether the direction is right
// is another question: see FromClient and FromBroker.
func (f Flags) Kind() (Kind, error) {
	switch f {
	case 0:
		return KindJSON, nil
	case FlagPublish:
		return KindPublish, nil
	case FlagPublish | FlagAcked:
		return KindPublishAcked, nil
	case FlagEventPerSubscriber, FlagEventPerSubscriber | FlagEventOffsets:
		return KindEventPerSubscriber, nil
	case FlagEventShared, FlagEventShared | FlagEventOffsets:
		return KindEventShared, nil
	case FlagPublishAck:
		return KindPublishAck, nil
	}
	if u := f &^ KnownFlags; u != 0 {
		return KindUnsupported, fmt.Errorf("%w: unknown bits 0x%04x", ErrUnsupportedFlags, uint16(u))
	}
	return KindUnsupported, fmt.Errorf("%w: impossible combination %s", ErrUnsupportedFlags, f)
}
