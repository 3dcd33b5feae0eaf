package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"felix/internal/settings"
)

// observable names, for every key of a checkpoint, a window or a policy, the test that shows a difference between two
// values of it. A knob that does nothing is found there; one that nobody tests is found here.
var observable = map[string]struct{ dir, test string }{
	"publish_inflight_bytes":    {dir: "client", test: "TestByteAdmission"},
	"publish_queue_depth":       {dir: "client", test: "TestQueueDepth"},
	"client_sub_queue_capacity": {dir: "client", test: "TestDropPolicies"},
	"client_sub_queue_policy":   {dir: "client", test: "TestDropPolicies"},

	"pub_ingress_wait":              {dir: "broker/brokertest", test: "TestSmallPublishesFillTheQueue"},
	"publish_queue_wait_timeout_ms": {dir: "broker/brokertest", test: "TestSmallPublishesFillTheQueue"},
	"pub_inflight_bytes":            {dir: "broker/brokertest", test: "TestBytesRefused"},
	"pub_conn_inflight_bytes":       {dir: "broker/brokertest", test: "TestBytesRefused"},
	"pub_queue_depth":               {dir: "broker", test: "TestGuaranteedDepth"},

	"subscriber_queue_capacity":        {dir: "broker/brokertest", test: "TestPolicies"},
	"subscriber_queue_max_bytes":       {dir: "broker/brokertest", test: "TestBytesBound"},
	"subscriber_queue_policy":          {dir: "broker/brokertest", test: "TestPolicies"},
	"subscriber_queue_max_bytes_total": {dir: "broker", test: "TestTotalBudget"},
	"subscriber_lane_queue_depth":      {dir: "broker/brokertest", test: "TestWriterPolicies"},
	"subscriber_lane_queue_policy":     {dir: "broker/brokertest", test: "TestWriterPolicies"},
	"subscriber_egress_max_bytes":      {dir: "broker/brokertest", test: "TestWriterPolicies"},

	"conn_recv_window":   {dir: "internal/transport", test: "TestWindowsBoundWhatAWriterIsAhead"},
	"stream_recv_window": {dir: "internal/transport", test: "TestWindowsBoundWhatAWriterIsAhead"},
}

// mustBeObservable tells keys of checkpoints, windows and policies by what the table says of them.
func mustBeObservable(k settings.Key) bool {
	return strings.HasPrefix(k.Help, "checkpoint") || strings.HasSuffix(k.Name, "_window") || strings.HasSuffix(k.Name, "_policy")
}

func TestEveryBoundHasATestOfItsEffect(t *testing.T) {
	known := map[string]bool{}
	for _, k := range settings.Keys() {
		known[k.Name] = true
		if _, named := observable[k.Name]; mustBeObservable(k) && !named {
			t.Errorf("%s (%s): no test that shows a difference between two values is named", k.Name, k.Help)
		}
	}
	for key, by := range observable {
		switch {
		case !known[key]:
			t.Errorf("%s is no setting", key)
		case !hasTest(t, by.dir, by.test):
			t.Errorf("%s: there is no %s in %s", key, by.test, by.dir)
		}
	}
}

// hasTest reports whether a package has a test of that name.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s: no tests (%v)", dir, err)
		return false
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
				return true
			}
		}
	}
	return false
}
