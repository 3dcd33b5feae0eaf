package workload

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The overload lab: what drives a system past what it can carry, and into what it does then. A burst is all messages
// at once; stalls and slow subscribers hold what can be carried down to a known amount; mixes and tenants make the load
// uneven. A case marked overload expects to be pushed back.

// maxBurst bounds --burst.
const maxBurst = 100_000_000

// resolveOverload decides what the lab's factors decide for the others. The numbers of publishers, streams and
// subscribers are known by now.
func (c *Case) resolveOverload() error {
	if c.Probe != ProbeNone {
		for _, f := range c.Lab() {
			if f.Level != "" {
				return fmt.Errorf("--%s: the overload lab is for brokers (probe %s)", strings.ReplaceAll(f.Name, "_", "-"), c.Probe)
			}
		}
	}
	if c.Burst < 0 || c.Burst > maxBurst {
		return fmt.Errorf("--burst %d: want 1 to %d messages", c.Burst, maxBurst)
	}
	if len(c.PayloadMix) > 0 {
		c.Payload = c.PayloadMix.Mean() // what stands for all of them where one number must
	}
	if c.Burst > 0 {
		switch {
		case c.Rate > 0 || len(c.Tenants) > 0:
			return errors.New("--burst with a rate: a burst is all at once")
		case c.Load != LoadAuto && c.Load != LoadBurst:
			return fmt.Errorf("--burst with --load %s: a burst is a load of its own", c.Load)
		case c.Acks != AcksAuto && c.Acks != AcksNone:
			return fmt.Errorf("--burst with --acks %s: a burst waits for nobody", c.Acks)
		}
		c.Load, c.Acks = LoadBurst, AcksNone
	} else if c.Load == LoadBurst {
		return errors.New("--load burst: a burst needs --burst, in messages")
	}
	if len(c.Tenants) > 0 {
		sum := c.Tenants.rate()
		switch {
		case c.Rate != 0 && c.Rate != sum:
			return fmt.Errorf("--rate %v with --tenants %s: every tenant has its own", c.Rate, c.Tenants)
		case c.Topology == TopologyExternal:
			return errors.New("--tenants with --topology external: one token is of one tenant")
		}
		c.Rate = sum
	}
	for _, s := range c.Stall {
		if err := s.Which.check("stall", c); err != nil {
			return err
		}
	}
	for _, s := range c.Slow {
		if err := s.Which.check("slow", c); err != nil {
			return err
		}
	}
	return nil
}

// LabFactor is a factor of the overload lab at the level that a case has.
type LabFactor struct {
	Name  string // as in a record
	Level string // "" = it is not set
}

// Lab lists the factors of the overload lab, in the order of the key.
func (c Case) Lab() []LabFactor {
	f := []LabFactor{
		{"burst", ""}, {"payload_mix", c.PayloadMix.String()}, {"tenants", c.Tenants.String()},
		{"stall", c.Stall.String()}, {"slow", c.Slow.String()}, {"overload", ""},
	}
	if c.Burst > 0 {
		f[0].Level = strconv.Itoa(c.Burst)
	}
	if c.Overload {
		f[5].Level = "true"
	}
	return f
}

func setOverload(c *Case, s string) error {
	if s != "true" && s != "false" {
		return errors.New("want true or false")
	}
	c.Overload = s == "true"
	return nil
}

// lists is a factor whose text is a list.
func lists[P interface {
	*T
	UnmarshalText([]byte) error
}, T fmt.Stringer](name string, field func(*Case) *T) factor {
	return factor{name: name,
		set: func(c *Case, s string) error { return P(field(c)).UnmarshalText([]byte(s)) },
		get: func(c *Case) string { return (*field(c)).String() },
	}
}
