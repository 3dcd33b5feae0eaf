package service

import (
	"errors"
	"strings"

	"felix/internal/settings"
)

// DefaultDevStream is registered by Request.Dev when nothing else is.
const DefaultDevStream = "t1/default/latency"

// Request is a broker as a command line asks for it. Empty fields ask for nothing.
type Request struct {
	Config          string   // YAML file; if empty, the one that FELIX_BROKER_CONFIG names
	Environ         []string // as os.Environ
	Sets            []string // key=value
	QUICBind        string
	MetricsBind     string
	Streams, Caches []string // scopes to register, in place of those of weaker layers
	// Dev is a directory to make credentials in; DefaultDevStream is registered if no layer
	// registers a stream.
	Dev string
}

// Options resolves the settings of every layer. With Dev it also makes the credentials and
// writes them; without, the *Dev is nil. What a person can mend is a *settings.Error.
func (r Request) Options() (Options, *Dev, error) {
	l, err := settings.LayersFor(r.Config, r.Environ, nil)
	if err != nil {
		return Options{}, nil, err
	}
	for _, kv := range r.Sets {
		s, err := settings.ParseSet(kv)
		if err != nil {
			return Options{}, nil, err
		}
		s.From = "flag --set"
		l.More = append(l.More, s)
	}
	add := func(key, value, from string) {
		if value != "" {
			l.More = append(l.More, settings.Set{Key: key, Value: value, From: from})
		}
	}
	add("quic_bind", r.QUICBind, "flag --quic-bind")
	add("metrics_bind", r.MetricsBind, "flag --metrics-bind")
	add("streams", strings.Join(r.Streams, ","), "flag --stream")
	add("caches", strings.Join(r.Caches, ","), "flag --cache")

	var b settings.Broker
	var t settings.Transport
	resolved, err := settings.LoadAll(l, &b, &t)
	if err == nil && r.Dev != "" && len(b.Streams) == 0 {
		add("streams", DefaultDevStream, "flag --dev")
		resolved, err = settings.LoadAll(l, &b, &t)
	}
	if err != nil {
		return Options{}, nil, err
	}
	o := Options{Broker: &b, Transport: &t, Config: resolved.Sections}
	if r.Dev == "" {
		return o, nil, nil
	}
	d, err := newDev(r.Dev, &o)
	return o, d, err
}

// Hint is what a person can do about an error of this package, "" if that is not known.
func Hint(err error) string {
	var e *settings.Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// Nearest is settings.Nearest, for a command that has no other business with settings.
func Nearest(word string, candidates []string) string { return settings.Nearest(word, candidates) }
