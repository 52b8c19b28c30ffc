package auditing_test

import (
	order "cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/serve/auditing"
)

// A lister is an API server that lists objects.
type lister struct {
	// objects are the JSON of objects, by path.
	objects map[string][]string
	// stallAfter is after how many objects a list does not go on, unless it is 0; -1 means that nothing is
	// answered.
	stallAfter int
	// endless says that limits are ignored, code is that of errors, and panics that there is a defect.
	endless bool
	code    int
	panics  bool

	mu    sync.Mutex
	asked []string
}

// RoundTrip implements [http.RoundTripper].
func (l *lister) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	kind := "whole"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadataList") {
		kind = "metadata"
	}
	l.asked = append(l.asked, r.URL.Path+" "+kind)
	l.mu.Unlock()
	switch {
	case l.panics:
		panic("a defect")
	case l.stallAfter < 0:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case l.code != 0:
		return &http.Response{StatusCode: l.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(
			fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "because", "code": %d}`, l.code))), Request: r}, nil
	}
	items, more := l.objects[r.URL.Path], ""
	if limit, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && len(items) > limit && !l.endless {
		items, more = items[:limit], "more"
	}
	body, to := io.Pipe()
	go func() {
		_, _ = fmt.Fprintf(to, `{"metadata": {"resourceVersion": "9", "continue": %q}, "items": [`, more)
		for i, item := range items {
			if i > 0 && i == l.stallAfter {
				<-r.Context().Done()
				_ = to.CloseWithError(r.Context().Err())
				return
			}
			if i > 0 {
				item = "," + item
			}
			_, _ = io.WriteString(to, item)
		}
		_, _ = io.WriteString(to, "]}")
		_ = to.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

func (l *lister) client(t *testing.T) rest.Interface {
	t.Helper()
	config := &rest.Config{Host: "http://cluster", QPS: -1, ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs.WithoutConversion()}}
	client, err := rest.UnversionedRESTClientForConfigAndClient(config, &http.Client{Transport: l})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// existing counts what is on the lister, with some policies in force.
func (l *lister) existing(t *testing.T, enforced ...compile.Compiled) func(context.Context, compile.Compiled) []rule.Problem {
	t.Helper()
	lists := []*metav1.APIResourceList{
		resources("v1", "bindings!create", "pods", "pods/status", "events", "secrets", "configmaps", "gears!get create", "namespaces"),
		resources("apps/v1", "deployments", "statefulsets", "daemonsets"),
		resources("autoscaling/v2", "horizontalpodautoscalers"),
		resources("autoscaling/v1", "horizontalpodautoscalers"),
		resources("coordination.k8s.io/v1", "leases"),
	}
	for i := range lists[0].APIResources {
		if r := &lists[0].APIResources[i]; r.Name == "secrets" {
			r.Kind = "Secret"
		}
	}
	a := auditing.New(auditing.Config{}, auditing.Options{
		Client: l.client(t), Discovery: &auditing.Discovered{Resources: lists, Complete: true}, Log: slog.New(slog.DiscardHandler),
	})
	a.Begin(auditing.Policies{
		Facts:    fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { return nil, errors.New("there are no facts") }),
		Engine:   engine.Options{FailurePolicy: usher.Fail},
		Enforced: func() []compile.Compiled { return enforced },
	})
	return a.Existing
}

// written compiles a policy of a kind, in force for objects that may be created.
func written(t *testing.T, kind, resources, spec string) compile.Compiled {
	t.Helper()
	metadata := `{"name": "owner"}`
	if kind == "ClusterPolicyExemption" {
		metadata = `{"name": "cart"}`
	} else if resources != "" {
		spec += fmt.Sprintf(`, "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [%s]}]}`, resources)
	}
	policy, err := api.Decode(fmt.Appendf(nil, `{"apiVersion": "usher.dev/v1alpha1", "kind": %q, "metadata": %s, "spec": {%s}}`, kind, metadata, spec))
	if err != nil {
		t.Fatal(err)
	}
	compiled := compile.Policy(policy)
	if errs := rule.Errors(compiled.Problems); len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled
}

// object is an object, as API servers list it, of a team or of nobody.
func object(t *testing.T, namespace, name, team string) string {
	t.Helper()
	metadata := map[string]any{"name": name, "namespace": namespace}
	if team != "" {
		metadata["labels"] = map[string]string{"team": team}
	}
	text, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"password": "planted"}, "data": map[string]any{"password": "planted"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// said returns the warnings as their writers read them.
func said(problems []rule.Problem) []string {
	var all []string
	for _, p := range problems {
		if p.Severity != rule.Warning || p.Field != "spec.validations" || p.Do != "see all with: usher audit --from-cluster --policy owner, with -p FILE before it is applied" {
			all = append(all, fmt.Sprintf("another problem: %+v", p))
			continue
		}
		all = append(all, p.What)
	}
	return all
}

const (
	needsTeam    = `"validations": [{"expression": "has(object.metadata.labels) && 'team' in object.metadata.labels"}]`
	readsSpec    = `"validations": [{"expression": "object.spec.password == 'other'"}]`
	readsNone    = `"validations": [{"expression": "object.spec.none == 1"}]`
	dependsOn    = `"validations": [{"expression": "request.userInfo.username == 'admin'"}]`
	bindings     = `, "bindings": [{"name": "a", "validationActions": [%s]}]`
	policyOfAll  = "ClusterObjectPolicy"
	exemptedCart = `"policyRefs": [{"kind": "ClusterObjectPolicy", "name": "owner"}], "matchConditions": [{"name": "cart", "expression": "object.metadata.name == 'cart'"}],
		"reason": "r", "owner": "o", "expiresAt": "2200-01-01T00:00:00Z"`
)

// TestExistingObjects counts the objects that a policy would refuse, within its limits.
func TestExistingObjects(t *testing.T) {
	t.Parallel()
	pods := []string{object(t, "shop", "good", "shop"), object(t, "shop", "cart", ""), object(t, "bank", "safe", "")}
	var many []string
	for i := range 300 {
		many = append(many, object(t, "shop", fmt.Sprintf("pod-%03d", i), []string{"", "shop"}[i%2]))
	}
	some := map[string][]string{"/api/v1/pods": pods}
	lots := map[string][]string{"/api/v1/pods": many}
	everywhere := map[string][]string{"/api/v1/pods": pods, "/api/v1/namespaces": {object(t, "", "shop", "")}}
	const ofPods = "/api/v1/pods metadata"
	for _, row := range []struct {
		reason    string
		server    *lister
		resources string
		spec      string
		enforced  []compile.Compiled
		timeout   time.Duration
		want      []string
		asked     []string
	}{
		{"a policy without bindings", &lister{objects: some}, `"pods"`, needsTeam, nil, 0, []string{"2 of 3 existing pods would be refused, such as shop/cart"}, []string{ofPods}},
		{"a binding that denies", &lister{objects: some}, `"pods"`, needsTeam + fmt.Sprintf(bindings, `"Deny", "Audit"`), nil, 0, []string{"2 of 3 existing pods would be refused, such as shop/cart"}, []string{ofPods}},
		{"whole objects, if expressions read them", &lister{objects: some}, `"pods"`, readsSpec, nil, 0, []string{"3 of 3 existing pods would be refused, such as shop/good"}, []string{"/api/v1/pods whole"}},
		{"failing expressions refuse", &lister{objects: some}, `"pods"`, readsNone, nil, 0, []string{"3 of 3 existing pods would be refused, such as shop/good"}, []string{"/api/v1/pods whole"}},
		{"unless that is ignored", &lister{objects: some}, `"pods"`, `"failurePolicy": "Ignore", ` + readsNone, nil, 0, nil, []string{"/api/v1/pods whole"}},
		{"nothing is read for Warn", &lister{objects: some}, `"pods"`, needsTeam + fmt.Sprintf(bindings, `"Warn", "Audit"`), nil, 0, nil, nil},
		{"nor for what depends on users", &lister{objects: some}, `"pods"`, dependsOn, nil, 0, nil, nil},
		{"nor of kinds that do not exist", &lister{objects: some}, `"widgets"`, needsTeam, nil, 0, nil, nil},
		{"nor of kinds that are never sent", &lister{objects: map[string][]string{"/apis/coordination.k8s.io/v1/leases": pods}}, `"leases"`, needsTeam, nil, 0, nil, nil},
		{"nor of kinds that cannot be followed", &lister{objects: some}, `"gears", "bindings", "pods/status"`, needsTeam, nil, 0, nil, nil},
		{"the first page", &lister{objects: lots}, `"pods"`, needsTeam, nil, 0, []string{"125 of the first 250 existing pods would be refused, such as shop/pod-000"}, []string{ofPods}},
		{"of an API server that ignores limits, too", &lister{objects: lots, endless: true}, `"pods"`, needsTeam, nil, 0, []string{"125 of the first 250 existing pods would be refused, such as shop/pod-000"}, []string{ofPods}},
		{"none would be refused", &lister{objects: map[string][]string{"/api/v1/pods": pods[:1]}}, `"pods"`, needsTeam, nil, 0, nil, []string{ofPods}},
		{"time is over", &lister{objects: lots, stallAfter: 120}, `"pods"`, needsTeam, nil, 0, []string{"60 of the first 120 existing pods would be refused, such as shop/pod-000"}, []string{ofPods}},
		{"before anything was read", &lister{objects: lots, stallAfter: -1}, `"pods"`, needsTeam, nil, 0, nil, []string{ofPods}},
		{"half of the time of the request is over", &lister{objects: lots, stallAfter: 4}, `"pods"`, needsTeam, nil, 200 * time.Millisecond, []string{"2 of the first 4 existing pods would be refused, such as shop/pod-000"}, []string{ofPods}},
		{"it may not be read", &lister{code: http.StatusForbidden}, `"pods"`, needsTeam, nil, 0, nil, []string{ofPods}},
		{"a defect", &lister{panics: true}, `"pods"`, needsTeam, nil, 0, nil, []string{ofPods}},
		{
			"exempt objects are not refused", &lister{objects: some}, `"pods"`, needsTeam, []compile.Compiled{written(t, "ClusterPolicyExemption", "", exemptedCart)}, 0,
			[]string{"1 of 3 existing pods would be refused, such as bank/safe"}, []string{ofPods},
		},
		{
			"the policy replaces the one in force", &lister{objects: some}, `"pods"`, needsTeam, []compile.Compiled{written(t, policyOfAll, `"pods"`, readsSpec)}, 0,
			[]string{"2 of 3 existing pods would be refused, such as shop/cart"}, []string{ofPods},
		},
		{
			"five kinds, and no Events", &lister{objects: everywhere}, `"*"`, needsTeam, nil, 0,
			[]string{"2 of 3 existing pods would be refused, such as shop/cart", "1 of 1 existing namespaces would be refused, such as shop"},
			[]string{ofPods, "/api/v1/secrets metadata", "/api/v1/configmaps metadata", "/api/v1/namespaces metadata", "/apis/apps/v1/deployments metadata"},
		},
		{"data of Secrets is not read", &lister{objects: map[string][]string{"/api/v1/secrets": pods}}, `"secrets"`, `"validations": [{"expression": "!object.data.password.startsWith('p')"}]`, nil, 0, nil, nil},
		{
			"one version of a kind", &lister{objects: map[string][]string{"/apis/autoscaling/v2/horizontalpodautoscalers": pods}}, `"horizontalpodautoscalers"`, needsTeam, nil, 0,
			[]string{"2 of 3 existing horizontalpodautoscalers.autoscaling would be refused, such as shop/cart"}, []string{"/apis/autoscaling/v2/horizontalpodautoscalers metadata"},
		},
		{
			"names are printable", &lister{objects: map[string][]string{"/api/v1/pods": {object(t, "shop", "a\x1b[31m\nb", "")}}}, `"pods"`, needsTeam, nil, 0,
			[]string{`1 of 1 existing pods would be refused, such as shop/a\x1b[31m b`}, []string{ofPods},
		},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			policy := written(t, policyOfAll, row.resources, row.spec)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), order.Or(row.timeout, time.Minute))
				defer cancel()
				got := said(row.server.existing(t, row.enforced...)(ctx, policy))
				if diff := cmp.Diff(row.want, got); diff != "" {
					t.Errorf("warnings (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(row.asked, row.server.asked); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				if err := ctx.Err(); err != nil {
					t.Errorf("the request cannot be answered any more: %v", err)
				}
			})
		})
	}
}

// TestExistingObjectsAreCountedOnce at a time: others who write policies do not wait.
func TestExistingObjectsAreCountedOnce(t *testing.T) {
	t.Parallel()
	policy := written(t, policyOfAll, `"pods"`, needsTeam)
	synctest.Test(t, func(t *testing.T) {
		server := &lister{objects: map[string][]string{"/api/v1/pods": {object(t, "shop", "cart", ""), object(t, "shop", "till", "")}}, stallAfter: 1}
		count := server.existing(t)
		want := []string{"1 of the first 1 existing pods would be refused, such as shop/cart"}
		first := make(chan []string)
		go func() { first <- said(count(t.Context(), policy)) }()
		synctest.Wait()
		if second := count(t.Context(), policy); second != nil {
			t.Errorf("a second one meanwhile: %v", second)
		}
		if diff := cmp.Diff(want, <-first); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, said(count(t.Context(), policy))); diff != "" {
			t.Errorf("afterwards (-want +got):\n%s", diff)
		}
		if n := len(server.asked); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}
