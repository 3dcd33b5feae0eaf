package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"felix/broker/service"
	"felix/internal/racetest"
	"felix/internal/settings"
	"felix/internal/transport"
	"felix/internal/trial"
	"felix/internal/wire"
)

// asCommand makes the test binary behave as latencydemo, so that signals meet a real process.
const asCommand = "LATENCYDEMO_TEST_AS_COMMAND"

// The test binary is latencydemo to the scripts, and plays the roles of their trials.
func TestMain(m *testing.M) {
	if code, isRole := trial.Role(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); isRole {
		os.Exit(code)
	}
	if os.Getenv(asCommand) != "" {
		main()
	}
	racetest.EndAtOnce()
	testscript.Main(m, map[string]func(){"latencydemo": main})
}

// The manual of the command, as scripts. Each has a broker at hand that was started by somebody else: $ADDR and
// $ADMIN, with $PIN, cert.pem, token, and other.pem and other.token of a stranger; nobody listens at $NOBODY.
func TestScripts(t *testing.T) {
	b := startBroker(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv(racetest.Env, os.Getenv(racetest.Env))
			e.Setenv("ADDR", b.ready.Addr)
			e.Setenv("ADMIN", b.ready.AdminURL)
			e.Setenv("NOBODY", b.nobody)
			e.Setenv("PIN", b.pin)
			for name, text := range b.files {
				if err := os.WriteFile(filepath.Join(e.WorkDir, name), text, 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"refuse": refuse, "invalid": invalid},
	})
}

// refuse LINE HINT ARGS… runs latencydemo and wants exit code 2 within 15 s, nothing on stdout, and on stderr exactly
// one line that matches LINE and one hint that matches HINT. Exit codes are the point: "! exec" takes any failure.
func refuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refuse LINE HINT ARGS…")
	}
	began := time.Now()
	err := ts.Exec("latencydemo", args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		ts.Fatalf("latencydemo %v: %v, want exit code %d\n%s%s", args[2:], err, exitUsage, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
	if took := time.Since(began); took > 15*time.Second {
		ts.Fatalf("latencydemo %v: took %v", args[2:], took)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout: %s", out)
	}
	lines := strings.Split(strings.TrimRight(ts.ReadFile("stderr"), "\n"), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "latencydemo: ") || !strings.HasPrefix(lines[1], "latencydemo: hint: ") {
		ts.Fatalf("latencydemo %v: stderr is not a line and a hint:\n%s", args[2:], strings.Join(lines, "\n"))
	}
	for i, want := range args[:2] {
		if !regexp.MustCompile(want).MatchString(lines[i]) {
			ts.Fatalf("latencydemo %v: %q does not match %q", args[2:], lines[i], want)
		}
	}
}

// invalid ARGS… runs latencydemo and wants exit code 1.
func invalid(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("latencydemo", args...)
	var exit *exec.ExitError
	if neg || !errors.As(err, &exit) || exit.ExitCode() != exitInvalid {
		ts.Fatalf("latencydemo %v: %v, want exit code %d", args, err, exitInvalid)
	}
}

type externalBroker struct {
	ready  service.Ready
	files  map[string][]byte
	nobody string // an address that is bound and silent
	pin    string
}

func startBroker(t *testing.T) *externalBroker {
	t.Helper()
	scope := wire.Scope{Tenant: "t1", Namespace: "default", Stream: "latency"}
	creds, err := service.NewDevCredentials(time.Now(), time.Hour, scope)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := service.NewDevCredentials(time.Now(), time.Hour, scope)
	if err != nil {
		t.Fatal(err)
	}
	load := func(sets ...string) *settings.Broker {
		var s settings.Broker
		if err := settings.Load(&s, settings.Layers{Sets: append(sets, "quic_bind=127.0.0.1:0", "metrics_bind=127.0.0.1:0")}); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	// As its /stats shows its configuration: one of production, which drops at 6.
	document := map[string]settings.Document{"broker": {
		"subscriber_queue_policy":      {Value: "block"},
		"subscriber_lane_queue_policy": {Value: "drop_new"},
		"pub_ingress_wait":             {Value: false},
	}}
	svc, err := service.New(service.Options{Broker: load("streams="+scope.String(), "subscriber_queue_policy=block"), JWKS: creds.JWKS, Config: document})
	if err != nil {
		t.Fatal(err)
	}
	other, err := service.New(service.Options{Broker: load(), JWKS: stranger.JWKS}) // only its certificate is wanted
	if err != nil {
		t.Fatal(err)
	}
	ready, err := svc.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, err := svc.Stop(ctx); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	pin, err := transport.PinSHA256(svc.CertPEM())
	if err != nil {
		t.Fatal(err)
	}
	return &externalBroker{
		ready:  ready,
		pin:    pin,
		nobody: silent.LocalAddr().String(),
		files: map[string][]byte{
			"cert.pem": svc.CertPEM(), "token": []byte(creds.Tokens["t1"] + "\n"),
			"other.pem": other.CertPEM(), "other.token": []byte(stranger.Tokens["t1"]),
		},
	}
}
