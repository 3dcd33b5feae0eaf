package wire

const (
	typeCachePut   = "cache_put"
	typeCacheGet   = "cache_get"
	typeCacheValue = "cache_value"
	typeCacheOK    = "cache_ok"
)

// CachePut stores a value.
type CachePut struct {
	Scope     Scope // tenant_id, namespace, and in Stream the cache
	Key       string
	Value     []byte
	RequestID *uint64
	// TTLMs is the value's life in milliseconds. Nil is for ever: it is written as null, and is
	// what null and absent decode to.
	TTLMs *uint64
}

// CacheGet asks for a value.
type CacheGet struct {
	Scope     Scope // tenant_id, namespace, and in Stream the cache
	Key       string
	RequestID *uint64
}

// CacheValue answers a CacheGet.
type CacheValue struct {
	Scope Scope // tenant_id, namespace, and in Stream the cache
	Key   string
	// Value is nil, written as null, if it is missing or expired. An empty value is not nil.
	Value     []byte
	RequestID *uint64
}

// CacheOK answers a CachePut that had a request id; without one the answer is OK.
type CacheOK struct {
	RequestID uint64
}

// Type is "cache_put".
func (CachePut) Type() string { return typeCachePut }

// Type is "cache_get".
func (CacheGet) Type() string { return typeCacheGet }

// Type is "cache_value".
func (CacheValue) Type() string { return typeCacheValue }

// Type is "cache_ok".
func (CacheOK) Type() string { return typeCacheOK }

func (m CachePut) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldCache)
	dst = appendTextField(dst, fieldKey, m.Key)
	dst = appendBytesField(dst, fieldValue, m.Value)
	dst = appendOptUintField(dst, fieldRequestID, m.RequestID)
	if m.TTLMs == nil {
		return appendNullField(dst, fieldTTLMs)
	}
	return appendUintField(dst, fieldTTLMs, *m.TTLMs)
}

func (m CacheGet) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldCache)
	dst = appendTextField(dst, fieldKey, m.Key)
	return appendOptUintField(dst, fieldRequestID, m.RequestID)
}

func (m CacheValue) appendFields(dst []byte) []byte {
	dst = appendScopeFields(dst, m.Scope, fieldCache)
	dst = appendTextField(dst, fieldKey, m.Key)
	if m.Value == nil {
		dst = appendNullField(dst, fieldValue)
	} else {
		dst = appendBytesField(dst, fieldValue, m.Value)
	}
	return appendOptUintField(dst, fieldRequestID, m.RequestID)
}

func (m CacheOK) appendFields(dst []byte) []byte {
	return appendUintField(dst, fieldRequestID, m.RequestID)
}

func parseCachePut(d *decoder) CachePut {
	return CachePut{
		Scope:     d.scope(fieldCache),
		Key:       d.text(fieldKey),
		Value:     d.bytes(fieldValue),
		RequestID: d.optUint64(fieldRequestID),
		// The table has this field without "?", with null for none. One that is absent can mean
		// nothing else, so it is not worth ending the sender's stream for.
		TTLMs: d.optUint64(fieldTTLMs),
	}
}

func parseCacheGet(d *decoder) CacheGet {
	return CacheGet{Scope: d.scope(fieldCache), Key: d.text(fieldKey), RequestID: d.optUint64(fieldRequestID)}
}

func parseCacheValue(d *decoder) CacheValue {
	m := CacheValue{Scope: d.scope(fieldCache), Key: d.text(fieldKey), RequestID: d.optUint64(fieldRequestID)}
	// Null is a value here, and absent is not.
	if d.has(fieldValue) || d.fields[fieldValue].kind == 0 {
		m.Value = d.bytes(fieldValue)
	}
	return m
}
