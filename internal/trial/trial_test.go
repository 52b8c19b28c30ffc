package trial_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cue"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	"github.com/usher-dev/usher/internal/trial"
)

var update = flag.Bool("update", false, "write what is said of slips")

func TestMain(m *testing.M) {
	cue.Main()
	os.Exit(m.Run())
}

// TestSlips: each slip is told, as in the archives.
func TestSlips(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/slips/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	slips := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		slips += len(archive.Files) / 2
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			told(t, archive)
			if *update {
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if slips < 300 {
		t.Errorf("%d slips: some are lost", slips)
	}
}

// told compares what is said of each slip with what the archive has.
func told(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	if len(archive.Files)%2 != 0 {
		t.Fatalf("%d files: want pairs of a policy and what is said of it", len(archive.Files))
	}
	for i := 0; i < len(archive.Files); i += 2 {
		slip, said := archive.Files[i], &archive.Files[i+1]
		got := verdict(t, slip)
		if *update {
			said.Data = []byte(got)
		}
		if got == "" {
			t.Errorf("%s: nothing is said", slip.Name)
		}
		if diff := cmp.Diff(string(said.Data), got); diff != "" {
			t.Errorf("%s (-want +got; go test ./internal/trial -update writes it):\n%s", slip.Name, diff)
		}
	}
}

// verdict returns the problems of one slip, one a line.
func verdict(t *testing.T, slip txtar.File) string {
	t.Helper()
	p, err := policy(t, slip.Name, slip.Data)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	c := compile.Policy(p)
	problems := c.Problems
	if len(rule.Errors(rule.Written(problems))) == 0 {
		problems = append(problems, tried(t).Problems(t.Context(), c)...)
	}
	var b strings.Builder
	for _, p := range rule.Written(problems) {
		b.WriteString(strings.ReplaceAll(p.String(), c.Ref.String()+": ", "") + "\n")
	}
	return b.String()
}

// policy makes one of a spec. The folder that it is in names its kind.
func policy(t *testing.T, name string, spec []byte) (api.Policy, error) {
	t.Helper()
	folder, _, _ := strings.Cut(name, "/")
	metadata := map[string]any{"name": "p"}
	apiVersion, kind := "policy.kcloudlabs.io/v1alpha1", ""
	switch folder {
	case "validate":
		kind = "ClusterValidatePolicy"
	case "override":
		kind = "ClusterOverridePolicy"
	case "access":
		apiVersion, kind = "usher.dev/v1alpha1", "ClusterAuthorizationPolicy"
	case "tenant":
		apiVersion, kind, metadata["namespace"] = "usher.dev/v1alpha1", "AuthorizationPolicy", "shop"
	case "object":
		apiVersion, kind, metadata["namespace"] = "usher.dev/v1alpha1", "ObjectPolicy", "shop"
	case "cluster":
		apiVersion, kind = "usher.dev/v1alpha1", "ClusterObjectPolicy"
	case "mutation":
		apiVersion, kind = "admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"
	case "cel":
		apiVersion, kind = "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"
	default:
		t.Fatalf("%s: no kind of policy is called so", name)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(spec, &tree); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if folder == "mutation" {
		tree["reinvocationPolicy"] = "Never"
	}
	if (folder == "cel" || folder == "mutation") && tree["matchConstraints"] == nil {
		pods := map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"pods"}}
		tree["matchConstraints"] = map[string]any{"resourceRules": []any{pods}}
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": tree})
	if err != nil {
		t.Fatal(err)
	}
	return api.Decode(raw)
}

// gadgetKinds returns the recorded kinds, with that of a CustomResourceDefinition.
func gadgetKinds(t *testing.T) *kind.Set {
	t.Helper()
	return gadgetKindsWith(t)
}

// gadgetKindsWith is gadgetKinds with other texts in the definition, in pairs.
func gadgetKindsWith(t *testing.T, replaced ...string) *kind.Set {
	t.Helper()
	raw, err := os.ReadFile("testdata/gadgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	raw = []byte(strings.NewReplacer(replaced...).Replace(string(raw)))
	var definition map[string]any
	if err := yaml.Unmarshal(raw, &definition); err != nil {
		t.Fatal(err)
	}
	defined, err := kind.Defined([]map[string]any{definition})
	if err != nil {
		t.Fatal(err)
	}
	return kind.Recorded().With(defined)
}

// tried returns a trial without a cluster.
func tried(t *testing.T) *trial.Trial {
	t.Helper()
	set := gadgetKinds(t)
	return trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return set }})
}

func mustPolicy(t *testing.T, name, spec string) api.Policy {
	t.Helper()
	p, err := policy(t, name, []byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWhatWorksIsNotWarnedOf: rules that do without what may be missing.
func TestWhatWorksIsNotWarnedOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ reason, folder, spec string }{
		{"a label is tested for", "validate", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {
      reason: "no team"
      valid: *false | bool
      if object.metadata.labels.team != _|_ {valid: true}
    }`},
		{"fields that users are told of exist, or may", "object", `
matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments, deployments/scale]}]}
validations:
- {expression: "object.metadata.name != 'never-a'", message: "no", fieldPath: spec.replicas}
- {expression: "object.metadata.name != 'never-b'", message: "no", fieldPath: metadata.labels.team}
- {expression: "object.metadata.name != 'never-c'", message: "no", fieldPath: "spec.template.spec.containers[0].image"}`},
		{"a template makes the map", "override", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
overrideRules:
- overriders: {template: {type: annotations, operation: add, path: owner, value: {string: a}}}`},
		{"a kind of somebody else", "override", `
resourceSelectors: [{apiVersion: example.org/v1, kind: Widget}]
overrideRules:
- overriders: {plaintext: [{op: replace, path: /spec/size, value: 1}]}`},
		{"what defaults fill in", "validate", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {valid: object.spec.restartPolicy != "Never" && len([for c in object.spec.containers if c.imagePullPolicy == "Never" {c}]) == 0, reason: "no"}`},
		{"a policy of a namespace reads its own Namespace", "object", `
matchConstraints:
  namespaceSelector: {matchLabels: {env: prod}}
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
validations: [{expression: "!object.spec.?hostNetwork.orValue(false)"}]`},
		{"deletions of objects with a label", "object", `
matchConstraints:
  objectSelector: {matchLabels: {env: prod}, matchExpressions: [{key: spare, operator: DoesNotExist}]}
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]
excludeSubjects: [{groups: [sre]}]
validations: [{expression: "false"}]`},
		{"what fails may depend on the namespace", "object", `
matchConstraints:
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
validations: [{expression: "namespaceObject.metadata.labels[object.metadata.name + 'x'] == 'x'"}]`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			c := compile.Policy(mustPolicy(t, test.folder, test.spec))
			for _, p := range append(c.Problems, tried(t).Try(t.Context(), c).Problems...) {
				t.Error(p)
			}
		})
	}
}

// TestParamsOfBindings: a policy with params in place is tried with them, in a namespace that it selects, and
// without, if one of its bindings has none.
func TestParamsOfBindings(t *testing.T) {
	t.Parallel()
	const policy = `
matchConstraints:
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
validations: [{expression: %q}]
bindings:
- {name: warn, params: {teams: [a]}, validationActions: [Warn]}
- {name: shop, validationActions: [Deny], matchResources: {namespaceSelector: {matchLabels: {env: test}}}%s}`
	for _, test := range []struct{ reason, expression, params, want string }{
		{"no binding has it", "params.team == object.metadata.name", ", params: {teams: [b]}", "spec.validations[0].expression: no binding has the param team, so that reading it fails (line 1, column 1); did you mean params.teams?"},
		{"one has none", "object.metadata.name in params.teams", "", "spec.bindings[1].params: there are none: for the requests of this binding every Pod would be refused, because the rule fails"},
		{"one needs none", "params == null || object.metadata.name in params.teams", "", ""},
		{"all have them", "object.metadata.name in params.teams", ", params: {teams: [b]}", ""},
	} {
		for _, folder := range []string{"cluster", "object"} {
			c := compile.Policy(mustPolicy(t, folder, fmt.Sprintf(policy, test.expression, test.params)))
			var said []string
			for _, p := range append(c.Problems, tried(t).Try(t.Context(), c).Problems...) {
				said = append(said, p.String())
			}
			if len(said) > 1 || test.want == "" != (len(said) == 0) || !strings.Contains(strings.Join(said, ""), test.want) {
				t.Errorf("%s, %s: got %q, expected %q", folder, test.reason, said, test.want)
			}
		}
	}
}

// TestFailingValidationIsNamed: a problem is at the validation that fails, also after one that refuses the object.
func TestFailingValidationIsNamed(t *testing.T) {
	t.Parallel()
	c := compile.Policy(mustPolicy(t, "cluster", `
matchConstraints:
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
validations:
- expression: "has(object.metadata.labels)"
- expression: "int(object.metadata.name) > 3"`))
	problems := tried(t).Try(t.Context(), c).Problems
	if len(problems) == 0 {
		t.Fatal("no problem")
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Field, "spec.validations[1]") {
			t.Errorf("at %s: %s", p.Field, p.What)
		}
	}
}

// TestConsequence: what is said of a rule that fails is what follows from the policy.
func TestConsequence(t *testing.T) {
	t.Parallel()
	for actions, want := range map[string]string{
		"":              "every ConfigMap without the label team would be refused, because the rule fails",
		"[Deny]":        "every ConfigMap without the label team would be refused, because the rule fails",
		"[Audit, Deny]": "every ConfigMap without the label team would be refused, because the rule fails",
		"[Warn]":        "every ConfigMap without the label team would be warned of, because the rule fails",
		"[Audit]":       "every ConfigMap without the label team would be noted in the audit log, because the rule fails",
	} {
		spec := `
matchConstraints:
  resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
validations: [{expression: "object.metadata.labels.team != 'x'"}]`
		if actions != "" {
			spec += "\nbindings: [{name: all, validationActions: " + actions + "}]"
		}
		c := compile.Policy(mustPolicy(t, "cluster", spec))
		if problems := tried(t).Try(t.Context(), c).Problems; len(problems) != 1 || !strings.HasPrefix(problems[0].What, want) {
			t.Errorf("%s: got %v, expected %s", actions, problems, want)
		}
	}
}

// TestTrialsEnd: after its timeout, a trial returns the results so far, and nothing false.
func TestTrialsEnd(t *testing.T) {
	t.Parallel()
	c := compile.Policy(mustPolicy(t, "validate", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {valid: object.metadata.labels.team != "", reason: "no"}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if problems := tried(t).Problems(ctx, c); len(problems) != 0 {
		t.Errorf("problems %v of a trial without time", problems)
	}
}

// late is a context whose time is over, and which has not noticed.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// TestTrialsAfterPause: what fails when the time of the trial is over is not told as a failure of the policy.
func TestTrialsAfterPause(t *testing.T) {
	t.Parallel()
	c := compile.Policy(mustPolicy(t, "validate", `
resourceSelectors: [{apiVersion: v1, kind: Pod}]
validateRules:
- cue: |
    object: _ @tag(object)
    validate: {valid: object.metadata.labels.team != "", reason: "no"}`))
	for ctx, want := range map[context.Context]bool{late{t.Context()}: false, t.Context(): true} {
		told := slices.ContainsFunc(tried(t).Try(ctx, c).Problems, func(p rule.Problem) bool { return strings.Contains(p.What, "the rule fails") })
		if told != want {
			t.Errorf("told that the rule fails: %t, want %t", told, want)
		}
	}
}

// long is a condition that takes long, and waits for its turn.
type long struct{}

func (long) Holds(ctx context.Context, q *authz.Query) (bool, error) {
	if err := q.Allowance.Take(100*time.Millisecond, 0); err != nil {
		return false, err
	}
	return true, q.Allowance.Wait(ctx)
}

// TestTrialsTakeTurns: what takes long in a policy of a namespace waits for its turn, and that there was none
// is not told as a failure of the policy.
func TestTrialsTakeTurns(t *testing.T) {
	t.Parallel()
	watch := overrun.New(overrun.Options{})
	for range max(runtime.GOMAXPROCS(0)/2, 1) {
		if err := watch.Turn("other").Wait(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	compiled := compile.Policy(mustPolicy(t, "tenant", "{effect: Allow, subjects: [{users: [x]}], rules: [{verbs: [get], apiGroups: [''], resources: [pods]}], when: [{cel: 'true'}]}"))
	compiled.Access[0].Policy.When[0].Predicate = long{}
	for wait, cut := range map[*overrun.Watch]bool{watch: true, overrun.New(overrun.Options{}): false} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if cut {
			ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
		}
		result := trial.New(trial.Options{Overruns: wait}).Try(ctx, compiled)
		cancel()
		if result.Cut != cut || len(result.Problems) > 0 {
			t.Errorf("cut %t, want %t, with the problems %v", result.Cut, cut, result.Problems)
		}
	}
}
