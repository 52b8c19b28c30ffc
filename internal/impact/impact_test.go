package impact_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/fact/object"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/index"
)

// compiled compiles a policy for ConfigMaps.
func compiled(t *testing.T, name, spec string) compile.Compiled {
	t.Helper()
	text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: %s}, spec: {
matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [configmaps]}]}, %s}}`, name, spec)
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := api.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	c := compile.Policy(policy)
	if len(c.Problems) > 0 {
		t.Fatal(c.Problems)
	}
	return c
}

func side(all ...compile.Compiled) impact.Side {
	rules := compile.Order(all)
	facts := fact.Resolvers{fact.Objects: object.FromTrees([]map[string]any{object.Namespace("shop")})}
	return impact.Side{Decider: engine.New(index.New(rules), facts, engine.Options{FailurePolicy: usher.Fail}), Rules: rules}
}

func subject(t *testing.T, operation usher.Operation, data string) *impact.Subject {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop"},"data":%s}`, data), &tree); err != nil {
		t.Fatal(err)
	}
	r := &usher.Request{
		Phase: usher.Mutate, Operation: operation, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: "shop", Name: "a", User: usher.User{Name: "jane"},
	}
	if operation == usher.Delete {
		r.OldObject = usher.TreeObject(tree)
	} else {
		r.Object = usher.TreeObject(tree)
	}
	return &impact.Subject{Request: r, From: "here"}
}

const (
	denies = `validations: [{expression: "!('x' in object.data)", message: no x}]`
	warns  = denies + `, bindings: [{name: all, validationActions: [Warn]}]`
	sets   = `mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/set", value: "%s"}]'}}]`
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	another, same := compiled(t, "another", `validations: [{expression: "!('z' in object.data)", message: no z}]`), compiled(t, "p", denies)
	for _, test := range []struct {
		reason   string
		was, is  []compile.Compiled
		data     string
		want     string
		notAsked bool
	}{
		{"a new policy denies", nil, []compile.Compiled{same}, `{"x":"1"}`, "denied p: no x", false},
		{"and does not", nil, []compile.Compiled{same}, `{"y":"1"}`, "", false},
		{"one that is gone denied", []compile.Compiled{same}, nil, `{"x":"1"}`, "allowed p: no x", false},
		{"from Deny to Warn", []compile.Compiled{same}, []compile.Compiled{compiled(t, "p", warns)}, `{"x":"1"}`, "warned p: no x; allowed p: no x", false},
		{"from Warn to Deny", []compile.Compiled{compiled(t, "p", warns)}, []compile.Compiled{same}, `{"x":"1"}`, "denied p: no x", false},
		{"a policy that stays", []compile.Compiled{same, another}, []compile.Compiled{same, another}, `{"x":"1"}`, "", true},
		{"another one denies as before", []compile.Compiled{another}, []compile.Compiled{another, same}, `{"x":"1","z":"1"}`, "reason p: no x", false},
		{"a rule that fails", nil, []compile.Compiled{compiled(t, "p", `validations: [{expression: "object.data.y == '1'"}]`)}, `{}`, "failing p: expression 'object.data.y == '1'' resulted in error: no such key: y; denied p: expression 'object.data.y == '1'' resulted in error: no such key: y", false},
		{"another value is set", []compile.Compiled{compiled(t, "p", fmt.Sprintf(sets, "a"))}, []compile.Compiled{compiled(t, "p", fmt.Sprintf(sets, "b"))}, `{}`, "changed p: changes /data/set", false},
		{"nothing is set any more", []compile.Compiled{compiled(t, "p", fmt.Sprintf(sets, "a"))}, nil, `{}`, "changed p: no longer changes the object", false},
		{"the same is set by another policy", []compile.Compiled{compiled(t, "p", fmt.Sprintf(sets, "a"))}, []compile.Compiled{compiled(t, "q", fmt.Sprintf(sets, "a"))}, `{}`, "", false},
		{"what is set is denied by another policy", []compile.Compiled{compiled(t, "q", `validations: [{expression: "!('set' in object.data)", message: not set}]`)},
			[]compile.Compiled{compiled(t, "q", `validations: [{expression: "!('set' in object.data)", message: not set}]`), compiled(t, "p", fmt.Sprintf(sets, "a"))}, `{}`, "denied q: not set", false},
	} {
		c := impact.New(side(test.was...), side(test.is...))
		differences, concerned, err := c.Compare(t.Context(), subject(t, usher.Create, test.data))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(differences); got != test.want {
			t.Errorf("%s: got %q, expected %q", test.reason, got, test.want)
		}
		if concerned == test.notAsked {
			t.Errorf("%s: a policy that differs is for it: %v", test.reason, concerned)
		}
	}
}

func said(differences []impact.Difference) string {
	var all []string
	for _, d := range differences {
		all = append(all, fmt.Sprintf("%s %s: %s", d.Kind, d.Policy.Name, d.Message))
	}
	return strings.Join(all, "; ")
}

// TestUnknown: what a policy reads and the source of a request does not have makes the result unknown, and
// what it does not read does not.
func TestUnknown(t *testing.T) {
	t.Parallel()
	const old = `validations: [{expression: "oldObject == null || object.data == oldObject.data", message: no change}]`
	for _, test := range []struct {
		reason, spec string
		operation    usher.Operation
		change       func(*impact.Subject)
		want         string
	}{
		{"no old object", old, usher.Update, func(s *impact.Subject) { s.Unknown.OldObject = "no old one" }, "unknown p: no old one"},
		{"which is not read", denies, usher.Update, func(s *impact.Subject) { s.Unknown.OldObject = "no old one" }, "denied p: no x"},
		{"no object", denies, usher.Create, func(s *impact.Subject) { s.Unknown.Object, s.Request.Object = "no object", nil }, "unknown p: no object"},
		{"no defaults, which this kind does not have", denies, usher.Create, func(s *impact.Subject) { s.Unknown.Defaults = "no defaults" }, "denied p: no x"},
		{"no defaults", `validations: [{expression: "object.immutable == true", message: m}]`, usher.Create, func(s *impact.Subject) { s.Unknown.Defaults = "no defaults" }, "unknown p: no defaults"},
		{"no user", `validations: [{expression: "request.userInfo.username == 'bob'", message: not bob}]`, usher.Create, func(s *impact.Subject) { s.Unknown.User = "no user" }, "unknown p: no user"},
		{"what mutations made of it is known already", fmt.Sprintf(sets, "a"), usher.Create, func(s *impact.Subject) { s.Admitted = true }, "unknown p: it changes objects, and only the object that came out is known"},
		{"validations see that", denies, usher.Create, func(s *impact.Subject) { s.Admitted = true }, "denied p: no x"},
	} {
		s := subject(t, test.operation, `{"x":"1"}`)
		test.change(s)
		differences, _, err := impact.New(side(), side(compiled(t, "p", test.spec))).Compare(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(differences); got != test.want {
			t.Errorf("%s: got %q, expected %q", test.reason, got, test.want)
		}
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	tally := impact.NewTally(impact.By{Namespace: true, User: true})
	p := usher.PolicyRef{Kind: "ClusterObjectPolicy", Name: "p"}
	for i, user := range []string{"jane", "bob", "jane"} {
		s := subject(t, usher.Create, `{}`)
		s.Request.User.Name = user
		tally.Add(3-i, s, true, []impact.Difference{
			{Difference: diff.Difference{Kind: diff.Denied, Policy: p, Message: fmt.Sprint(i)}, Request: s.Request},
			{Difference: diff.Difference{Kind: diff.Denied, Policy: usher.PolicyRef{Name: "q"}}, Request: s.Request},
		})
	}
	tally.Add(4, subject(t, usher.Create, `{}`), false, nil)
	got := tally.Summary()
	if got.Seen != 4 || got.Compared != 3 || got.Requests[diff.Denied] != 3 || got.Requests[diff.Unknown] != 0 {
		t.Errorf("got %+v", got)
	}
	var rows []string
	for _, r := range got.Rows {
		rows = append(rows, fmt.Sprint(r.Kind, " ", r.Policy.Name, " ", r.Namespace, " ", r.User, " ", r.Requests, " ", r.Example.Message, r.Resource))
	}
	// The example is the first request, in whatever order they are counted.
	want := []string{"denied q shop jane 2 ", "denied p shop jane 2 2", "denied q shop bob 1 ", "denied p shop bob 1 1"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestNames: a row names the first objects, each once, in whatever order they are counted.
func TestNames(t *testing.T) {
	t.Parallel()
	tally := impact.NewTally(impact.By{})
	for _, at := range []struct {
		number int
		name   string
	}{{9, "e"}, {7, "d"}, {5, "c"}, {3, "b"}, {4, ""}, {2, "e"}, {6, "a"}, {8, "b"}} {
		s := &impact.Subject{Request: &usher.Request{Name: at.name}}
		tally.Add(at.number, s, true, []impact.Difference{{Difference: diff.Difference{Kind: diff.Denied}, Request: s.Request}})
	}
	rows := tally.Summary().Rows
	if d := cmp.Diff([]string{"e", "b", "c"}, rows[0].Names); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	if !rows[0].MoreNames {
		t.Error("nothing says that there are others")
	}
}

// TestRowsAreBounded: a log with ever new users costs no more than a number of rows.
func TestRowsAreBounded(t *testing.T) {
	t.Parallel()
	tally := impact.NewTally(impact.By{User: true})
	for i := range 10_100 {
		s := &impact.Subject{Request: &usher.Request{User: usher.User{Name: fmt.Sprint(i)}}}
		tally.Add(i, s, true, []impact.Difference{{Difference: diff.Difference{Kind: diff.Warned}, Request: s.Request}})
	}
	if got := tally.Summary(); len(got.Rows) != 10_000 || got.More != 100 || got.Requests[diff.Warned] != 10_100 {
		t.Errorf("%d rows, %d in none, %d requests", len(got.Rows), got.More, got.Requests[diff.Warned])
	}
}

// TestRowsAreShort: a log with names of megabytes costs no more than the beginnings of them.
func TestRowsAreShort(t *testing.T) {
	t.Parallel()
	tally, long := impact.NewTally(impact.By{User: true, Namespace: true, Resource: true}), strings.Repeat("é", 1<<20)
	r := &usher.Request{User: usher.User{Name: long}, Namespace: long, Name: long, Resource: schema.GroupVersionResource{Resource: long}}
	tally.Add(1, &impact.Subject{Request: r}, true, []impact.Difference{{Difference: diff.Difference{Kind: diff.Warned, Message: long}, Request: r}})
	text, err := json.Marshal(tally.Summary())
	if err != nil || len(text) > 10_000 || strings.Contains(string(text), "�") {
		t.Errorf("%v: the summary has %d bytes", err, len(text))
	}
}

// TestNobodyWaits: a comparison ends with its context.
func TestNobodyWaits(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	differences, _, err := impact.New(side(), side(compiled(t, "p", denies))).Compare(ctx, subject(t, usher.Create, `{"x":"1"}`))
	if err == nil && said(differences) == "" {
		t.Error("a request that was not decided counts as one without differences")
	}
}
