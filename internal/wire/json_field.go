package wire

// field is a name that some message type uses.
type field uint8

const (
	fieldType field = iota
	fieldTenantID
	fieldToken
	fieldClientFlags
	fieldServerFlags
	fieldNamespace
	fieldStream
	fieldPayload
	fieldPayloads
	fieldRequestID
	fieldAck
	fieldMessage
	fieldSubscriptionID
	fieldStart
	fieldReason
	fieldRequested
	fieldAvailable
	fieldOffset
	fieldBaseOffset
	fieldCache
	fieldKey
	fieldValue
	fieldTTLMs
	fieldCount
)

var fieldNames = [fieldCount]string{
	fieldType:           "type",
	fieldTenantID:       "tenant_id",
	fieldToken:          "token",
	fieldClientFlags:    "client_flags",
	fieldServerFlags:    "server_flags",
	fieldNamespace:      "namespace",
	fieldStream:         "stream",
	fieldPayload:        "payload",
	fieldPayloads:       "payloads",
	fieldRequestID:      "request_id",
	fieldAck:            "ack",
	fieldMessage:        "message",
	fieldSubscriptionID: "subscription_id",
	fieldStart:          "start",
	fieldReason:         "reason",
	fieldRequested:      "requested",
	fieldAvailable:      "available",
	fieldOffset:         "offset",
	fieldBaseOffset:     "base_offset",
	fieldCache:          "cache",
	fieldKey:            "key",
	fieldValue:          "value",
	fieldTTLMs:          "ttl_ms",
}

// fieldByName is fieldNames turned round.
var fieldByName = func() map[string]field {
	m := make(map[string]field, fieldCount)
	for f, name := range fieldNames {
		m[name] = field(f)
	}
	return m
}()
