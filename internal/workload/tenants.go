package workload

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Tenant is one of several that share a broker: with publishers, streams, subscribers and connections of its own, each
// as many as the case says, at a rate of its own.
type Tenant struct {
	Name string
	Rate float64 // messages/s over its publishers
}

// Tenants are `--tenants a:20000,b:2000`. Empty is one tenant, with the rate of the case.
type Tenants []Tenant

// maxTenants bounds the tenants of a case: each has its own connections.
const maxTenants = 64

var tenantName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func parseTenant(s string) (Tenant, error) {
	name, rate, ok := strings.Cut(s, ":")
	if !ok {
		return Tenant{}, errors.New("want NAME:RATE, in messages/s")
	}
	if !tenantName.MatchString(name) {
		return Tenant{}, errors.New("want a name of letters, digits, - and _")
	}
	r, err := strconv.ParseFloat(rate, 64)
	if err != nil || !(r > 0) || math.IsInf(r, 0) {
		return Tenant{}, errors.New("want messages per second, more than 0")
	}
	return Tenant{name, r}, nil
}

// String is the text that Set reads back.
func (t Tenant) String() string { return t.Name + ":" + strconv.FormatFloat(t.Rate, 'g', -1, 64) }

func (t Tenants) String() string { return joinList(t) }

// Set reads all tenants of a case.
func (t *Tenants) Set(s string) error {
	all, err := parseList(nil, s, parseTenant)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, one := range all {
		if seen[one.Name] {
			return errors.New("tenant " + one.Name + " is named twice")
		}
		seen[one.Name] = true
	}
	if len(all) > maxTenants {
		return errors.New("want at most " + strconv.Itoa(maxTenants) + " tenants")
	}
	*t = all
	return nil
}

// Type is shown in a flag's usage.
func (t Tenants) Type() string { return "NAME:RATE,…" }

func (t Tenants) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t *Tenants) UnmarshalText(b []byte) error { return t.Set(string(b)) }

// rate is what all tenants offer together, in messages/s.
func (t Tenants) rate() float64 {
	sum := 0.0
	for _, one := range t {
		sum += one.Rate
	}
	return sum
}

// TenantCount is how many tenants the case has, at least 1.
func (c Case) TenantCount() int { return max(1, len(c.Tenants)) }

// AllStreams is how many logical streams the case has over all tenants: tenant t has the streams from t x Streams on.
func (c Case) AllStreams() int { return c.Streams * c.TenantCount() }

// AllPublishers is how many publishers the case has over all tenants: tenant t has those from t x Publishers on.
func (c Case) AllPublishers() int { return c.Publishers * c.TenantCount() }

// TenantOfStream is the index of the tenant that a logical stream belongs to.
func (c Case) TenantOfStream(stream int) int { return stream / c.Streams }

// rateOf is what one publisher offers, in messages/s.
func (c Case) rateOf(publisher int) float64 {
	rate := c.Rate
	if len(c.Tenants) > 0 {
		rate = c.Tenants[publisher/c.Publishers].Rate
	}
	return rate / float64(c.Publishers)
}
