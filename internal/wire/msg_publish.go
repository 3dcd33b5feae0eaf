package wire

const (
	typePublish      = "publish"
	typePublishMany  = "publish_batch"
	typePublishOK    = "publish_ok"
	typePublishError = "publish_error"
)

// Publish is the JSON form of a publish of one payload.
type Publish struct {
	Scope     Scope // tenant_id, namespace, stream
	Payload   []byte
	RequestID *uint64
	// Ack is nil if the message has none, which is not the same as AckNone.
	Ack *AckMode
}

// PublishMany is the JSON form of a publish batch, type "publish_batch".
type PublishMany struct {
	Scope     Scope // tenant_id, namespace, stream
	Payloads  [][]byte
	RequestID *uint64
	// Ack is nil if the message has none, which is not the same as AckNone.
	Ack *AckMode
}

// PublishOK answers an acked JSON publish that succeeded.
type PublishOK struct {
	RequestID uint64
}

// PublishError answers an acked JSON publish that failed.
type PublishError struct {
	RequestID uint64
	Message   string
}

// Type is "publish".
func (Publish) Type() string { return typePublish }

// Type is "publish_batch".
func (PublishMany) Type() string { return typePublishMany }

// Type is "publish_ok".
func (PublishOK) Type() string { return typePublishOK }

// Type is "publish_error".
func (PublishError) Type() string { return typePublishError }

func (m Publish) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldStream)
	dst = appendBytesField(dst, fieldPayload, m.Payload)
	return appendAckFields(dst, m.RequestID, m.Ack)
}

func (m PublishMany) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldStream)
	dst = appendBytesListField(dst, fieldPayloads, m.Payloads)
	return appendAckFields(dst, m.RequestID, m.Ack)
}

func (m PublishOK) appendFields(dst []byte) []byte {
	return appendUintField(dst, fieldRequestID, m.RequestID)
}

func (m PublishError) appendFields(dst []byte) []byte {
	dst = appendUintField(dst, fieldRequestID, m.RequestID)
	return appendTextField(dst, fieldMessage, m.Message)
}

func appendAckFields(dst []byte, requestID *uint64, ack *AckMode) []byte {
	dst = appendOptUintField(dst, fieldRequestID, requestID)
	if ack != nil {
		dst = appendTextField(dst, fieldAck, ack.String())
	}
	return dst
}

func parsePublish(d *decoder) Publish {
	return Publish{
		Scope:     d.scope(fieldStream),
		Payload:   d.bytes(fieldPayload),
		RequestID: d.optUint64(fieldRequestID),
		Ack:       d.optAckMode(fieldAck),
	}
}

func parsePublishMany(d *decoder) PublishMany {
	return PublishMany{
		Scope:     d.scope(fieldStream),
		Payloads:  d.bytesList(fieldPayloads),
		RequestID: d.optUint64(fieldRequestID),
		Ack:       d.optAckMode(fieldAck),
	}
}
