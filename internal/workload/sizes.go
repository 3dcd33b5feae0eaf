package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"felix/internal/settings"
)

// Sizes is how much of a case is run and how long a trial waits: what latencydemo's flags of the same names mean.
// The zero value is their defaults. None of it is part of a case's key.
type Sizes struct {
	Total           int64          `json:"total,omitempty"`             // messages of the measure phase over all publishers; 0 = auto
	Duration        time.Duration  `json:"duration_ns,omitempty"`       // ends the measure phase by time; 0 = none
	Warmup          *int64         `json:"warmup,omitempty"`            // messages over all publishers; nil = auto
	SendWindow      int64          `json:"send_window_bytes,omitempty"` // of the broker's connections; 0 = as configured, 64 MiB
	MaxDeliveries   int64          `json:"max_deliveries,omitempty"`    // ends total auto; 0 = DefaultMaxDeliveries
	AllowUndersized bool           `json:"allow_undersized,omitempty"`  // a throughput run that is too small is a warning
	IdleTimeout     time.Duration  `json:"idle_timeout_ns,omitempty"`   // without a delivery, at the barrier and in the drain; 0 = latencydemo's
	Seed            *uint64        `json:"seed,omitempty"`              // of payload bytes and Poisson arrivals; nil = latencydemo's
	ConnStats       *time.Duration `json:"conn_stats_ns,omitempty"`     // sampling of connection statistics, 0 = only at the end; nil = latencydemo's
}

// Flags lists the flags of latencydemo that mean these sizes, without those at their default.
func (z Sizes) Flags() []string {
	var f []string
	add := func(name, value string) { f = append(f, "--"+name, value) }
	if z.Total > 0 {
		add("total", strconv.FormatInt(z.Total, 10))
	}
	if z.Duration > 0 {
		add("duration", z.Duration.String())
	}
	if z.Warmup != nil {
		add("warmup", strconv.FormatInt(*z.Warmup, 10))
	}
	if z.SendWindow > 0 {
		add("send-window", strconv.FormatInt(z.SendWindow, 10))
	}
	if z.MaxDeliveries > 0 {
		add("max-deliveries", strconv.FormatInt(z.MaxDeliveries, 10))
	}
	if z.AllowUndersized {
		f = append(f, "--allow-undersized")
	}
	if z.IdleTimeout > 0 {
		add("idle-timeout", z.IdleTimeout.String())
	}
	if z.Seed != nil {
		add("seed", strconv.FormatUint(*z.Seed, 10))
	}
	if z.ConnStats != nil {
		add("conn-stats", z.ConnStats.String())
	}
	return f
}

// sizeKeys are the keys of `sizes:` in a grid: the flags, with underscores.
var sizeKeys = []string{"total", "duration", "warmup", "send_window", "max_deliveries", "allow_undersized", "idle_timeout", "seed", "conn_stats"}

// minSendWindow is latencydemo's.
const minSendWindow = 1 << 20

// sizes reads `sizes:` over what holds without them.
func (d document) sizes(n *yaml.Node, z Sizes) (Sizes, error) {
	entries, err := d.mapping(n, "sizes", sizeKeys)
	if err != nil {
		return z, err
	}
	for _, e := range entries {
		text, err := d.scalar(e.value, e.key)
		if err != nil {
			return z, err
		}
		if err := z.set(e.key, text); err != nil {
			return z, d.refuse(e.value, "", "%s %q: %v", e.key, text, err)
		}
	}
	return z, nil
}

func (z *Sizes) set(key, s string) error {
	var err error
	switch key {
	case "total":
		z.Total = 0
		if s != "auto" {
			z.Total, err = number(s, 1)
		}
	case "warmup":
		z.Warmup = nil
		if s != "auto" {
			z.Warmup = new(int64)
			*z.Warmup, err = number(s, 0)
		}
	case "max_deliveries":
		z.MaxDeliveries, err = number(s, 1)
	case "seed":
		z.Seed = new(uint64)
		*z.Seed, err = strconv.ParseUint(s, 10, 64)
	case "send_window":
		z.SendWindow, err = settings.ParseSize(s)
		if err == nil && z.SendWindow < minSendWindow {
			err = errors.New("want at least 1MiB")
		}
	case "allow_undersized":
		z.AllowUndersized = s == "true"
		if !z.AllowUndersized && s != "false" {
			err = errors.New("want true or false")
		}
	case "duration":
		z.Duration, err = span(s, 1)
	case "idle_timeout":
		z.IdleTimeout, err = span(s, 1)
	case "conn_stats":
		z.ConnStats = new(time.Duration)
		*z.ConnStats, err = span(s, 0)
	}
	return err
}

// number reads plain decimals only.
func number(s string, least int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s || n < least {
		return 0, fmt.Errorf("want a whole number, at least %d", least)
	}
	return n, nil
}

func span(s string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < least || strings.HasPrefix(s, "+") {
		return 0, errors.New("want a duration, as 500ms, 10s or 2m")
	}
	return d, nil
}
