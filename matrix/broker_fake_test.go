//go:build unix

package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// The addresses at which the fake brokers of the two arms say they listen: by them the fake trial knows its arm.
const (
	fakeBaseAddr = "127.0.0.1:1"
	fakeHeadAddr = "127.0.0.1:2"
)

// fakeBroker is a brokerd that serves nobody. What it does follows the words of FAKE_BROKER, ARM:BEHAVIOUR.
func fakeBroker(args []string) int {
	f := pflag.NewFlagSet("fake", pflag.ContinueOnError)
	dev := f.String("dev", "", "")
	config := f.String("config", "", "")
	streams := f.StringArray("stream", nil, "")
	f.String("quic-bind", "", "")
	f.String("metrics-bind", "", "")
	version := f.Bool("version", false, "")
	if err := f.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		return 2
	}
	arm, addr, digit := "base", fakeBaseAddr, "1"
	if filepath.Base(filepath.Dir(os.Args[0])) == "head" || os.Getenv("ARM") == "head" {
		arm, addr, digit = "head", fakeHeadAddr, "2"
	}
	if *version {
		d := strings.Repeat(digit, 40)
		fmt.Printf(`{"commit":%q,"dirty":false,"tree_digest":%q,"bench_digest":%q,"source":"ldflags","go":"go1.26","optimized":true}`+"\n", d, d, d)
		return 0
	}
	text, err := os.ReadFile(*config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		return 2
	}
	starts := count(-2)
	writeState("broker-"+arm+".yml", string(text)+"streams "+strings.Join(*streams, ",")+"\n")
	for _, word := range strings.Fields(os.Getenv("FAKE_BROKER")) {
		of, what, _ := strings.Cut(word, ":")
		what, key, _ := strings.Cut(what, "=")
		switch {
		case of != arm && of != "all":
		case what == "unknown" && strings.Contains(string(text), "\n"+key+":"):
			fmt.Fprintf(os.Stderr, "brokerd: %s:2: unknown setting %q\nbrokerd: hint: leave it out\n", *config, key)
			return 2
		case what == "refuse":
			fmt.Fprintln(os.Stderr, "brokerd: no such port\nbrokerd: hint: another")
			return 2
		case what == "refuse-later" && starts > 4: // four are asked before the first trial
			fmt.Fprintln(os.Stderr, "brokerd: address already in use")
			return 2
		case what == "stubborn":
			signal.Ignore(syscall.SIGTERM)
		case what == "panics":
			defer os.Exit(3)
		}
	}
	for _, name := range []string{"token", "cert.pem"} {
		if err := os.WriteFile(filepath.Join(*dev, name), []byte(name), 0o600); err != nil {
			return 1
		}
	}
	got := make(chan os.Signal, 1)
	stubborn := strings.Contains(os.Getenv("FAKE_BROKER"), arm+":stubborn")
	if !stubborn {
		signal.Notify(got, syscall.SIGTERM)
	}
	writeState("broker-pid", strconv.Itoa(os.Getpid()))
	fmt.Fprintf(os.Stderr, "brokerd: a word before\nbrokerd: listening on %s, admin http://127.0.0.1:3\nbrokerd: a word after\n", addr)
	<-got
	return 0
}
