package openreports_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/printable/printabletest"
	"github.com/usher-dev/usher/internal/report/openreports"
)

// A rig is a writer that runs.
type rig struct {
	*cluster
	audit  *audit
	writer *openreports.Writer
	stop   func()
}

// run starts a writer; it stops with the test.
func run(t *testing.T, c *cluster, a *audit, o openreports.Options) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &rig{cluster: c, audit: a, writer: openreports.New(c.client(t), o)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.writer.Run(ctx, a)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(r.stop)
	return r
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		named := about("payments", "Pod", "app", result.Warn, "would change spec.x")
		named.Validation, named.Field, named.Actions = "team", "", nil
		named.Policy = usher.PolicyRef{Kind: "ObjectPolicy", Namespace: "payments", Name: "own"}
		named.Severity = "extreme"
		exempt := about("payments", "Pod", "app", result.Skip, "exempt")
		exempt.Exemption = &usher.Exemption{PolicyRef: usher.PolicyRef{Kind: "PolicyExemption", Namespace: "payments", Name: "e"}}
		partly := about("payments", "Pod", "app", result.Fail, "no team")
		partly.Exemption = exempt.Exemption
		a.set("payments", 7, partly, named, exempt)
		began := time.Now()
		run(t, c, a, openreports.Options{})
		pass(2 * time.Second)

		got := c.snapshot()["payments/usher-1"]
		text, err := json.MarshalIndent(got.Results, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`[
  {
    "source": "usher",
    "policy": "payments/own",
    "rule": "team",
    "category": "Ownership",
    "timestamp": {"seconds": %[1]d, "nanos": 0},
    "result": "warn",
    "resources": [{"kind": "Pod", "namespace": "payments", "name": "app", "uid": "0b7f6f5e-5c3f-4b8e-9d55-7a3f0c7e2a10", "apiVersion": "v1"}],
    "message": "would change spec.x",
    "properties": {"kind": "ObjectPolicy", "path": "spec.validations[0]"}
  },
  {
    "source": "usher",
    "policy": "require-team",
    "rule": "spec.validations[0]",
    "category": "Ownership",
    "severity": "medium",
    "timestamp": {"seconds": %[1]d, "nanos": 0},
    "result": "fail",
    "scored": true,
    "resources": [{"kind": "Pod", "namespace": "payments", "name": "app", "uid": "0b7f6f5e-5c3f-4b8e-9d55-7a3f0c7e2a10", "apiVersion": "v1"}],
    "message": "no team",
    "properties": {"actions": "Deny", "exemption": "PolicyExemption payments/e", "field": "metadata.labels.team", "kind": "ClusterObjectPolicy"}
  }
]`, began.Unix())
		if diff := cmp.Diff(decoded(t, want), decoded(t, string(text))); diff != "" {
			t.Error("results (-want +got):", diff)
		}
		if want := (result.Summary{Pass: 7, Fail: 1, Warn: 1, Skip: 1}); got.Summary != want {
			t.Errorf("summary is %+v, expected %+v", got.Summary, want)
		}
		if got.Source != "usher" || got.Kind != "Report" || got.Labels[openreports.ManagedByLabel] != "usher" {
			t.Errorf("report is %s of %s with labels %v", got.Kind, got.Source, got.Labels)
		}
		if len(got.OwnerReferences) > 0 || len(got.Finalizers) > 0 {
			t.Errorf("the report may hold up deletion: %v, %v", got.OwnerReferences, got.Finalizers)
		}
		if diff := cmp.Diff(map[string]bool{"usher-reports": true}, c.managers); diff != "" {
			t.Error("field managers (-want +got):", diff)
		}
	})
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestClusterScopedObjectsAreInClusterReports(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("", 0, about("", "Namespace", "payments", result.Fail, "no team"))
		run(t, c, a, openreports.Options{})
		pass(2 * time.Second)
		if got := c.snapshot()["/usher-1"]; got.Kind != "ClusterReport" || len(got.Results) != 1 {
			t.Errorf("ClusterReport is %+v", got)
		}
	})
}

func TestOneChangeRewritesOneReport(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		change func([]result.Result) []result.Result
		writes int
	}{
		{"an object was deleted", func(r []result.Result) []result.Result { return append(r[:120:120], r[121:]...) }, 1},
		{"an object is new, and before all others", func(r []result.Result) []result.Result {
			return append([]result.Result{about("a", "Pod", "aaa", result.Fail, "no")}, r...)
		}, 1},
		{"another message", func(r []result.Result) []result.Result { r[150].Message = "other"; return r }, 1},
		{"another order", func(r []result.Result) []result.Result { r[0], r[248] = r[248], r[0]; return r }, 0},
		{"nothing", func(r []result.Result) []result.Result { return r }, 0},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, a := newCluster(), newAudit()
				a.set("a", 3, failures("a", 250)...)
				run(t, c, a, openreports.Options{})
				pass(time.Minute)
				if n := len(c.snapshot()); n != 3 {
					t.Fatalf("250 results are in %d reports", n)
				}
				// There is a place in the first report.
				a.set("a", 3, failures("a", 250)[1:]...)
				pass(time.Minute)
				before, _ := c.counts()
				a.set("a", 3, test.change(failures("a", 250)[1:])...)
				pass(time.Minute)
				after, _ := c.counts()
				if after-before != test.writes {
					t.Errorf("%d writes, expected %d", after-before, test.writes)
				}
			})
		})
	}
}

func TestTimestampsAreThoseOfTheResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("a", 0, failures("a", 2)...)
		r := run(t, c, a, openreports.Options{})
		pass(time.Minute)
		first := c.snapshot()["a/usher-1"].Results[1].Timestamp
		changed := failures("a", 2)
		changed[0].Message = "other"
		a.set("a", 0, changed...)
		pass(time.Minute)
		r.stop()
		// A new leader, and somebody deleted the report.
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		c.do(func() { delete(c.reports, "a/usher-1") })
		pass(time.Hour)
		got := c.snapshot()["a/usher-1"].Results
		if len(got) != 2 || got[1].Timestamp != first {
			t.Errorf("a result that did not change is of %+v, expected %+v", got, first)
		}
		if got[0].Timestamp.Seconds <= first.Seconds {
			t.Errorf("a result that changed is of %+v, not after %+v", got[0].Timestamp, first)
		}
	})
}

func TestNothingIsWrittenUnlessItChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		for n := range 20 {
			name := fmt.Sprintf("team-%d", n)
			a.set(name, n, failures(name, 30*n)...)
		}
		// What an audit says about a kind, a namespace as a whole and itself.
		whole := result.Result{Object: result.Identity{APIVersion: "v1", Kind: "Namespace", Name: "whole"}, Status: result.Error, Message: "more"}
		kind := result.Result{Object: result.Identity{APIVersion: "v1", Kind: "Pod"}, Status: result.Error, Message: "cannot be read"}
		a.set("whole", 0, whole, about("whole", "Pod", "", result.Error, "left out"))
		a.set("", 0, kind, result.Result{Status: result.Error, Message: "more"})
		r := run(t, c, a, openreports.Options{})
		pass(10 * time.Minute)
		before, _ := c.counts()
		pass(time.Hour)
		if after, _ := c.counts(); after != before {
			t.Errorf("an idle hour wrote %d reports", after-before)
		}
		r.stop()
		run(t, c, a, openreports.Options{})
		pass(time.Hour)
		if after, _ := c.counts(); after != before {
			t.Errorf("a new leader wrote %d reports", after-before)
		}
	})
}

func TestWritesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		run(t, c, a, openreports.Options{WritesPerSecond: 5})
		pass(time.Second)
		began := time.Now()
		a.set("a", 0, failures("a", 1)...)
		for len(c.snapshot()) == 0 {
			pass(10 * time.Millisecond)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the first write took %s", took)
		}
		// A namespace that changes all the time, and counts that do.
		before, _ := c.counts()
		for i := range 600 {
			a.set("a", 0, failures("a", 2+i%50)...)
			a.set("b", i+1)
			pass(100 * time.Millisecond)
		}
		after, _ := c.counts()
		if n := after - before; n < 8 || n > 16 {
			t.Errorf("%d writes in a minute about two namespaces", n)
		}
		// Many namespaces that change once.
		for i := range 200 {
			name := fmt.Sprintf("team-%d", i)
			a.set(name, 1, failures(name, 1)...)
		}
		before, _ = c.counts()
		pass(10 * time.Second)
		after, _ = c.counts()
		if n := after - before; n < 40 || n > 60 {
			t.Errorf("%d writes in 10 seconds, allowed are 5 a second", n)
		}
		pass(time.Minute)
		if n := len(c.snapshot()); n != 202 {
			t.Errorf("%d reports", n)
		}
	})
}

// A namespace with many reports, which change all the time, gets its reports written, and those of
// others do not wait for it.
func TestManyReportsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		results := failures("a", 2000)
		flap := func(n int) {
			for i := range results {
				results[i].Message = fmt.Sprint("message ", n)
			}
			a.set("a", 0, slices.Clone(results)...)
		}
		flap(0)
		run(t, c, a, openreports.Options{WritesPerSecond: 1})
		pass(time.Minute)
		for n := range 20 {
			flap(n + 1)
			pass(5 * time.Second)
			a.set("b", 0, failures("b", n%2+1)...)
			changed := time.Now()
			for len(c.snapshot()["b/usher-1"].Results) != n%2+1 {
				pass(100 * time.Millisecond)
			}
			if took := time.Since(changed); took > 7*time.Second {
				t.Errorf("change %d was reported after %s", n, took)
			}
		}
		for name, r := range c.snapshot() {
			if len(r.Results) > 0 && strings.Contains(r.Results[0].Message, "message 0") {
				t.Errorf("report %s was not written again", name)
			}
		}
	})
}

// TestTextsOfOthers: what policies and objects say does not control the terminal of who reads a report.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		one := about("a", "Pod", "web", result.Fail, printabletest.Hostile)
		one.Category, one.Field = printabletest.Hostile, printabletest.Hostile
		a.set("a", 0, one)
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		reports := c.snapshot()
		if len(reports) != 1 {
			t.Fatalf("%d reports", len(reports))
		}
		for _, r := range reports {
			text, err := yaml.Marshal(r)
			if err != nil || !strings.Contains(string(text), "yes") {
				t.Fatalf("%v: %s", err, text)
			}
			var tree any
			if err := yaml.Unmarshal(text, &tree); err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(tree)
			if bad := printabletest.Controls(said); len(bad) > 0 {
				t.Errorf("%q has %q", said, bad)
			}
		}
	})
}

func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		long := func(r string) string { return strings.Repeat(r, 100_000) }
		var all []result.Result
		for i := range 150 {
			all = append(all, result.Result{
				Object: result.Identity{APIVersion: long("&"), Kind: long("<"), Namespace: "a", Name: fmt.Sprint(i) + long("\xff"), UID: "1"},
				Policy: usher.PolicyRef{Kind: long("\x00"), Name: long("\u2028")}, Rule: long(`"`), Validation: long("é"), Field: long("\\"),
				Category: long("😀"), Severity: "high", Status: result.Fail, Message: long("<"),
				Actions: []usher.Action{usher.Action(long("a"))}, Exemption: &usher.Exemption{PolicyRef: usher.PolicyRef{Name: long("\n")}},
			})
		}
		a.set("a", 0, all...)
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		if n := len(c.snapshot()); n != 2 {
			t.Errorf("%d reports", n)
		}
		if c.largest > 100*8192 || c.largest < 1000 {
			t.Errorf("the largest report has %d bytes", c.largest)
		}
		before, _ := c.counts()
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		if after, _ := c.counts(); after != before {
			t.Errorf("results that were shortened are written again: %d writes", after-before)
		}
	})
}
