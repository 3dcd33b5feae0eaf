// Package transport opens QUIC connections and listeners over UDP sockets of its own and keeps
// statistics of every connection: what quic-go knows (round trips, congestion window, loss), what
// only the socket knows (datagrams, send calls, errors, packet size) and what the kernel granted.
//
// It knows nothing of Felix's frames. It sets no ALPN, and it never turns certificate verification
// off: a peer is trusted by a certificate authority, by a certificate file or by a pinned digest.
package transport
