package rule_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/rule"
)

func TestParseEntry(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]rule.Entry{
		"mutate":                     {Phase: usher.Mutate},
		"validate-policies":          {Phase: usher.Validate, Part: rule.Policies},
		"validate-metadata":          {Phase: usher.Validate, Part: rule.Metadata},
		"validate-v2beta1":           {Phase: usher.Validate, Versions: "v2beta1"},
		"mutate-once":                {Phase: usher.Mutate, Part: rule.Once},
		"mutate-reinvoked":           {Phase: usher.Mutate, Part: rule.Reinvoked},
		"validate-existing":          {Phase: usher.Validate, Part: rule.Existing},
		"mutate-v1.v2":               {Phase: usher.Mutate, Versions: "v1.v2"},
		"mutate-metadata-v1":         {Phase: usher.Mutate, Part: rule.Metadata, Versions: "v1"},
		"validate-x0123456789abcdef": {Phase: usher.Validate, Versions: "x0123456789abcdef"},
	} {
		got, ok := rule.ParseEntry(name)
		if !ok || got != want || got.String() != name {
			t.Errorf("%s: got %+v %t, want %+v", name, got, ok, want)
		}
	}
	for _, name := range []string{
		"", "authorize", "mutate-", "mutate-x", "mutate-V1", "mutate--v1", "validate-policies-v1", "mutate-v1/../x", "mutate-metadata-", "other-v1",
		"validate-once", "validate-reinvoked", "mutate-once-v1", "mutate-reinvoked-v1", "mutate-existing", "validate-existing-v1",
	} {
		if got, ok := rule.ParseEntry(name); ok {
			t.Errorf("%q is taken for %+v", name, got)
		}
	}
}

// TestReinvokedEntries: rules that run again after later changes have an entry of their own, and
// those of kinds never do.
func TestReinvokedEntries(t *testing.T) {
	t.Parallel()
	pods := rule.ResourceRule{Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"pods"}}
	jobs := rule.ResourceRule{Groups: []string{"batch"}, Versions: []string{"v1"}, Resources: []string{"jobs"}}
	resources := func(name string, reinvoked bool, r rule.ResourceRule) rule.Rule {
		return rule.Rule{
			Policy: usher.PolicyRef{Name: name}, Phase: usher.Mutate, Reinvoked: reinvoked,
			Match: rule.Match{Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{r}}}},
		}
	}
	kinds := rule.Rule{Policy: usher.PolicyRef{Name: "kinds"}, Phase: usher.Mutate, Match: rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}}}
	rules := []rule.Rule{kinds, resources("once", false, jobs), resources("again", true, pods)}
	for entry, want := range map[string]string{
		"mutate": "kinds once again", "mutate-once": "kinds once", "mutate-reinvoked": "again", "mutate-v1": "kinds", "mutate-beside": "once again", "mutate-metadata": "",
	} {
		at, _ := rule.ParseEntry(entry)
		var got []string
		for _, r := range at.Of(rules) {
			got = append(got, r.Policy.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the rules %v, want %s", entry, got, want)
		}
	}
	coverage := rule.Cover(rules)
	for entry, want := range map[string][]bool{
		"mutate": {true, true}, "": {true, true}, "mutate-once": {true, true}, "mutate-reinvoked": {true, false},
	} {
		for i, resource := range []string{"pods", "jobs"} {
			r := &usher.Request{Phase: usher.Mutate, Operation: usher.Create, Entry: entry, Name: "x"}
			r.Kind, r.Resource = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
			if resource == "jobs" {
				r.Kind, r.Resource = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
			}
			if got := coverage.Covers(r); got != want[i] {
				t.Errorf("%q covers %s: %t", entry, resource, got)
			}
			if again := coverage.Again(r); again != (entry == "mutate-reinvoked") {
				t.Errorf("%s at %q is counted elsewhere: %t", resource, entry, again)
			}
		}
	}
	names := coverage.Entries()
	if !slices.Contains(names, "mutate-once") || !slices.Contains(names, "mutate-reinvoked") {
		t.Errorf("the entries are %v", names)
	}
	if names := rule.Cover(rules[:2]).Entries(); slices.Contains(names, "mutate-once") {
		t.Errorf("without rules that run again the entries are %v", names)
	}
}

// TestExistingEntry: rules that inspect what exists have an entry of their own, beside that of the phase,
// which has them for requests that other rules are for, too.
func TestExistingEntry(t *testing.T) {
	t.Parallel()
	validates := func(name string, inspects bool, scope rule.Scope) rule.Rule {
		endpoints := rule.ResourceRule{Operations: []usher.Operation{usher.Update}, Groups: []string{""}, Versions: []string{"v1"}, Resources: []string{"namespaces"}, Scope: scope}
		return rule.Rule{Policy: usher.PolicyRef{Name: name}, Phase: usher.Validate, Inspects: inspects, Match: rule.Match{Resources: []rule.ResourceMatch{{Rules: []rule.ResourceRule{endpoints}}}}}
	}
	kinds := rule.Rule{Policy: usher.PolicyRef{Name: "kinds"}, Phase: usher.Validate, Match: rule.Match{Selectors: []rule.Selector{{APIVersion: "v1", Kind: "Pod"}}}}
	rules := []rule.Rule{kinds, validates("labels", false, ""), validates("existing", true, rule.Cluster)}
	for entry, want := range map[string]string{
		"validate": "kinds labels existing", "validate-existing": "existing", "validate-beside": "labels existing", "validate-v1": "kinds", "validate-metadata": "",
	} {
		at, _ := rule.ParseEntry(entry)
		var got []string
		for _, r := range at.Of(rules) {
			got = append(got, r.Policy.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the rules %v, want %s", entry, got, want)
		}
	}
	namespace := &usher.Request{Phase: usher.Validate, Operation: usher.Update, Name: "shop", Namespace: "shop"}
	namespace.Kind, namespace.Resource = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	coverage := rule.Cover(rules)
	for _, row := range []struct {
		reason, entry string
		coverage      rule.Coverage
		want          bool
	}{
		{"by other rules", "validate", coverage, true},
		{"of what exists", "validate-existing", coverage, true},
		{"by what inspects alone", "validate", rule.Cover(rules[2:]), true},
		{"without rules that inspect", "validate-existing", rule.Cover(rules[:2]), false},
		{"in the other phase", "mutate", coverage, false},
	} {
		namespace.Entry = row.entry
		if got := row.coverage.Covers(namespace); got != row.want {
			t.Errorf("%s: %s covers a namespace: %t", row.reason, row.entry, got)
		}
		if has := slices.Contains(row.coverage.Entries(), row.entry); row.entry == "validate-existing" && has != row.want {
			t.Errorf("%s: the entries are %v", row.reason, row.coverage.Entries())
		}
	}
}

func TestVersionsOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		reason      string
		apiVersions []string
		want        string
	}{
		{"one", []string{"autoscaling/v1"}, "v1"},
		{"of the core group", []string{"v1"}, "v1"},
		{"several", []string{"autoscaling/v1", "autoscaling/v2"}, "v1.v2"},
		{"of several groups: only the full form tells them apart", []string{"a/v1", "b/v1"}, ""},
		{"no name of a version", []string{"a/v1'] || true"}, ""},
		{"too many to name", []string{"a/v1", "a/v2", "a/v3", "a/v4", "a/v5"}, ""},
	}
	seen := map[string]bool{}
	for _, test := range tests {
		short, full := rule.VersionsOf(test.apiVersions)
		if test.want == "" {
			test.want = full
		}
		if short != test.want || seen[full] {
			t.Errorf("%s: got %s and %s", test.reason, short, full)
		}
		seen[full] = true
		for _, versions := range []string{short, full} {
			if _, ok := rule.ParseEntry(rule.Entry{Phase: usher.Mutate, Versions: versions}.String()); !ok {
				t.Errorf("%s: %s is no name of an entry", test.reason, versions)
			}
		}
	}
}

// names are the policies of the rules that belong to an entry.
func names(t *testing.T, rules []rule.Rule, entry string) []string {
	t.Helper()
	at, ok := rule.ParseEntry(entry)
	if !ok {
		t.Fatalf("%s is no entry", entry)
	}
	var all []string
	for _, r := range at.Of(rules) {
		all = append(all, r.Policy.Name)
	}
	return all
}

func TestRulesOfEntries(t *testing.T) {
	t.Parallel()
	named := func(name string, reads []string, selectors ...rule.Selector) rule.Rule {
		r := rule.Rule{Policy: usher.PolicyRef{Name: name}, Phase: usher.Validate, Match: rule.Match{Selectors: selectors}}
		r.Steps = []rule.Step{{Program: selective(reads)}}
		return r
	}
	spec, annotations := []string{"spec"}, []string{"metadata", "annotations"}
	v1, v2 := rule.Selector{APIVersion: "a/v1", Kind: "A"}, rule.Selector{APIVersion: "a/v2", Kind: "A"}
	byLabel := v1
	byLabel.Labels = labels.SelectorFromSet(labels.Set{"a": "b"})
	rules := []rule.Rule{
		named("every", spec), named("one", annotations, v1), named("two", spec, v2), named("both", spec, v1, v2), named("labelled", spec, byLabel),
		{Policy: usher.PolicyRef{Name: "opaque"}, Phase: usher.Validate, Steps: []rule.Step{{Program: opaque{}}}},
	}
	for entry, want := range map[string][]string{
		"validate":             {"every", "one", "two", "both", "labelled", "opaque"},
		"validate-policies":    {"every", "one", "two", "both", "labelled", "opaque"},
		"validate-v1":          {"one", "labelled"},
		"validate-v2":          {"two"},
		"validate-v1.v2":       {"both"},
		"validate-v3":          nil,
		"validate-metadata":    {"one", "labelled", "opaque"},
		"validate-metadata-v1": {"one", "labelled"},
		"mutate-v1":            nil,
	} {
		if diff := cmp.Diff(want, names(t, rules, entry)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", entry, diff)
		}
	}
	if got := rule.Cover(rules).Entries(); !slices.Contains(got, "validate-v1.v2") || slices.Contains(got, "mutate") || !slices.Contains(got, "mutate-policies") {
		t.Errorf("there may be the entries %q", got)
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	selecting := func(apiVersions ...string) rule.Rule {
		r := rule.Rule{Policy: usher.PolicyRef{Name: apiVersions[0]}, Phase: usher.Validate}
		for _, apiVersion := range apiVersions {
			r.Match.Selectors = append(r.Match.Selectors, rule.Selector{APIVersion: apiVersion, Kind: "A"})
		}
		return r
	}
	coverage := rule.Cover([]rule.Rule{selecting("a/v1"), selecting("a/v2")})
	kind := func(version string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "a", Version: version, Kind: "A"}
	}
	tests := []struct {
		reason           string
		entry            string
		asked, requested string
		want             bool
	}{
		{"as the client wrote it", "validate", "v1", "", false},
		{"without an entry", "", "v1", "v3", false},
		{"the other version is asked about first", "validate-v2", "v2", "v1", true},
		{"nobody names the version of the client: the first counts", "validate-v1", "v1", "v3", false},
		{"and the second does not", "validate-v2", "v2", "v3", true},
	}
	for _, test := range tests {
		r := usher.Request{Phase: usher.Validate, Operation: usher.Create, Kind: kind(test.asked), Entry: test.entry}
		if test.requested != "" {
			r.Requested = kind(test.requested)
		}
		if got := coverage.Again(&r); got != test.want {
			t.Errorf("%s: got %t", test.reason, got)
		}
	}
}

// A selective is a program that reads what lies at a path.
type selective []string

func (selective) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func (selective) String() string { return "reads" }

func (p selective) ReadPaths() (object, old *usher.Paths) {
	object = &usher.Paths{}
	object.Add(p...)
	return object, nil
}

// An opaque does not say what it reads.
type opaque struct{}

func (opaque) Run(context.Context, *rule.Input) (rule.Outcome, error) { return rule.Outcome{}, nil }

func (opaque) String() string { return "reads anything" }
