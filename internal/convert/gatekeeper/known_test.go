package gatekeeper_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/gatekeeper"
	"github.com/usher-dev/usher/internal/policytest"
)

// TestHashOf: comments, empty lines and white space do not count; all else does.
func TestHashOf(t *testing.T) {
	t.Parallel()
	const rego = "package x\n\nviolation[{\"msg\": msg}] {\n  input.a == \"# b  \\\" c\"\n  msg := `d\n\n  # e`\n}\n"
	of := func(text ...string) string { return gatekeeper.HashOf(text) }
	for reason, same := range map[string]string{
		"comments":           "# about\npackage x # \"it\n" + strings.Replace(rego, "package x\n", "", 1) + "# `end",
		"white space":        strings.ReplaceAll(strings.ReplaceAll(rego, "  input.a ==", "\t\tinput.a \t=="), "{\n", "{ \r\n\n \n"),
		"no line at the end": strings.TrimSpace(rego),
	} {
		if of(same) != of(rego) {
			t.Errorf("%s: the hash is another one", reason)
		}
	}
	for reason, other := range map[string]string{
		"a text":         strings.Replace(rego, "b  ", "b ", 1),
		"a long text":    strings.Replace(rego, "d\n\n", "d\n", 1),
		"a line":         strings.Replace(rego, "\n  msg", " msg", 1),
		"a comment less": strings.Replace(rego, "`d\n\n  # e`", "`d\n\n  `", 1),
		"words":          strings.Replace(rego, "package x", "packagex", 1),
	} {
		if of(other) == of(rego) {
			t.Errorf("%s: the hash is the same", reason)
		}
	}
	if of(rego, rego) == of(rego) || of("a", "b") == of("ab") || of("a\nb") == of("a", "b") {
		t.Error("modules are not told apart")
	}
	for _, open := range []string{"a \"b", "a \"b\n\"", "a `b", "\"\\"} {
		if hash := of(open); hash != "" {
			t.Errorf("%q does not end, and has the hash %s", open, hash)
		}
	}
}

// TestKnown: templates in Rego that are known by their hash become policies of the library. What these cannot say is
// left out.
func TestKnown(t *testing.T) {
	t.Parallel()
	const (
		service = "{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: "
		binding = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: b}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}, subjects: [{kind: Group, apiGroup: rbac.authorization.k8s.io, name: "
		config  = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop, annotations: "
		core    = "{apiGroups: [''], kinds: [Service]}"
		roles   = "{apiGroups: [rbac.authorization.k8s.io], kinds: [ClusterRoleBinding, RoleBinding]}"
		maps    = "{apiGroups: [''], kinds: [ConfigMap]}"

		nodePort  = "c5819a87201f658b6341fb59b956c95fc8c6855c8cceacea2a58fcc13f105f34"
		balancer  = "0e140790de48199246aa4da4082564ce7f6de3da2baf8ba4101ba7ad771c0a44"
		external  = "f5daf58ae8eb87a14a9127f160cdd1d045660f1dde89517fb4af0536e0780b9a"
		anonymous = "5f00b16ebb4a860c909b8987aa0050bdb0a850277c726a6a71ee9144690302d5"
		older     = "800e0369c0ca808353ba1d426945f076e20cea77db111f31bf00d139d457fdd5"
		annotated = "413e9e98e53d00eff1ac7d2ba885a286685c76061fdcb2751549778d917c6bc5"
	)
	for _, row := range []struct {
		reason, hash, kinds, parameters string
		denied, allowed                 []string
		left                            string
	}{
		{"node ports", nodePort, core, "", []string{service + "{type: NodePort}}"}, []string{service + "{type: LoadBalancer}}", service + "{}}", service + "{type: ExternalName}}"}, ""},
		{"load balancers", balancer, core, "", []string{service + "{type: LoadBalancer}}"}, []string{service + "{type: NodePort}}", service + "{}}"}, ""},
		{"other kinds, too", nodePort, "{apiGroups: ['*'], kinds: [Service]}", "", nil, nil, "other kinds than Service"},
		{"all kinds of a group", nodePort, "{apiGroups: [''], kinds: ['*']}", "", nil, nil, "other kinds than Service"},
		{"external addresses", external, core, "{allowedIPs: [192.0.2.1]}", []string{service + "{externalIPs: [192.0.2.1, 192.0.2.2]}}"}, []string{service + "{externalIPs: [192.0.2.1]}}", service + "{}}"}, ""},
		{"no external addresses", external, core, "{}", []string{service + "{externalIPs: [192.0.2.1]}}"}, []string{service + "{}}"}, ""},
		{"addresses with several texts", external, core, "{allowedIPs: ['::1']}", nil, nil, "no address of IPv4"},
		{"anonymous users", anonymous, roles, "{disallowAuthenticated: false}", []string{binding + "'system:anonymous'}]}", binding + "'system:unauthenticated'}]}"}, []string{binding + "'system:authenticated'}]}"}, ""},
		{"all users", anonymous, roles, "{disallowAuthenticated: true, allowedRoles: []}", []string{binding + "'system:anonymous'}]}", binding + "'system:authenticated'}]}"}, []string{binding + "a}]}"}, ""},
		{"all users, by an older version", older, roles, "{disallowAuthenticated: true}", []string{binding + "'system:anonymous'}]}"}, []string{binding + "'system:authenticated'}]}"}, ""},
		{"roles that may be bound", anonymous, roles, "{allowedRoles: [view]}", nil, nil, "no such param"},
		{"annotations", annotated, maps, "{annotations: [{key: a/b, allowedRegex: '^x+$'}]}", []string{config + "{}}}", config + "{a/b: y}}}", config + "{a/b: ''}}}"}, []string{config + "{a/b: xx, c: d}}}"}, ""},
		{"annotations that may be empty", annotated, maps, "{annotations: [{key: a/b, allowedRegex: '^x*$'}]}", nil, nil, "fits an empty text"},
		{"annotations without a pattern", annotated, maps, "{annotations: [{key: a/b}]}", nil, nil, "fits an empty text"},
		{"a pattern that is none", annotated, maps, "{annotations: [{key: a/b, allowedRegex: '['}]}", nil, nil, "error parsing regexp"},
		{"no annotations", annotated, maps, "{}", nil, nil, "annotations has none"},
		{"Rego that is not known", strings.Repeat("0", 64), core, "", nil, nil, "in Rego alone"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			objects := parse(t, "{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {name: known}, spec: {crd: {spec: {names: {kind: Known}}}, targets: [{target: t, rego: package x}]}}\n---\n"+
				"{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Known, metadata: {name: c}, spec: {match: {kinds: ["+row.kinds+"]}, parameters: "+row.parameters+"}}")
			i := gatekeeper.PoliciesOfHash(t.Context(), foreign(objects), options(true), row.hash)[0]
			if row.left != "" {
				if len(i.To) > 0 || len(i.Left) != 1 || !strings.Contains(i.Left[0].What, row.left) {
					t.Errorf("left out for %v, want %q", i.Left, row.left)
				}
				return
			}
			documents, err := convert.Documents(i.To)
			if err != nil || len(documents) != 1 {
				t.Fatal(i.Left, err)
			}
			for _, text := range slices.Concat(row.denied, row.allowed) {
				c := policytest.Case{Name: text, Phase: usher.Validate, Policies: documents}
				if err := yaml.Unmarshal([]byte(text), &c.Request.Object); err != nil {
					t.Fatal(err)
				}
				allowed := slices.Contains(row.allowed, text)
				c.Expect = &policytest.Expect{Allowed: &allowed}
				c.Request.Operation = usher.Create
				if result := c.Run(t.Context()); result.Status != policytest.Passed {
					t.Errorf("%s: %s", text, result.Message)
				}
			}
		})
	}
}
