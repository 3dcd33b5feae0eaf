package wire

const (
	typeAuth   = "auth"
	typeAuthOK = "auth_ok"
)

// Auth is the first frame of every stream that a client opens.
type Auth struct {
	TenantID string
	Token    string // JWT
	// ClientFlags is what the client knows. Nil offers nothing, which means OriginalV1Flags.
	ClientFlags *Flags
}

// AuthOK answers an Auth that offered flags; without them the answer is OK.
type AuthOK struct {
	// ServerFlags is all that the broker knows.
	ServerFlags Flags
}

// Type is "auth".
func (Auth) Type() string { return typeAuth }

// Type is "auth_ok".
func (AuthOK) Type() string { return typeAuthOK }

func (m Auth) appendFields(dst []byte) []byte {
	dst = appendTextField(dst, fieldTenantID, m.TenantID)
	dst = appendTextField(dst, fieldToken, m.Token)
	if m.ClientFlags != nil {
		dst = appendUintField(dst, fieldClientFlags, uint64(*m.ClientFlags))
	}
	return dst
}

func (m AuthOK) appendFields(dst []byte) []byte {
	return appendUintField(dst, fieldServerFlags, uint64(m.ServerFlags))
}

func parseAuth(d *decoder) Auth {
	m := Auth{TenantID: d.text(fieldTenantID), Token: d.text(fieldToken)}
	if d.has(fieldClientFlags) {
		f := d.flags(fieldClientFlags)
		m.ClientFlags = &f
	}
	return m
}
