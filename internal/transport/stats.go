package transport

import (
	"time"
)

// SocketInfo says what the kernel granted to a socket.
type SocketInfo struct {
	// SendBufferGranted and RecvBufferGranted are the buffers in bytes as read back from the
	// kernel (on Linux half of what getsockopt reports, which counts its bookkeeping); -1 where
	// that is not known.
	SendBufferGranted int `json:"send_buffer_granted"`
	RecvBufferGranted int `json:"recv_buffer_granted"`
	// Warnings are sentences for a person: what was asked for and not granted, and what to set.
	Warnings []string `json:"warnings,omitempty"`
	// GSO tells whether one send call may carry several packets (UDP_SEGMENT); nil if not known.
	GSO *bool `json:"gso"`
	// GRO tells whether the kernel may merge packets that it received (UDP_GRO); nil if not known.
	GRO *bool `json:"gro"`
	// RecvGateBytes is the receive gate in effect: Config.RecvGateBytes, 0 for none.
	RecvGateBytes int64 `json:"recv_gate_bytes"`
	// Shared is true if the socket may carry several connections.
	Shared bool `json:"shared"`
	// Reads are the wake-ups of the loop that reads the socket; nil if they are not counted.
	Reads *Wakeups `json:"reads,omitempty"`
	// Gate counts the waits of the receive gate; nil without one.
	Gate *GateStats `json:"gate,omitempty"`
	// Unavailable tells for each fact that is null or -1 (by its JSON name) why.
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

// ConnStats are the statistics of one connection at one moment, counted from its beginning.
// A nil pointer is a fact that cannot be known here; Unavailable says why.
type ConnStats struct {
	At     time.Time `json:"at"`
	ID     string    `json:"id"`   // unique in the process
	Pair   string    `json:"pair"` // the same at both ends of a connection, and no other's
	Role   string    `json:"role"` // Config.Role
	Local  string    `json:"local"`
	Remote string    `json:"remote"`
	Closed bool      `json:"closed"`
	// CloseReason is the error the connection ended with; empty while it is open.
	CloseReason string `json:"close_reason,omitempty"`
	// NoProgress is true if it ended because full packets did not arrive (IsNoProgress).
	NoProgress bool `json:"no_progress,omitempty"`

	// MTUBytes is the size of full packets (UDP payload) sent now. It is the segment size of the
	// newest segmented send; on sockets without segmentation it is the largest size sent more
	// often than path MTU discovery tries one, so a lost probe is no MTU.
	MTUBytes  *int  `json:"mtu_bytes"`
	CwndBytes int64 `json:"cwnd_bytes"`

	RTTMin      time.Duration `json:"rtt_min_ns"`
	RTTSmoothed time.Duration `json:"rtt_smoothed_ns"`
	RTTLatest   time.Duration `json:"rtt_latest_ns"`

	// quic-go's counters. Lost ones can go down again, when a packet taken for lost arrives.
	// PacketsReceived leaves out duplicates and what could not be decrypted; BytesReceived has
	// every datagram that the connection took from its queue.
	PacketsSent     uint64 `json:"packets_sent"`
	PacketsReceived uint64 `json:"packets_received"`
	PacketsLost     uint64 `json:"packets_lost"`
	BytesSent       uint64 `json:"bytes_sent"`
	BytesReceived   uint64 `json:"bytes_received"`
	BytesLost       uint64 `json:"bytes_lost"`

	// DatagramsSent and SendCalls count what the kernel took: datagrams, and the calls they went
	// in. Calls that failed are in SendErrors only, by the name of the errno (quic-go itself
	// says nothing of EMSGSIZE).
	DatagramsSent *uint64           `json:"datagrams_sent"`
	SendCalls     *uint64           `json:"send_calls"`
	SendErrors    map[string]uint64 `json:"send_errors,omitempty"`

	// DatagramsReceived and BytesHandedOver count what was read from the socket for this peer and
	// handed to quic-go, including what its queue of 256 packets then dropped.
	// OwnQueueBytes draws the difference.
	DatagramsReceived *uint64 `json:"datagrams_received"`
	BytesHandedOver   *uint64 `json:"bytes_handed_over"`

	// SharedSocket is true if the socket may carry other connections too, as a listener's does. The
	// socket's figures are then kept by the peer's address, so they are still this connection's
	// own; if two connections share socket and address, the figures are null, and MTUBytes is the
	// newest of them all.
	SharedSocket bool `json:"shared_socket"`

	// Unavailable tells for each fact that is null (by its JSON name) why.
	Unavailable map[string]string `json:"unavailable,omitempty"`
}

// OwnQueueBytes returns the bytes that were handed to quic-go and that the connection has not
// taken: dropped by its receive queue, or waiting in it at this moment. It reports false if the
// socket's side is not known. quic-go counts a datagram twice that came before the keys to read
// it, so a few handshake packets can make the figure negative; differences of two moments are exact.
func (s ConnStats) OwnQueueBytes() (int64, bool) {
	if s.BytesHandedOver == nil {
		return 0, false
	}
	return int64(*s.BytesHandedOver) - int64(s.BytesReceived), true
}
