package trial

import (
	"errors"
	"strings"

	"felix/client"
)

// hintFor says what to do about an error of setting up, "" where there is nothing that a user could.
func hintFor(err error) string {
	var refused *client.BrokerError
	var usage *UsageError
	switch {
	case errors.As(err, &usage):
		return usage.Hint
	case errors.Is(err, client.ErrCertificate):
		return "trust the broker's certificate with --tls-ca FILE (brokerd --dev DIR writes DIR/cert.pem) or --tls-pin SHA256"
	case errors.Is(err, client.ErrAuth):
		return "--tenant and --token FILE must be of one tenant that the broker has keys for (brokerd --dev DIR writes DIR/token)"
	case errors.Is(err, client.ErrUnreachable):
		return "check --broker HOST:PORT; start a broker with: go run ./broker/brokerd --dev DIR"
	case errors.Is(err, client.ErrHandshake):
		return "something answers there, but it is no Felix broker: check --broker HOST:PORT"
	case errors.As(err, &refused) && strings.Contains(refused.Message, "stream not found"):
		return "register it on the broker with --stream T/N/S, or let the demo start its own broker"
	case errors.As(err, &refused) && strings.Contains(refused.Message, "max subscriptions"):
		return "spread the subscriptions over more connections with --sub-conns, or raise max_subscriptions_per_conn on the broker"
	case errors.As(err, &refused):
		return "the token must permit stream.publish and stream.subscribe on the stream"
	}
	return ""
}
