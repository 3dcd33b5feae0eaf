package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"felix/internal/settings"
)

// factor is one field of Case that a grid can vary, by the field's JSON name.
type factor struct {
	name string
	set  func(*Case, string) error
	get  func(*Case) string
}

// caseFactors lists every factor but the settings, in the order of Case.
var caseFactors = []factor{
	choice("probe", func(c *Case) *Probe { return &c.Probe }),
	choice("transport", func(c *Case) *Transport { return &c.Transport }),
	{"payload", setPayload, func(c *Case) string { return strconv.Itoa(c.Payload) }},
	count("batch", func(c *Case) *int { return &c.Batch }),
	count("fanout", func(c *Case) *int { return &c.Fanout }),
	choice("load", func(c *Case) *Load { return &c.Load }),
	unset("0", factor{"rate", setRate, func(c *Case) string { return strconv.FormatFloat(c.Rate, 'g', -1, 64) }}),
	choice("arrival", func(c *Case) *Arrival { return &c.Arrival }),
	choice("acks", func(c *Case) *Acks { return &c.Acks }),
	count("inflight", func(c *Case) *int { return &c.Inflight }),
	count("publishers", func(c *Case) *int { return &c.Publishers }),
	count("streams", func(c *Case) *int { return &c.Streams }),
	count("pub_conns", func(c *Case) *int { return &c.PubConns }),
	count("pub_streams_per_conn", func(c *Case) *int { return &c.PubStreamsPerConn }),
	choice("sharding", func(c *Case) *Sharding { return &c.Sharding }),
	count("sub_conns", func(c *Case) *int { return &c.SubConns }),
	choice("encoding", func(c *Case) *Encoding { return &c.Encoding }),
	choice("policy", func(c *Case) *Policy { return &c.Policy }),
	{"topology", setTopology, func(c *Case) string { return c.Topology.String() }},
	choice("procs", func(c *Case) *Procs { return &c.Procs }),
	choice("cpus", func(c *Case) *CPUs { return &c.CPUs }),
	choice("timer_slack", func(c *Case) *TimerSlack { return &c.TimerSlack }),
	{"profile", setProfile, func(c *Case) string { return c.Profile }},
	unset("0", count("burst", func(c *Case) *int { return &c.Burst })),
	lists("payload_mix", func(c *Case) *PayloadMix { return &c.PayloadMix }),
	lists("tenants", func(c *Case) *Tenants { return &c.Tenants }),
	lists("stall", func(c *Case) *Stalls { return &c.Stall }),
	lists("slow", func(c *Case) *Slows { return &c.Slow }),
	unset("false", factor{"overload", setOverload, func(c *Case) string { return strconv.FormatBool(c.Overload) }}),
}

func count(name string, field func(*Case) *int) factor {
	return factor{name: name,
		set: func(c *Case, s string) error {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 || strconv.Itoa(n) != s {
				return errors.New("want a whole number, at least 1")
			}
			*field(c) = n
			return nil
		},
		get: func(c *Case) string { return strconv.Itoa(*field(c)) },
	}
}

// unset is a factor that a case need not have: then it has no level, and no part in the name of a cell.
func unset(none string, f factor) factor {
	get := f.get
	f.get = func(c *Case) string {
		if level := get(c); level != none {
			return level
		}
		return ""
	}
	return f
}

func choice[P interface {
	*T
	Set(string) error
}, T fmt.Stringer](name string, field func(*Case) *T) factor {
	return factor{name: name,
		set: func(c *Case, s string) error { return P(field(c)).Set(s) },
		get: func(c *Case) string { return (*field(c)).String() },
	}
}

func setPayload(c *Case, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || strconv.Itoa(n) != s {
		return errors.New("want a whole number of bytes")
	}
	c.Payload = n
	return nil
}

func setRate(c *Case, s string) error {
	r, err := strconv.ParseFloat(s, 64)
	if err != nil || !(r > 0) || math.IsInf(r, 0) {
		return errors.New("want messages per second, more than 0")
	}
	c.Rate = r
	return nil
}

func setTopology(c *Case, s string) error {
	if err := c.Topology.Set(s); err != nil {
		return err
	}
	if c.Topology == TopologyExternal {
		return errors.New("a grid starts its own brokers: it cannot say where a running one is")
	}
	return nil
}

func setProfile(c *Case, s string) error {
	if s == "" || !utf8.ValidString(s) { // a name that JSON would change is none
		return errors.New("want the name of a profile")
	}
	c.Profile = s
	return nil
}

func findFactor(name string) *factor {
	if i := slices.IndexFunc(caseFactors, func(f factor) bool { return f.name == name }); i >= 0 {
		return &caseFactors[i]
	}
	return nil
}

// sections of settings, as they stand before the dot of a factor "broker.KEY".
var sections = []string{"broker", "client", "transport"}

// setsOf is where a case keeps the settings of a section.
func setsOf(c *Case, section string) *map[string]string {
	switch section {
	case "broker":
		return &c.BrokerSet
	case "client":
		return &c.ClientSet
	}
	return &c.TransportSet
}

// settingFactor splits "broker.KEY"; ok is false for a name that is no such thing.
func settingFactor(name string) (section, key string, ok bool) {
	section, key, ok = strings.Cut(name, ".")
	return section, key, ok && slices.Contains(sections, section)
}

// permissive settings keep a value that is right alone from being judged against the defaults of its companions: the
// grid's profile or another factor may move those, and the trial judges the whole.
var permissive = []settings.Set{
	{Section: "transport", Key: "conn_recv_window", Value: "4GiB"},
	{Section: "transport", Key: "stream_recv_window", Value: "64KiB"},
	{Section: "broker", Key: "fanout_batch_size", Value: "1048576"},
}

// settingValue is what the settings table makes of the text, for comparison; an error names the key and the nearest.
func settingValue(section, key, text string) (string, error) {
	more := append(slices.Clone(permissive), settings.Set{Section: section, Key: key, Value: text, From: section + "." + key})
	r, err := settings.LoadAll(settings.Layers{More: more}, &settings.Broker{}, &settings.Client{}, &settings.Transport{})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(r.Sections[section][key].Value), nil
}

// apply sets one factor of the case to a level. The error is without the factor's name. A setting is taken as it is:
// Levels.check judges it.
func apply(c *Case, name, level string) error {
	if f := findFactor(name); f != nil {
		return f.set(c, level)
	}
	section, key, _ := settingFactor(name)
	m := setsOf(c, section)
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = level
	return nil
}

// levelOf is the level of a factor in a resolved case; ok is false for a setting that the case leaves alone.
func levelOf(c *Case, name string) (level string, ok bool) {
	if f := findFactor(name); f != nil {
		return f.get(c), true
	}
	section, key, _ := settingFactor(name)
	level, ok = (*setsOf(c, section))[key]
	return level, ok
}

// factorNames lists every name that a factor can have, with named ones in front.
func factorNames(named []string) []string {
	names := slices.Clone(named)
	for _, f := range caseFactors {
		names = append(names, f.name)
	}
	for _, k := range settings.Keys() {
		names = append(names, k.Section+"."+k.Name)
	}
	return names
}

// nearest puts the name that was probably meant behind a sentence about one that does not exist.
func nearest(what, word string, known []string) string {
	near := settings.Nearest(word, known)
	if near == "" && strings.Contains(word, ".") {
		// The section may be forgotten or wrong: what follows it says more.
		_, key, _ := strings.Cut(word, ".")
		for _, k := range known {
			if _, kk, ok := strings.Cut(k, "."); ok && kk == key {
				near = cmp.Or(near, k)
			}
		}
	}
	if near == "" {
		return what
	}
	return fmt.Sprintf("%s (nearest: %s)", what, near)
}
