package trial_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial"
)

// TestResourcesOfACluster: a policy for resources that a cluster does not have is not in force, and what
// is missing is looked for again, since it may have been created just before the policy.
func TestResourcesOfACluster(t *testing.T) {
	t.Parallel()
	known := gadgetKinds(t)
	known.Complete = true
	for _, test := range []struct {
		reason     string
		resources  []string
		noSuchKind string
		warning    string
	}{
		{"the resource exists", []string{podsOnly}, "", ""},
		{"a kind in place of the resource", []string{"v1 Pod"}, "the cluster has no resource Pod in v1: nothing is matched by it; did you mean pods?", "did you mean pods?"},
		{"one of two exists", []string{podsOnly, "apps/v1 deployment"}, "", "the cluster has no resource deployment in apps/v1: nothing is matched by it"},
		{"none of two", []string{"v1 pod", "apps/v1 deployment"}, "the cluster has no resource pod in v1: nothing is matched by it; did you mean pods?", "did you mean deployments?"},
		{"of a definition to come", []string{"example.org/v1 widgets"}, "the cluster has no resource widgets in example.org/v1: nothing is matched by it; correct it, or create its CustomResourceDefinition", "widgets"},
		{"of a definition that exists", []string{gadgets}, "", ""},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			looked := 0
			try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set {
				looked++
				return known
			}})
			result := try.Try(t.Context(), admissionPolicy(t, test.resources, validations("object == null || !has(object.metadata.labels) || !('a' in object.metadata.labels)")))
			if result.NoSuchKind != test.noSuchKind {
				t.Errorf("NoSuchKind %q, want %q", result.NoSuchKind, test.noSuchKind)
			}
			var said []string
			for _, p := range result.Problems {
				if mistake := strings.Contains(p.Do, "did you mean"); mistake != (p.Severity == rule.Mistake) {
					t.Errorf("%s: want a mistake if it is known what is meant", p)
				}
				said = append(said, p.String())
			}
			if text := strings.Join(said, "\n"); !strings.Contains(text, test.warning) || test.warning == "" && text != "" {
				t.Errorf("problems %q, want %q", text, test.warning)
			}
			if missing := test.warning != ""; result.Unsettled != missing || (looked > 1) != (missing || test.resources[0] == gadgets) {
				t.Errorf("looked %d times, and a later try may differ: %t", looked, result.Unsettled)
			}
		})
	}
}

// TestResourcesThatNobodyKnows: whether all of a version that was never stable exist is not known, and a policy of the
// cluster for them is not taken for one of a namespace.
func TestResourcesThatNobodyKnows(t *testing.T) {
	t.Parallel()
	known := gadgetKinds(t)
	known.Complete = true
	try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return known }})
	result := try.Try(t.Context(), admissionPolicy(t, []string{"apps/v1beta1 *"}, validations("object == null || object.metadata.name != ''")))
	if result.NoSuchKind != "" || len(result.Problems) > 0 {
		t.Errorf("NoSuchKind %q, problems %v", result.NoSuchKind, result.Problems)
	}
}

// TestResourcesOfNoNamespace: a policy of a namespace that is for nothing in namespaces, or for nothing that it may
// act on, is not in force.
func TestResourcesOfNoNamespace(t *testing.T) {
	t.Parallel()
	known := gadgetKinds(t)
	known.Complete = true
	const (
		inNone = "namespaces are in no namespace, so that no request for them is one of this namespace"
		remove = "; remove the resource, or ask who administers the cluster for what is for all namespaces"
	)
	for _, test := range []struct{ reason, groups, resources, nothing, said string }{
		{"namespaces", `""`, "namespaces", inNone + remove, "mistake: ObjectPolicy shop/p: spec.matchConstraints.resourceRules[0].resources: " + inNone},
		{"and something else", `""`, "namespaces, pods", "", "warning: ObjectPolicy shop/p: spec.matchConstraints.resourceRules[0].resources: " + inNone},
		{"everything", `"*"`, `"*"`, "", ""},
		{"Secrets", `""`, "secrets", "a policy of a namespace does not act on secrets", ""},
		{"and something else", `""`, "secrets, pods", "", ""},
	} {
		text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: ObjectPolicy, metadata: {name: p, namespace: shop}, spec: {matchConstraints: {resourceRules: [
			{apiGroups: [%s], apiVersions: [v1], operations: [CREATE], resources: [%s]}]}, validations: [{expression: "object.metadata.name != ''"}]}}`, test.groups, test.resources)
		try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return known }})
		result := try.Try(t.Context(), compiled(t, text))
		if result.MatchesNothing != test.nothing || result.NoSuchKind != "" {
			t.Errorf("%s: MatchesNothing %q, want %q, and NoSuchKind %q", test.reason, result.MatchesNothing, test.nothing, result.NoSuchKind)
		}
		var said []string
		for _, p := range result.Problems {
			said = append(said, p.String())
		}
		if text := strings.Join(said, "\n"); !strings.Contains(text, test.said) || test.said == "" && text != "" {
			t.Errorf("%s: problems %q, want %q", test.reason, text, test.said)
		}
	}
}

// TestSelectorsOfOtherNamespaces: a policy of a namespace that selects others only, by itself or with its bindings, is
// not in force.
func TestSelectorsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	known := gadgetKinds(t)
	known.Complete = true
	const nothing = "no namespaceSelector of it selects the namespace shop, in which it is, and a policy of a namespace is for no other"
	const (
		bank = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: bank}},"
		shop = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}},"
	)
	for _, test := range []struct{ reason, kind, metadata, selector, bindings, want string }{
		{"another", "ObjectPolicy", ", namespace: shop", bank, "", nothing},
		{"its own", "ObjectPolicy", ", namespace: shop", shop, "", ""},
		{"a label that it may have", "ObjectPolicy", ", namespace: shop", "namespaceSelector: {matchLabels: {env: prod}},", "", ""},
		{"its only binding", "ObjectPolicy", ", namespace: shop", "", "bindings: [{validationActions: [Deny], matchResources: {" + bank + "}}],", nothing},
		{"one of its bindings", "ObjectPolicy", ", namespace: shop", "", "bindings: [{validationActions: [Deny], matchResources: {" + bank + "}}, {validationActions: [Warn]}],", ""},
		{"a policy of the cluster", "ClusterObjectPolicy", "", bank, "", ""},
	} {
		text := fmt.Sprintf(`{apiVersion: usher.dev/v1alpha1, kind: %s, metadata: {name: p%s}, spec: {%s matchConstraints: {%s resourceRules: [
			{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "object.metadata.name != ''"}]}}`,
			test.kind, test.metadata, test.bindings, test.selector)
		try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return known }})
		if result := try.Try(t.Context(), compiled(t, text)); result.MatchesNothing != test.want {
			t.Errorf("%s: MatchesNothing %q, want %q", test.reason, result.MatchesNothing, test.want)
		}
	}
}

// TestDefinitionsChange: a policy about a custom kind is tried again when the definition of that has changed, also if
// nothing was wrong with it before.
func TestDefinitionsChange(t *testing.T) {
	t.Parallel()
	known := gadgetKinds(t)
	try := trial.New(trial.Options{Kinds: func(context.Context, *kind.Set, []schema.GroupVersionKind) *kind.Set { return known }})
	about := admissionPolicy(t, []string{gadgets}, validations("object == null || !has(object.spec) || !has(object.spec.size) || object.spec.size > 0"))
	result := try.Try(t.Context(), about)
	if len(result.Problems) > 0 || result.Unsettled || try.Outdated(t.Context(), &result) {
		t.Errorf("before: %v, a later try may differ: %t", result.Problems, result.Unsettled)
	}
	if known = gadgetKinds(t); try.Outdated(t.Context(), &result) {
		t.Error("the same definition, read again, has changed")
	}
	if known = gadgetKindsWith(t, "size: {type: integer}", "size: {type: number}"); !try.Outdated(t.Context(), &result) {
		t.Error("the definition has not changed")
	}
	if other := try.Try(t.Context(), about); !other.Same(result) {
		t.Errorf("with a number: %v, want the findings from before", other.Problems)
	}
	if known = gadgetKindsWith(t, "size: {type: integer}", "size: {type: string}"); !try.Outdated(t.Context(), &result) {
		t.Error("the definition has not changed")
	}
	before := result
	if result = try.Try(t.Context(), about); len(result.Problems) == 0 || result.Same(before) || try.Outdated(t.Context(), &result) {
		t.Errorf("after: %v", result.Problems)
	}
	if result = try.Try(t.Context(), admissionPolicy(t, []string{podsOnly}, validations("true"))); try.Outdated(t.Context(), &result) {
		t.Error("the schemas of Kubernetes have changed")
	}
}

// TestSchemasOfDefinitionsMayChange: what a rule says of a field that a custom kind does not have is tried again, and
// the schema is asked for although it is known: it may be that of a definition that has changed.
func TestSchemasOfDefinitionsMayChange(t *testing.T) {
	t.Parallel()
	known, asked := gadgetKinds(t), false
	known.Complete = true
	try := trial.New(trial.Options{Kinds: func(_ context.Context, _ *kind.Set, of []schema.GroupVersionKind) *kind.Set {
		asked = asked || slices.ContainsFunc(of, func(k schema.GroupVersionKind) bool { return k.Kind == "Gadget" })
		return known
	}})
	result := try.Try(t.Context(), admissionPolicy(t, []string{gadgets}, validations("object.spec.owners == 'a'")))
	if len(result.Problems) == 0 || !result.Unsettled || !asked {
		t.Errorf("problems %v, a later try may differ: %t, the schema is asked for: %t", result.Problems, result.Unsettled, asked)
	}
	// Who writes it is told that the schema may be that of before.
	for expression, want := range map[string]bool{"object.spec.owners == 'a'": true, "object.metadata.name != 'a'": false} {
		problems := try.Problems(t.Context(), admissionPolicy(t, []string{gadgets}, validations(expression)))
		told := slices.ContainsFunc(problems, func(p rule.Problem) bool {
			return strings.HasPrefix(p.What, "types in expressions are checked by the schema of Gadget in example.com/v1 that the API server published last")
		})
		if told != want {
			t.Errorf("%s: the age of the schema is told: %t, in %v", expression, told, problems)
		}
	}
}
