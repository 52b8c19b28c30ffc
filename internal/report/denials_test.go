package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/report"
)

// A denier denies requests by policies, and has the Events about that.
type denier struct {
	t       *testing.T
	kube    *kubefake.Clientset
	denials *report.Denials
}

func newDenier(t *testing.T, identity string) *denier {
	t.Helper()
	d := &denier{t: t, kube: kubefake.NewClientset()}
	d.denials = report.NewDenials(d.kube, identity, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.denials.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *denier) decide(r usher.Request, decision usher.Decision, err error) {
	d.t.Helper()
	decider := d.denials.Wrap(usher.DeciderFunc(func(context.Context, *usher.Request) (usher.Decision, error) { return decision, err }))
	if got, gotErr := decider.Decide(d.t.Context(), &r); got.Verdict != decision.Verdict || !errors.Is(gotErr, err) {
		d.t.Errorf("the decision has changed: %+v, %v", got, gotErr)
	}
}

// deny denies a request by some policies.
func (d *denier) deny(r usher.Request, policies ...string) {
	decision := usher.Decision{Verdict: usher.Deny, Message: "s3cr3t"}
	for _, name := range policies {
		decision.Findings = append(decision.Findings, usher.Finding{
			Policy: usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: name}, Outcome: usher.Rejected, Message: "s3cr3t", Checks: []usher.Check{{Message: "s3cr3t", Field: "s3cr3t"}},
		})
	}
	d.decide(r, decision, nil)
}

// minute lets a minute pass and returns the Events, in lines.
func (d *denier) minute() (lines []string) {
	d.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	list, err := d.kube.CoreV1().Events("").List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.InvolvedObject.Namespace != "" && e.InvolvedObject.Namespace != e.Namespace || e.InvolvedObject.Namespace == "" && e.Namespace != "default" {
			d.t.Errorf("API servers do not accept an Event in %s about an object in %q", e.Namespace, e.InvolvedObject.Namespace)
		}
		line := fmt.Sprintf("%s %s %s/%s %s x%d: %s", e.Namespace, e.Type, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Count, e.Message)
		if strings.Contains(fmt.Sprint(e), "s3cr3t") {
			d.t.Errorf("it has a value: %v", e)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func request(namespace, kind, name string) usher.Request {
	return usher.Request{
		Phase: usher.Validate, Operation: usher.Create, Namespace: namespace, Name: name, Kind: schema.GroupVersionKind{Version: "v1", Kind: kind},
		User: usher.User{Name: "s3cr3t"}, Object: usher.RawObject([]byte(`{"a":"s3cr3t"}`)),
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDenier(t, "usher-a")
		d.deny(request("shop", "Pod", "a"), "owner", "limits")
		d.deny(request("shop", "Pod", "b"), "owner")
		d.deny(request("bank", "Pod", ""), "owner")
		d.deny(request("", "ClusterRole", "admin"), "owner")
		// A Namespace has its own name as its namespace, which is not there if it is denied.
		d.deny(request("new", "Namespace", "new"), "names")
		d.deny(request("shop", "Pod", "a\x1b[31m\n"), "odd")
		for _, row := range []struct {
			decision usher.Decision
			err      error
			change   func(*usher.Request)
		}{
			{usher.Allowed(), nil, nil},
			{usher.Denied("no"), errors.New("late"), nil},
			{usher.Denied("nobody's"), nil, nil},
			{usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{Policy: ref("quiet"), Outcome: usher.Passed}, {Policy: ref("ignored"), Outcome: usher.Failed, Ignored: true}}}, nil, nil},
			{usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{Policy: ref("written"), Written: true, Outcome: usher.Rejected}}}, nil, nil},
			{usher.Decision{Verdict: usher.Deny, Findings: []usher.Finding{{Policy: ref("dry"), Outcome: usher.Rejected}}}, nil, func(r *usher.Request) { r.DryRun = true }},
		} {
			r := request("shop", "Pod", "c")
			if row.change != nil {
				row.change(&r)
			}
			d.decide(r, row.decision, row.err)
		}
		want := []string{
			"bank Warning Namespace/bank PolicyDenied x1: ClusterObjectPolicy owner denied a request; the last one: CREATE Pod",
			"default Warning ClusterObjectPolicy/names PolicyDenied x1: ClusterObjectPolicy names denied a request; the last one: CREATE Namespace new",
			"default Warning ClusterObjectPolicy/owner PolicyDenied x1: ClusterObjectPolicy owner denied a request; the last one: CREATE ClusterRole admin",
			"shop Warning Namespace/shop PolicyDenied x1: ClusterObjectPolicy odd denied a request; the last one: CREATE Pod",
			"shop Warning Pod/a PolicyDenied x1: ClusterObjectPolicy limits denied a request; the last one: CREATE Pod a",
			"shop Warning Pod/b PolicyDenied x2: ClusterObjectPolicy owner denied 2 requests; the last one: CREATE Pod b",
		}
		if diff := cmp.Diff(want, d.minute()); diff != "" {
			t.Errorf("after a minute: -want +got:\n%s", diff)
		}
		writes := len(d.kube.Actions())
		d.minute()
		if got := len(d.kube.Actions()); got != writes+1 {
			t.Errorf("%d writes in a minute without denials", got-writes-1)
		}
		d.deny(request("shop", "Pod", "z"), "limits")
		want[4], want[5] = want[5], "shop Warning Pod/z PolicyDenied x2: ClusterObjectPolicy limits denied 2 requests; the last one: CREATE Pod z"
		if diff := cmp.Diff(want, d.minute()); diff != "" {
			t.Errorf("after another denial: -want +got:\n%s", diff)
		}
		time.Sleep(2 * time.Hour)
		d.deny(request("bank", "Pod", ""), "owner")
		if got := d.minute()[0]; got != want[0] {
			t.Errorf("hours later: %s", got)
		}
	})
}

// TestDenialsAreBounded: who causes many denials fills neither the namespaces of others nor etcd.
// TestPoliciesOfANamespaceLeaveTallies: a tenant who writes, has deny, and deletes more policies than are counted within an
// hour, keeps nobody else's denials from being told.
func TestPoliciesOfANamespaceLeaveTallies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDenier(t, "usher-a")
		for policy := range 3000 {
			d.deny(request("greedy", "Pod", "a"), fmt.Sprint("p", policy))
		}
		d.deny(request("shop", "Pod", "a"), "p")
		if lines := d.minute(); !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "shop ") }) {
			t.Errorf("of %d Events, none is in shop: %q", len(lines), lines)
		}
		// An hour later the namespace has its own part again.
		time.Sleep(2 * time.Hour)
		d.minute()
		d.deny(request("greedy", "Pod", "a"), "another")
		if lines := d.minute(); !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "another denied") }) {
			t.Errorf("after an hour: %q", lines)
		}
	})
}

func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDenier(t, "usher-a")
		for namespace := range 30 {
			for policy := range 20 {
				d.deny(request(fmt.Sprint("n", namespace), "Pod", "a"), fmt.Sprint("p", policy))
			}
		}
		for policy := range 500 {
			d.deny(request("greedy", "Pod", "a"), fmt.Sprint("p", policy))
			d.deny(request("greedy", "Pod", "a"), fmt.Sprint("p", policy))
		}
		lines := d.minute()
		namespaces := map[string]int{}
		for _, line := range lines {
			namespaces[strings.Fields(line)[0]]++
		}
		if len(lines) != 60 || len(namespaces) != 31 || namespaces["greedy"] > 5 {
			t.Errorf("%d Events in %d namespaces, %d of the greedy one", len(lines), len(namespaces), namespaces["greedy"])
		}
		// Of 500 policies in one namespace 100 are counted, and all of the others.
		if got := d.denials.Dropped(); got != 2*400+700-60 {
			t.Errorf("%d are counted as dropped", got)
		}
	})
}

// TestDenialsThatAreRefused: an API server that refuses Events, as in a namespace that ends, keeps
// nothing back.
func TestDenialsThatAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDenier(t, "usher-a")
		d.kube.PrependReactor("patch", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetNamespace() == "ending" {
				return true, nil, errors.New("the namespace ends")
			}
			return false, nil, nil
		})
		d.deny(request("ending", "Pod", "a"), "owner")
		d.deny(request("shop", "Pod", "a"), "owner")
		if got := d.minute(); len(got) != 1 || d.denials.Dropped() != 1 {
			t.Errorf("%v, %d dropped", got, d.denials.Dropped())
		}
	})
}

// TestDenialsOfReplicas: replicas do not overwrite the Events of others.
func TestDenialsOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := newDenier(t, "usher-a"), newDenier(t, "usher-b")
		names := map[string]bool{}
		for _, d := range []*denier{a, b} {
			d.deny(request("shop", "Pod", "a"), "owner")
			d.minute()
			list, err := d.kube.CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("%v: %v", list, err)
			}
			names[list.Items[0].Name] = true
		}
		if len(names) != 2 {
			t.Errorf("both write %v", names)
		}
	})
}

// TestFirstAndLastDenials: the first Event comes within a second, and the last ones when a replica ends.
func TestFirstAndLastDenials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		d := &denier{t: t, kube: kube, denials: report.NewDenials(kube, "usher-a", slog.New(slog.DiscardHandler))}
		counts := func() string {
			synctest.Wait()
			list, err := kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var all []string
			for i := range list.Items {
				all = append(all, fmt.Sprintf("%s x%d", list.Items[i].Namespace, list.Items[i].Count))
			}
			slices.Sort(all)
			return strings.Join(all, ", ")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.denials.Run(ctx) }()
		synctest.Wait()
		time.Sleep(10 * time.Second)
		d.deny(request("shop", "Pod", "a"), "owner")
		time.Sleep(time.Second)
		if got := counts(); got != "shop x1" {
			t.Errorf("after a second: %q", got)
		}
		d.deny(request("shop", "Pod", "b"), "owner")
		for i := range 20 {
			d.deny(request(fmt.Sprintf("n%02d", i), "Pod", "a"), "owner")
		}
		time.Sleep(time.Second)
		if got := counts(); strings.Count(got, ",") != 9 || !strings.Contains(got, "shop x1") {
			t.Errorf("no more than ten a minute are early: %q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := counts(); strings.Count(got, ",") != 20 || !strings.Contains(got, "shop x2") {
			t.Errorf("in the end: %q", got)
		}
	})
}
