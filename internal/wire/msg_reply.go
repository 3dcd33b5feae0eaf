package wire

const (
	typeOK    = "ok"
	typeError = "error"
)

// OK answers what has no answer of its own.
type OK struct{}

// Error says that a request failed, or why the stream ends. It is a message, not a Go error.
type Error struct {
	Message string
}

// Type is "ok".
func (OK) Type() string { return typeOK }

// Type is "error".
func (Error) Type() string { return typeError }

func (OK) appendFields(dst []byte) []byte { return dst }

func (m Error) appendFields(dst []byte) []byte { return appendTextField(dst, fieldMessage, m.Message) }
