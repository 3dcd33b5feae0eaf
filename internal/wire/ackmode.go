package wire

import "fmt"

// AckMode is what a publisher asks to be told. Its number is that of the binary form.
type AckMode uint8

const (
	AckNone       AckMode = 0 // nothing; not a mode of an acked frame
	AckPerMessage AckMode = 1
	AckPerBatch   AckMode = 2
)

var ackModeNames = [...]string{"none", "per_message", "per_batch"}

// String is the mode's name in JSON: "none", "per_message" or "per_batch".
func (m AckMode) String() string {
	if int(m) < len(ackModeNames) {
		return ackModeNames[m]
	}
	return fmt.Sprintf("ackmode(%d)", uint8(m))
}

// ParseAckMode parses the text of String; its error lists the choices.
func ParseAckMode(text string) (AckMode, error) {
	for i, name := range ackModeNames {
		if text == name {
			return AckMode(i), nil
		}
	}
	return 0, fmt.Errorf("ack mode %.64q: want none, per_message or per_batch", text)
}

// MarshalText fails on a mode that has no name.
func (m AckMode) MarshalText() ([]byte, error) {
	if int(m) >= len(ackModeNames) {
		return nil, fmt.Errorf("ack mode %d: want none, per_message or per_batch", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText is ParseAckMode.
func (m *AckMode) UnmarshalText(text []byte) error {
	v, err := ParseAckMode(string(text))
	if err == nil {
		*m = v
	}
	return err
}
