package openreports_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/report/openreports"
)

func TestLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("small", 5, failures("small", 30)...)
		large := failures("large", 500)
		large[499].Severity, large[498].Status = "critical", result.Error
		a.set("large", 0, large...)
		a.set("huge", 0, failures("huge", 5000)...)
		r := run(t, c, a, openreports.Options{Limit: 330})
		pass(10 * time.Minute)

		counts, omitted := map[string]int{}, map[string]string{}
		summaries := map[string]result.Summary{}
		worst := map[string]bool{}
		for _, report := range c.snapshot() {
			counts[report.Namespace] += len(report.Results)
			sum := summaries[report.Namespace]
			sum.Merge(report.Summary)
			summaries[report.Namespace] = sum
			if text := report.Annotations[openreports.OmittedAnnotation]; text != "" {
				omitted[report.Namespace] = text
			}
			for i := range report.Results {
				worst[report.Results[i].Subjects[0].Name] = worst[report.Results[i].Subjects[0].Name] || report.Namespace == "large"
			}
		}
		if got := fmt.Sprint(counts); got != "map[huge:150 large:150 small:30]" {
			t.Errorf("results by namespace: %s", got)
		}
		if got := fmt.Sprint(omitted); got != "map[huge:4850 large:350]" {
			t.Errorf("omitted results by namespace: %s", got)
		}
		if summaries["huge"].Fail != 5000 || summaries["small"] != (result.Summary{Pass: 5, Fail: 30}) {
			t.Errorf("summaries: %+v", summaries)
		}
		if !worst["app-00499"] || !worst["app-00498"] || worst["app-00490"] {
			t.Error("the worst results are not those that are reported")
		}
		if status := r.writer.Status(); status.Results != 330 || status.Omitted != 5200 {
			t.Errorf("status: %+v", status)
		}
		// Another leader chooses the same.
		before, _ := c.counts()
		r.stop()
		r = run(t, c, a, openreports.Options{Limit: 330})
		pass(10 * time.Minute)
		if after, _ := c.counts(); after != before {
			t.Errorf("a new leader wrote %d reports", after-before)
		}
		// Capacity that becomes free is used.
		a.set("huge", 0)
		pass(10 * time.Minute)
		if status := r.writer.Status(); status.Results != 330 || status.Omitted != 200 {
			t.Errorf("status: %+v", status)
		}
		if n := len(c.snapshot()); n != 4 {
			t.Errorf("%d reports", n)
		}
	})
}

func TestFailoverKeepsResultsOfKindsThatAreNotComplete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		config := about("a", "ConfigMap", "c", result.Fail, "no")
		config.Object.UID = "2"
		a.kind("ConfigMap", true, nil)
		a.set("a", 4, append(failures("a", 150), config)...)
		a.set("b", 0, about("b", "ConfigMap", "d", result.Fail, "no"))
		run(t, c, a, openreports.Options{}).stop()
		r := run(t, c, a, openreports.Options{})
		pass(time.Minute)
		r.stop()
		before := c.snapshot()

		// The next leader has read nothing yet.
		next := newAudit()
		next.kind("Pod", false, nil)
		next.kind("ConfigMap", false, nil)
		r = run(t, c, next, openreports.Options{})
		pass(30 * time.Second)
		if !r.writer.Status().Waiting {
			t.Error("it does not wait for the audit")
		}
		// Pods are read, and one is gone; ConfigMaps cannot be read.
		next.set("a", 4, failures("a", 149)...)
		next.kind("Pod", true, nil)
		next.kind("ConfigMap", false, errForbidden)
		pass(time.Minute)
		after := c.snapshot()
		if after["b/usher-1"].ResourceVersion != before["b/usher-1"].ResourceVersion {
			t.Error("results of a kind that cannot be read changed")
		}
		if n := total(after, "a"); n != 150 {
			t.Errorf("%d results, expected 149 and the one of the kind that cannot be read", n)
		}
		if sum := summary(after, "a"); sum != (result.Summary{Pass: 4, Fail: 150}) {
			t.Errorf("summary is %+v", sum)
		}
		// Now they can be read, and there are none.
		next.kind("ConfigMap", true, nil)
		pass(10 * time.Minute)
		after = c.snapshot()
		if total(after, "a") != 149 || total(after, "b") != 0 || len(after) != 2 {
			t.Errorf("%d and %d results in %d reports", total(after, "a"), total(after, "b"), len(after))
		}
	})
}

func TestResultsOfKindsThatAreNotCompleteStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.kind("ConfigMap", true, nil)
		all := failures("a", 300)
		for i := 0; i < len(all); i += 30 {
			all[i].Object.Kind = "ConfigMap"
		}
		r := run(t, c, a, openreports.Options{})
		// Each report gets some of them.
		for n := 100; n <= 300; n += 100 {
			a.set("a", 0, all[:n]...)
			pass(time.Minute)
		}
		r.stop()
		next := newAudit()
		next.kind("ConfigMap", false, errForbidden)
		r = run(t, c, next, openreports.Options{})
		pass(10 * time.Minute)
		if got := c.snapshot(); total(got, "a") != 10 || summary(got, "a").Fail != 10 {
			t.Errorf("%d results, expected those of the kind that cannot be read", total(got, "a"))
		}
		if status := r.writer.Status(); status.Errors != 0 || status.Pending != 0 {
			t.Errorf("status: %+v", status)
		}
	})
}

func TestConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("a", 0, failures("a", 50)...)
		r := run(t, c, a, openreports.Options{})
		pass(time.Minute)
		conflicts := 0
		c.do(func() {
			c.inject = func(string, string, string) outcome {
				if conflicts++; conflicts <= 2 {
					return overtaken
				}
				return works
			}
		})
		a.set("a", 0, failures("a", 60)...)
		pass(30 * time.Second)
		if n := total(c.snapshot(), "a"); n != 60 || conflicts != 3 {
			t.Errorf("%d results after %d writes", n, conflicts)
		}
		if status := r.writer.Status(); len(status.Blocked) != 0 {
			t.Errorf("conflicts are no reason to alarm anyone: %v", status.Blocked)
		}
	})
}

func total(reports map[string]openreports.Report, namespace string) (n int) {
	for _, r := range reports {
		if r.Namespace == namespace {
			n += len(r.Results)
		}
	}
	return n
}

func summary(reports map[string]openreports.Report, namespace string) (sum result.Summary) {
	for _, r := range reports {
		if r.Namespace == namespace {
			sum.Merge(r.Summary)
		}
	}
	return sum
}

func TestReportsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		foreign := func(name string, labels map[string]string) *openreports.Report {
			return c.store(&openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Labels: labels}})
		}
		c.do(func() {
			foreign("usher-1", nil)
			foreign("usher-3", map[string]string{openreports.ManagedByLabel: "kyverno"})
			foreign("other", map[string]string{openreports.ManagedByLabel: "usher"})
		})
		before := c.snapshot()
		a.set("a", 0, failures("a", 250)...)
		r := run(t, c, a, openreports.Options{})
		pass(time.Minute)
		after := c.snapshot()
		for id, report := range before {
			if after[id].ResourceVersion != report.ResourceVersion {
				t.Errorf("%s was touched", id)
			}
		}
		if total(after, "a") != 250 || len(after["a/usher-2"].Results) != 100 || len(after) != 6 {
			t.Errorf("%d results in %d reports", total(after, "a"), len(after))
		}
		if status := r.writer.Status(); status.Foreign != 2 {
			t.Errorf("status: %+v", status)
		}
		a.set("a", 0)
		pass(time.Minute)
		if n := len(c.snapshot()); n != 3 {
			t.Errorf("%d reports are left, expected those of others", n)
		}
	})
}

func TestNamesOfOthersAreTriedOnlySoOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		c.do(func() {
			for n := range 5000 {
				c.store(&openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("usher-%d", n)}})
			}
		})
		a.set("a", 0, failures("a", 1)...)
		a.set("b", 0, failures("b", 1)...)
		r := run(t, c, a, openreports.Options{})
		pass(24 * time.Hour)
		if c.reads > 1000 {
			t.Errorf("%d reads in a day because of reports of others", c.reads)
		}
		if total(c.snapshot(), "b") != 1 {
			t.Error("another namespace has no report")
		}
		if status := r.writer.Status(); len(status.Blocked) != 1 || status.Blocked[0].Namespace != "a" {
			t.Errorf("blocked: %v", status.Blocked)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		refuse  func(c *cluster)
		accept  func(c *cluster)
		blocked string
	}{
		{"a quota", func(c *cluster) {
			c.inject = func(_, namespace, _ string) outcome {
				if namespace == "a" {
					return exceeded
				}
				return works
			}
		}, func(c *cluster) { c.inject = nil }, "exceeded quota"},
		{"a namespace that is being deleted", func(c *cluster) { c.deleted["a"] = true }, func(c *cluster) { delete(c.deleted, "a") }, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, a := newCluster(), newAudit()
				c.do(func() { test.refuse(c) })
				for _, name := range []string{"a", "b", "c"} {
					a.set(name, 0, failures(name, 150)...)
				}
				r := run(t, c, a, openreports.Options{})
				pass(time.Minute)
				got := c.snapshot()
				if total(got, "a") != 0 || total(got, "b") != 150 || total(got, "c") != 150 {
					t.Errorf("results: %d, %d, %d", total(got, "a"), total(got, "b"), total(got, "c"))
				}
				status := r.writer.Status()
				if status.Err != nil || (test.blocked != "") != (len(status.Blocked) == 1) ||
					test.blocked != "" && !strings.Contains(status.Blocked[0].Err.Error(), test.blocked) {
					t.Errorf("status: %+v", status)
				}
				pass(12 * time.Hour)
				if errs := r.writer.Status().Errors; errs < 10 || errs > 100 {
					t.Errorf("%d attempts in half a day", errs)
				}
				c.do(func() { test.accept(c) })
				pass(15 * time.Minute)
				if total(c.snapshot(), "a") != 150 || len(r.writer.Status().Blocked) != 0 {
					t.Errorf("%d results; status %+v", total(c.snapshot(), "a"), r.writer.Status())
				}
			})
		})
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason  string
		outcome outcome
	}{{"writes fail", unavailable}, {"responses are lost", lost}} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, a := newCluster(), newAudit()
				a.set("a", 0, failures("a", 350)...)
				c.inject = func(string, string, string) outcome { return test.outcome }
				r := run(t, c, a, openreports.Options{})
				pass(20 * time.Second)
				if status := r.writer.Status(); status.Err == nil || status.Since.IsZero() {
					t.Errorf("status: %+v", status)
				}
				c.do(func() { c.inject = nil })
				pass(5 * time.Minute)
				if n := total(c.snapshot(), "a"); n != 350 || len(c.snapshot()) != 4 {
					t.Errorf("%d results in %d reports", n, len(c.snapshot()))
				}
				if status := r.writer.Status(); status.Err != nil || status.Pending != 0 {
					t.Errorf("status: %+v", status)
				}
			})
		})
	}
}

func TestWithoutTheAPI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		c.missing = true
		a.set("a", 0, failures("a", 1)...)
		r := run(t, c, a, openreports.Options{})
		pass(time.Hour)
		if err := r.writer.Status().Err; err == nil || !strings.Contains(err.Error(), "reports.installCRDs") {
			t.Errorf("the error does not say what to do: %v", err)
		}
		for _, installed := range []bool{true, false, true} {
			c.do(func() {
				c.missing = !installed
				clear(c.reports)
			})
			a.set("a", 0, failures("a", 2)...)
			pass(15 * time.Minute)
			if got := r.writer.Status().Err == nil; got != installed {
				t.Errorf("installed %v: %v", installed, r.writer.Status().Err)
			}
		}
		if n := total(c.snapshot(), "a"); n != 2 {
			t.Errorf("%d results", n)
		}
	})
}

func TestWhatOthersChangeIsRepaired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("a", 0, failures("a", 250)...)
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		want := c.snapshot()["a/usher-1"].Results
		c.do(func() {
			forged := *c.reports["a/usher-1"]
			forged.Results = append(forged.Results[:50:50], openreports.Result{Policy: "p", Source: "usher", Result: "fail"})
			c.store(&forged)
			delete(c.reports, "a/usher-2")
			c.store(&openreports.Report{
				ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "usher-7", Labels: map[string]string{openreports.ManagedByLabel: "usher"}},
				Results:    forged.Results,
			})
		})
		pass(30 * time.Minute)
		c.do(func() {
			// Nothing is missing in it; one result is from nobody.
			forged := *c.reports["a/usher-3"]
			forged.Results = append(slices.Clone(forged.Results), openreports.Result{Policy: "p", Source: "usher", Result: "fail"})
			c.store(&forged)
		})
		pass(30 * time.Minute)
		got := c.snapshot()
		if total(got, "a") != 250 || len(got) != 3 {
			t.Errorf("%d results in %d reports", total(got, "a"), len(got))
		}
		if len(got["a/usher-1"].Results) != len(want) {
			t.Errorf("%d results, expected %d", len(got["a/usher-1"].Results), len(want))
		}
	})
}

func TestEmptySlicesAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		all := failures("a", 1000)
		a.set("a", 1, all...)
		run(t, c, a, openreports.Options{})
		pass(time.Minute)
		// Every fifth is left, so that no slice is empty.
		var some []result.Result
		for i := 0; i < len(all); i += 5 {
			some = append(some, all[i])
		}
		a.set("a", 1, some...)
		pass(10 * time.Minute)
		got := c.snapshot()
		if total(got, "a") != 200 || len(got) > 5 {
			t.Errorf("%d results in %d reports", total(got, "a"), len(got))
		}
		a.set("a", 1)
		pass(10 * time.Minute)
		if got := c.snapshot(); len(got) != 1 || summary(got, "a") != (result.Summary{Pass: 1}) {
			t.Errorf("reports without failures: %v", got)
		}
		a.set("a", 0)
		pass(10 * time.Minute)
		if n := len(c.snapshot()); n != 0 {
			t.Errorf("%d reports about a namespace without objects", n)
		}
	})
}

func TestRemoveDefinitions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		by     string
		others bool
		want   string
	}{
		{"the chart installed them", "usher", false, "CustomResourceDefinition reports.openreports.io, CustomResourceDefinition clusterreports.openreports.io"},
		{"others have reports", "usher", true, ""},
		{"others installed them", "", false, ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := newCluster()
			c.definitions = map[string]*metav1.PartialObjectMetadata{}
			for _, name := range []string{"reports.openreports.io", "clusterreports.openreports.io"} {
				c.definitions[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
					Name: name, Annotations: map[string]string{openreports.InstalledByAnnotation: test.by},
				}}
			}
			if test.others {
				c.store(&openreports.Report{ObjectMeta: metav1.ObjectMeta{Name: "of-somebody-else"}})
			}
			var told []string
			if err := openreports.Remove(t.Context(), c.client(t), func(kind, name string) { told = append(told, kind+" "+name) }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(told, ", "); got != test.want {
				t.Errorf("deleted %q, expected %q", got, test.want)
			}
		})
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, a := newCluster(), newAudit()
		a.set("a", 0, failures("a", 150)...)
		a.set("", 0, about("", "Namespace", "n", result.Fail, "no"))
		r := run(t, c, a, openreports.Options{})
		pass(time.Minute)
		r.stop()
		c.do(func() {
			c.store(&openreports.Report{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "usher-9"}})
		})
		var told []string
		if err := openreports.Remove(context.Background(), c.client(t), func(kind, name string) { told = append(told, kind+" "+name) }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(told, ", "); got != "Report a/usher-1, Report a/usher-2, ClusterReport usher-1" {
			t.Errorf("deleted %s", got)
		}
		if n := len(c.snapshot()); n != 1 {
			t.Errorf("%d reports are left", n)
		}
		c.do(func() { c.missing = true })
		if err := openreports.Remove(context.Background(), c.client(t), nil); err != nil {
			t.Errorf("without the API: %v", err)
		}
	})
}
