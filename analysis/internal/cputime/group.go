// Package cputime says what the CPU time in profiles was spent on, in groups that mean something to whoever tunes a
// broker. It reads profiles; it takes none.
//
// A sample belongs to one group by its stack, read from the innermost frame outwards:
//
//  1. The frames of the runtime at the inner end say what the runtime did. If it allocated or collected garbage, that is
//     the group; so clearing what was just allocated is part of allocating it.
//  2. Else, if the innermost frame copies or clears memory, the group is memory copies, whoever asked.
//  3. Else, if the runtime parked, woke or chose goroutines, ran timers or polled the network, it is scheduling.
//  4. Else the innermost frame outside the runtime decides, by its package. The standard library's helpers have no group
//     of their own: a lock, a buffer or a sort belongs to the package that asked for it, the next frame outwards.
//  5. What is left is other.
package cputime

import (
	"strings"

	"github.com/google/pprof/profile"
)

// Group is what a sample was spent on.
type Group string

// The groups, in the order of the table.
const (
	Crypto     Group = "crypto"
	Sockets    Group = "socket system calls" // UDP; of a TCP probe TCP
	QUIC       Group = "quic-go"
	Broker     Group = "felix broker"
	Client     Group = "felix client"
	Transport  Group = "felix transport"
	Wire       Group = "felix wire"
	Bench      Group = "felix bench" // what measures: internal/trial, measure, probe and the command
	Copies     Group = "memory copies"
	Memory     Group = "allocation and GC"
	Scheduling Group = "scheduling"
	Other      Group = "other"
)

// Groups are all of them, in the order of the table.
var Groups = []Group{Crypto, Sockets, QUIC, Broker, Client, Transport, Wire, Bench, Copies, Memory, Scheduling, Other}

// packages decides by the innermost frame outside the runtime; the first prefix that fits wins.
var packages = []struct {
	prefix string
	group  Group
}{
	{"crypto", Crypto}, {"vendor/golang.org/x/crypto", Crypto}, {"golang.org/x/crypto", Crypto},
	{"syscall", Sockets}, {"internal/syscall", Sockets}, {"golang.org/x/sys", Sockets}, {"internal/poll", Sockets},
	{"net", Sockets}, {"golang.org/x/net", Sockets},
	{"github.com/quic-go", QUIC},
	{"felix/broker", Broker}, {"felix/client", Client}, {"felix/internal/transport", Transport}, {"felix/internal/wire", Wire},
	{"felix", Bench},
}

// collecting, copying and choosing are beginnings of names in package runtime.
var (
	collecting = []string{
		"mallocgc", "newobject", "makeslice", "growslice", "rawbyteslice", "rawstring", "newarray", "gc", "bgsweep", "bgscavenge",
		"sweep", "scan", "greyobject", "markroot", "wbBuf", "(*mcache)", "(*mcentral)", "(*mheap)", "(*mspan)", "(*gcWork)",
		"(*gcControllerState)", "(*sweepLocked)", "deductAssistCredit", "deductSweepCredit", "nextFreeFast", "profilealloc",
	}
	copying  = []string{"memmove", "memclr", "typedmemmove", "bulkBarrierPreWrite"}
	choosing = []string{
		"mcall", "park_m", "gopark", "goready", "ready", "schedule", "findRunnable", "findrunnable", "execute", "gogo", "stealWork",
		"runqgrab", "runqsteal", "runqget", "runqput", "globrunq", "wakep", "startm", "stopm", "mPark", "handoffp", "acquirep", "releasep",
		"notesleep", "notetsleep", "notewakeup", "futex", "lock2", "unlock2", "osyield", "procyield", "usleep", "resetspinning",
		"netpoll", "goschedImpl", "gosched_m", "gopreempt_m", "asyncPreempt", "goexit0", "newproc", "mstart", "sysmon", "retake", "preempt",
		"selectgo", "chansend", "chanrecv", "send", "recv", "semrelease", "semacquire", "notifyList", "(*timer", "(*timers)",
		"checkTimers", "goroutineReady", "gcstopm", "checkRunqs", "pidle", "dropg", "exitsyscall0",
	}
)

// GroupOf says what a sample with this stack was spent on.
func GroupOf(stack []*profile.Location) Group {
	runtimeDone := false
	var inner []string // names of the runtime's frames at the inner end
	decide := func() (Group, bool) {
		switch {
		case anyOf(inner, collecting):
			return Memory, true
		case len(inner) > 0 && begins(inner[0], copying):
			return Copies, true
		case anyOf(inner, choosing):
			return Scheduling, true
		}
		return "", false
	}
	for _, loc := range stack {
		for _, line := range loc.Line { // inlined frames, the innermost first
			if line.Function == nil {
				continue
			}
			pkg, name := split(line.Function.Name)
			if !runtimeDone && isRuntime(pkg) {
				inner = append(inner, name)
				continue
			}
			if !runtimeDone {
				runtimeDone = true
				if g, ok := decide(); ok {
					return g
				}
			}
			for _, p := range packages {
				if pkg == p.prefix || strings.HasPrefix(pkg, p.prefix+"/") {
					return p.group
				}
			}
		}
	}
	if !runtimeDone {
		if g, ok := decide(); ok {
			return g
		}
	}
	return Other
}

// split parts the name of a function, as felix/broker.(*stream).publish, into its package and the rest.
func split(function string) (pkg, name string) {
	head := function
	if i := strings.IndexByte(head, '['); i >= 0 {
		head = head[:i] // type arguments hold slashes and dots of their own
	}
	slash := strings.LastIndexByte(head, '/') + 1
	dot := strings.IndexByte(head[slash:], '.')
	if dot < 0 {
		return "", function // of assembly or C
	}
	return function[:slash+dot], function[slash+dot+1:]
}

// isRuntime reports whether a package is part of the runtime, its bare system calls included: who made one is told by
// the frame that called it.
func isRuntime(pkg string) bool {
	switch pkg {
	case "", "runtime", "internal/bytealg", "internal/abi":
		return true
	}
	return strings.HasPrefix(pkg, "runtime/internal/") || strings.HasPrefix(pkg, "internal/runtime/")
}

func begins(name string, with []string) bool {
	for _, w := range with {
		if strings.HasPrefix(name, w) {
			return true
		}
	}
	return false
}

func anyOf(names, with []string) bool {
	for _, n := range names {
		if begins(n, with) {
			return true
		}
	}
	return false
}
