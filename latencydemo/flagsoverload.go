package main

import (
	"github.com/spf13/pflag"

	"felix/internal/workload"
)

// overloadFlags declares the overload lab: factors of the case like all others.
func overloadFlags(f *pflag.FlagSet, c *workload.Case) {
	f.IntVar(&c.Burst, "burst", 0, "publish so many messages at once, unacked, over all publishers, and then nothing")
	f.Var(&c.PayloadMix, "payload-mix", "messages of several sizes, whole batches of one: 100:95%,1MiB:5% (drawn by --seed)")
	f.Var(&c.Tenants, "tenants", "tenants that compete, each with publishers, streams, subscribers and connections as given and\na rate of its own in messages/s: a:20000,b:2000")
	f.Var(&c.Stall, "stall", "a subscriber stops reading: at AT after the mark, for FOR; SUB is 0.3 (stream.index), 3 (of\nstream 0), 2.* or *; repeatable")
	f.Var(&c.Slow, "slow", "a subscriber reads no faster than so many bytes of payload a second, from the mark on: '*:20MB';\nrepeatable, the last that names one counts")
	f.BoolVar(&c.Overload, "overload", false, "the case is meant to be more than can be carried: a rate that is not achieved is a warning")
}

// checkOverload refuses what was typed and means nothing.
func (o *options) checkOverload() error {
	f := o.flags
	switch {
	case f.Changed("burst") && o.c.Burst < 1:
		return usageError("leave it out for no burst", "--burst %d: want at least 1 message", o.c.Burst)
	case f.Changed("payload-mix") && f.Changed("payload"):
		return usageError("keep one of them", "--payload and --payload-mix both say how large messages are")
	}
	return nil
}
