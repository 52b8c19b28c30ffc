package kcloudlabs_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/kcloudlabs"
	"github.com/usher-dev/usher/internal/rule"
)

func limits(t *testing.T, http, namespacedHTTP, kinds, references []string) rule.Limits {
	t.Helper()
	l, err := rule.ParseLimits(http, namespacedHTTP, kinds, references)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func labelFrom(ref string) string {
	return "{template: {type: labels, operation: add, path: a, valueRef: " + ref + "}}"
}

// What policies may not do is a problem that names the flag that allows it.
func TestLimits(t *testing.T) {
	t.Parallel()
	const (
		pods     = "{apiVersion: v1, kind: Pod}"
		plain    = "{plaintext: [{op: add, path: /metadata/labels, value: {}}]}"
		fetching = `{cue: 'processing: {http: {method: "GET", url: "https://cmdb.example"}, output: {}}, patches: []'}`
	)
	get := labelFrom("{from: http, path: body.a, http: {url: 'https://cmdb.example/a'}}")
	token := labelFrom("{from: http, path: body.a, http: {url: 'https://cmdb.example/a', auth: {authUrl: 'https://login.example'}}}")
	anyHost := labelFrom("{from: http, path: body.a, http: {url: 'https://{{metadata.name}}.example/a'}}")
	elsewhere := labelFrom("{from: k8s, path: /data/a, k8s: {apiVersion: v1, kind: ConfigMap, namespace: bank, name: a}}")
	own := labelFrom("{from: k8s, path: /metadata/labels/a, k8s: {apiVersion: v1, kind: Namespace, name: '{{ metadata.namespace }}'}}")
	for _, test := range []struct {
		reason              string
		namespace           string
		selector, overrider string
		limits              rule.Limits
		field, told         string
	}{
		{"a Pod", "shop", pods, plain, rule.Limits{}, "", ""},
		{"a Secret", "shop", "{apiVersion: v1, kind: Secret}", plain, rule.Limits{}, "spec.resourceSelectors[0].kind", "--namespaced-kinds=Secret"},
		{"a Role", "shop", "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role}", plain, rule.Limits{}, "spec.resourceSelectors[0].kind", "--namespaced-kinds=Role.rbac.authorization.k8s.io"},
		{"a Secret, which is allowed", "shop", "{apiVersion: v1, kind: Secret}", plain, limits(t, nil, nil, []string{"Secret"}, nil), "", ""},
		{"a Secret, of a cluster policy", "", "{apiVersion: v1, kind: Secret}", plain, rule.Limits{}, "", ""},
		{"another namespace", "shop", pods, elsewhere, rule.Limits{}, "spec.overrideRules[0].overriders.template.valueRef.k8s.namespace", "--namespaced-references=ConfigMap"},
		{"another namespace, which is allowed", "shop", pods, elsewhere, limits(t, nil, nil, nil, []string{"ConfigMap"}), "", ""},
		{"another namespace, of a cluster policy", "", pods, elsewhere, rule.Limits{}, "", ""},
		{"its own Namespace", "shop", pods, own, rule.Limits{}, "", ""},
		{"HTTP", "shop", pods, get, rule.Limits{}, "spec.overrideRules[0].overriders.template.valueRef.http.url", "HTTP facts are off for policies of a namespace"},
		{"HTTP in CUE", "shop", pods, fetching, rule.Limits{}, "spec.overrideRules[0].overriders.cue", "--namespaced-http-facts"},
		{"a host that is allowed", "shop", pods, get, limits(t, nil, []string{"cmdb.example"}, nil, nil), "", ""},
		{"a host that is not", "shop", pods, get, limits(t, nil, []string{"other.example"}, nil, nil), "spec.overrideRules[0].overriders.template.valueRef.http.url", "do not come from cmdb.example: allowed are other.example"},
		{"where a token comes from", "shop", pods, token, limits(t, nil, []string{"cmdb.example"}, nil, nil), "spec.overrideRules[0].overriders.template.valueRef.http.auth.authUrl", "do not come from login.example"},
		{"a host that only the request tells is checked then", "shop", pods, anyHost, limits(t, nil, []string{"cmdb.example"}, nil, nil), "", ""},
		{"what cluster policies may is nothing to those of a namespace", "shop", pods, get, limits(t, []string{"cmdb.example"}, nil, nil, nil), "spec.overrideRules[0].overriders.template.valueRef.http.url", "off for policies of a namespace"},
		{"HTTP of a cluster policy", "", pods, get, rule.Limits{}, "", ""},
		{"HTTP of a cluster policy, off", "", pods, get, limits(t, []string{"off"}, nil, nil, nil), "spec.overrideRules[0].overriders.template.valueRef.http.url", "have the operator of Usher allow the host: --http-facts"},
		{"HTTP of a cluster policy, elsewhere", "", pods, fetching, limits(t, []string{"other.example"}, nil, nil, nil), "", ""},
	} {
		var spec v1alpha1.OverridePolicySpec
		if err := yaml.UnmarshalStrict([]byte("{resourceSelectors: ["+test.selector+"], overrideRules: [{overriders: "+test.overrider+"}]}"), &spec); err != nil {
			t.Fatal(err)
		}
		compiler := kcloudlabs.Compiler{Limits: test.limits}
		var rules []rule.Rule
		var problems []rule.Problem
		if test.namespace == "" {
			p := &v1alpha1.ClusterOverridePolicy{Spec: spec}
			rules, problems = compiler.ClusterOverridePolicy(t.Context(), p)
		} else {
			p := &v1alpha1.OverridePolicy{Spec: spec}
			p.Namespace = test.namespace
			rules, problems = compiler.OverridePolicy(t.Context(), p)
		}
		errs := rule.Errors(problems)
		if (len(errs) == 0) != (test.told == "") || len(errs) > 0 && (errs[0].Field != test.field || !strings.Contains(errs[0].What+" ("+errs[0].Do+")", test.told)) {
			t.Errorf("%s: problems %v, want one of %s with %q", test.reason, errs, test.field, test.told)
		}
		if bounded := rules[0].Facts != nil; bounded != (test.namespace != "" || test.limits.HTTP != nil) {
			t.Errorf("%s: facts are bounded: %t", test.reason, bounded)
		}
	}
}

// What a template says counts, and what a program computes: the engine keeps to the bounds.
func TestBoundsOfRules(t *testing.T) {
	t.Parallel()
	p := &v1alpha1.OverridePolicy{}
	p.Namespace = "shop"
	text := "overrideRules: [{overriders: " + labelFrom("{from: k8s, path: /data/a, k8s: {apiVersion: v1, kind: ConfigMap, namespace: '{{metadata.labels.ns}}', name: a}}") + "}]"
	if err := yaml.UnmarshalStrict([]byte(text), &p.Spec); err != nil {
		t.Fatal(err)
	}
	rules, problems := kcloudlabs.Compiler{}.OverridePolicy(t.Context(), p)
	if len(rule.Errors(problems)) > 0 || len(rules) != 1 {
		t.Fatalf("%d rules, %v", len(rules), problems)
	}
	want := []fact.Read{{APIVersion: "v1", Kind: "ConfigMap", Name: "a"}}
	if b := rules[0].Facts; b.Namespace != "shop" || !slices.Equal(b.Reads, want) || len(b.Hosts) > 0 {
		t.Errorf("bounds are %+v", b)
	}
	if err := rules[0].Facts.Check(&fact.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "bank", Name: "a"}); err == nil {
		t.Error("a namespace that the object names is read")
	}
}
