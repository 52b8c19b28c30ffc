package gatekeeper_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/gatekeeper"
	"github.com/usher-dev/usher/internal/policytest"
)

// mutator is one for Pods.
func mutator(kind, spec string) string {
	return "apiVersion: mutations.gatekeeper.sh/v1\nkind: " + kind + "\nmetadata: {name: m}\nspec:\n  applyTo: [{groups: [''], kinds: [Pod], versions: [v1]}]\n" + spec
}

// TestMutators has what mutators do to objects, as Gatekeeper's function that mutates does it.
func TestMutators(t *testing.T) {
	t.Parallel()
	assign := func(location, parameters string) string {
		return mutator("Assign", "  location: "+location+"\n  parameters: "+parameters+"\n")
	}
	label := func(value string) string {
		return "apiVersion: mutations.gatekeeper.sh/v1\nkind: AssignMetadata\nmetadata: {name: m}\nspec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}, location: 'metadata.labels.\"a/b\"', parameters: {assign: " + value + "}}"
	}
	set := func(location, parameters string) string {
		return mutator("ModifySet", "  location: "+location+"\n  parameters: "+parameters+"\n")
	}
	image := func(parts string) string {
		return mutator("AssignImage", "  location: 'spec.containers[name: *].image'\n  parameters: {"+parts+"}\n")
	}
	const images = "spec: {containers: [{name: a, image: 'nginx'}, {name: b, image: 'gcr.io/lib/nginx:1@x'}, {name: c, image: 'localhost/nginx@sha256:ab'}, {name: d, image: 'a@b:c/d'}, {name: e}]}"
	const privileged = "'spec.containers[name: *].securityContext.privileged'"
	for _, row := range []struct{ reason, mutator, before, after string }{
		{"a field", assign("spec.hostNetwork", "{assign: {value: false}}"), "spec: {hostNetwork: true}", "spec: {hostNetwork: false}"},
		{"a field that is absent", assign("spec.hostNetwork", "{assign: {value: false}}"), "spec: {}", "spec: {hostNetwork: false}"},
		{"fields that are absent", assign("spec.a.b.c", "{assign: {value: [x, 1]}}"), "spec: {}", "spec: {a: {b: {c: [x, 1]}}}"},
		{"a map is replaced", assign("spec.a", "{assign: {value: {b: 1, c: x}}}"), "spec: {a: {d: 1}}", "spec: {a: {b: 1, c: x}}"},
		{"each element", assign(privileged, "{assign: {value: false}}"), "spec: {containers: [{name: a}, {name: b, securityContext: {privileged: true, x: 1}}]}", "spec: {containers: [{name: a, securityContext: {privileged: false}}, {name: b, securityContext: {privileged: false, x: 1}}]}"},
		{"no elements", assign(privileged, "{assign: {value: false}}"), "spec: {}", ""},
		{"one element", assign("'spec.containers[name: b].image'", "{assign: {value: x}}"), "spec: {containers: [{name: a}, {name: b}]}", "spec: {containers: [{name: a}, {name: b, image: x}]}"},
		{"an element that is absent", assign("'spec.containers[name: b].image'", "{assign: {value: x}}"), "spec: {containers: [{name: a}]}", "spec: {containers: [{name: a}, {name: b, image: x}]}"},
		{"a list that is absent", assign("'spec.containers[name: b].a.image'", "{assign: {value: x}}"), "spec: {}", "spec: {containers: [{name: b, a: {image: x}}]}"},
		{"a key that is a number", assign("'spec.ports[port: 80].name'", "{assign: {value: x}}"), "spec: {ports: [{port: 80}]}", "spec: {ports: [{port: 80, name: x}]}"},
		{"lists in lists", assign("'spec.containers[name: *].env[name: A].value'", "{assign: {value: x}}"), "spec: {containers: [{name: a, env: [{name: A, value: z}]}, {name: b, env: []}, {name: c}]}", "spec: {containers: [{name: a, env: [{name: A, value: x}]}, {name: b, env: [{name: A, value: x}]}, {name: c, env: [{name: A, value: x}]}]}"},
		{"only where it is absent", assign("spec.a.b", "{assign: {value: x}, pathTests: [{subPath: spec.a.b, condition: MustNotExist}]}"), "spec: {a: {b: z}}", ""},
		{"it is absent", assign("spec.a.b", "{assign: {value: x}, pathTests: [{subPath: spec.a.b, condition: MustNotExist}]}"), "spec: {}", "spec: {a: {b: x}}"},
		{"only where it is there", assign("spec.a.b", "{assign: {value: x}, pathTests: [{subPath: spec.a, condition: MustExist}]}"), "spec: {}", ""},
		{"it is there", assign("spec.a.b", "{assign: {value: x}, pathTests: [{subPath: spec.a, condition: MustExist}]}"), "spec: {a: {}}", "spec: {a: {b: x}}"},
		{"a test of elements", assign("'spec.containers[name: *].securityContext.privileged'", "{assign: {value: false}, pathTests: [{subPath: 'spec.containers[name: *].securityContext', condition: MustExist}]}"), "spec: {containers: [{name: a}, {name: b, securityContext: {}}]}", "spec: {containers: [{name: a}, {name: b, securityContext: {privileged: false}}]}"},
		{"a name of the object", assign("spec.a", "{assign: {fromMetadata: {field: name}}}"), "spec: {}", "spec: {a: x}"},
		{"a namespace of the object", assign("spec.a", "{assign: {fromMetadata: {field: namespace}}}"), "spec: {}", "spec: {a: shop}"},
		{"a label", label("{value: c}"), "metadata: {name: x, namespace: shop, labels: {d: e}}", "metadata: {name: x, namespace: shop, labels: {a/b: c, d: e}}"},
		{"labels", label("{value: it's}"), "spec: {}", "metadata: {name: x, namespace: shop, labels: {a/b: it's}}\nspec: {}"},
		{"a label that is there", label("{value: c}"), "metadata: {name: x, namespace: shop, labels: {a/b: e}}", ""},
		{"values of a set", set("spec.a", "{operation: merge, values: {fromList: [x, y, y]}}"), "spec: {a: [y, z]}", "spec: {a: [y, z, x]}"},
		{"a set that is absent", set("spec.a.b", "{values: {fromList: [x]}}"), "spec: {}", "spec: {a: {b: [x]}}"},
		{"a set in elements", set("'spec.containers[name: *].args'", "{values: {fromList: [x]}}"), "spec: {containers: [{name: a, args: [x]}, {name: b}]}", "spec: {containers: [{name: a, args: [x]}, {name: b, args: [x]}]}"},
		{"values that are removed", set("spec.a", "{operation: prune, values: {fromList: [x, y]}}"), "spec: {a: [y, z, x, y]}", "spec: {a: [z]}"},
		{"values that are not there", set("spec.a", "{operation: prune, values: {fromList: [x]}}"), "spec: {a: [z]}", ""},
		{"no values", set("spec.a", "{operation: prune, values: {fromList: [x]}}"), "spec: {}", ""},
		{"the domain of images", image("assignDomain: 'r.io:5000'"), images, "spec: {containers: [{name: a, image: 'r.io:5000/nginx'}, {name: b, image: 'r.io:5000/lib/nginx:1@x'}, {name: c, image: 'r.io:5000/nginx@sha256:ab'}, {name: d, image: 'r.io:5000/d'}, {name: e, image: 'r.io:5000/'}]}"},
		{"the path of images", image("assignPath: my/app"), images, "spec: {containers: [{name: a, image: 'my/app'}, {name: b, image: 'gcr.io/my/app:1@x'}, {name: c, image: 'localhost/my/app@sha256:ab'}, {name: d, image: 'a@b:c/my/app'}, {name: e, image: my/app}]}"},
		{"the tag of images", image("assignTag: ':2'"), images, "spec: {containers: [{name: a, image: 'nginx:2'}, {name: b, image: 'gcr.io/lib/nginx:2'}, {name: c, image: 'localhost/nginx:2'}, {name: d, image: 'a@b:c/d:2'}, {name: e, image: ':2'}]}"},
		{"the domain and the path of images", image("assignDomain: r.io, assignPath: my/app"), images, "spec: {containers: [{name: a, image: 'r.io/my/app'}, {name: b, image: 'r.io/my/app:1@x'}, {name: c, image: 'r.io/my/app@sha256:ab'}, {name: d, image: 'r.io/my/app'}, {name: e, image: r.io/my/app}]}"},
		{"the domain and the tag of images", image("assignDomain: r.io, assignTag: ':2'"), images, "spec: {containers: [{name: a, image: 'r.io/nginx:2'}, {name: b, image: 'r.io/lib/nginx:2'}, {name: c, image: 'r.io/nginx:2'}, {name: d, image: 'r.io/d:2'}, {name: e, image: 'r.io/:2'}]}"},
		{"the path and the tag of images", image("assignPath: my/app, assignTag: ':2'"), images, "spec: {containers: [{name: a, image: 'my/app:2'}, {name: b, image: 'gcr.io/my/app:2'}, {name: c, image: 'localhost/my/app:2'}, {name: d, image: 'a@b:c/my/app:2'}, {name: e, image: 'my/app:2'}]}"},
		{"all of images", image("assignDomain: r.io, assignPath: my/app, assignTag: ':2'"), images, "spec: {containers: [{name: a, image: 'r.io/my/app:2'}, {name: b, image: 'r.io/my/app:2'}, {name: c, image: 'r.io/my/app:2'}, {name: d, image: 'r.io/my/app:2'}, {name: e, image: 'r.io/my/app:2'}]}"},
		{"only images that are there", image("assignTag: ':2', pathTests: [{subPath: 'spec.containers[name: *].image', condition: MustExist}]"), "spec: {containers: [{name: a, image: 'nginx'}, {name: b}]}", "spec: {containers: [{name: a, image: 'nginx:2'}, {name: b}]}"},
		{"a namespace that a Config excludes", assign("spec.a", "{assign: {value: x}}") + "\n---\napiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\nspec: {match: [{processes: [mutation-webhook], excludedNamespaces: [shop]}]}", "spec: {}", "-"},
		{"a namespace that a Config excludes from validation", assign("spec.a", "{assign: {value: x}}") + "\n---\napiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\nspec: {match: [{processes: [webhook], excludedNamespaces: [shop]}]}", "spec: {}", "spec: {a: x}"},
		{"a namespace that a Config excludes by a pattern", assign("spec.a", "{assign: {value: x}}") + "\n---\napiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\nspec: {match: [{processes: ['*'], excludedNamespaces: [sh*]}]}", "spec: {}", "-"},
		{"another kind", strings.Replace(assign("spec.a", "{assign: {value: x}}"), "kinds: [Pod]", "kinds: [Service]", 1), "spec: {}", "-"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			c := policytest.Case{Name: row.reason, Phase: usher.Mutate}
			c.Expect = &policytest.Expect{}
			for _, i := range gatekeeper.Policies(t.Context(), foreign(parse(t, row.mutator)), options(true)) {
				if len(i.Left) > 0 {
					t.Fatal(i.Left)
				}
				documents, err := convert.Documents(i.To)
				if err != nil {
					t.Fatal(err)
				}
				c.Policies = append(c.Policies, documents...)
			}
			c.Request.Operation, c.Request.Namespace, c.Request.Object = usher.Create, "shop", pod(t, row.before)
			c.Objects = []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop", "labels": map[string]any{"kubernetes.io/metadata.name": "shop"}}}}
			allowed := true
			c.Expect.Allowed = &allowed
			switch row.after {
			case "":
				c.Expect.Unchanged = true
			case "-":
				c.Expect.NoMatch = true
			default:
				c.Expect.PatchedObject = pod(t, row.after)
			}
			if result := c.Run(t.Context()); result.Status != policytest.Passed {
				t.Errorf("%s\n%v", result.Message, c.Policies)
			}
		})
	}
}

// pod returns a pod with some fields.
func pod(t *testing.T, fields string) map[string]any {
	t.Helper()
	o := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "x", "namespace": "shop"}}
	if err := yaml.Unmarshal([]byte(fields), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestMutatorsLeft has mutators that are left out, each with its reason.
func TestMutatorsLeft(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ reason, mutator, field, what string }{
		{"external data", mutator("Assign", "  location: spec.a\n  parameters: {assign: {externalData: {provider: p}}}"), "spec.parameters.assign.externalData", "provider of data"},
		{"no part of an image", mutator("AssignImage", "  location: spec.a\n"), "spec.parameters", "no part of an image"},
		{"a domain that is none", mutator("AssignImage", "  location: spec.a\n  parameters: {assignDomain: foobar}"), "spec.parameters.assignDomain", "is no domain"},
		{"a path that is none", mutator("AssignImage", "  location: spec.a\n  parameters: {assignPath: 'a/'}"), "spec.parameters.assignPath", "is no path"},
		{"a path with a domain", mutator("AssignImage", "  location: spec.a\n  parameters: {assignPath: a.b/c}"), "spec.parameters.assignPath", "begins with a domain"},
		{"a tag that is none", mutator("AssignImage", "  location: spec.a\n  parameters: {assignTag: latest}"), "spec.parameters.assignTag", "is no tag"},
		{"an element that is an image", mutator("AssignImage", "  location: 'spec.a[name: b]'\n  parameters: {assignTag: ':1'}"), "spec.location", "replaces elements"},
		{"an image in the metadata", mutator("AssignImage", "  location: metadata.a\n  parameters: {assignTag: ':1'}"), "spec.location", "metadata"},
		{"an element", mutator("Assign", "  location: 'spec.a[name: b]'\n  parameters: {assign: {value: {name: b}}}"), "spec.location", "replaces elements"},
		{"no path", mutator("Assign", "  location: 'spec.'\n  parameters: {}"), "spec.location", "expected a name"},
		{"no end", mutator("Assign", "  location: 'spec.a[name: \"b]'\n  parameters: {}"), "spec.location", "expected KEY: VALUE"},
		{"another path", mutator("Assign", "  location: spec.a\n  parameters: {assign: {value: 1}, pathTests: [{subPath: spec.b, condition: MustExist}]}"), "spec.parameters.pathTests[0]", "is no part of"},
		{"another condition", mutator("Assign", "  location: spec.a\n  parameters: {assign: {value: 1}, pathTests: [{subPath: spec.a, condition: Maybe}]}"), "spec.parameters.pathTests[0]", "no condition"},
		{"another operation", mutator("ModifySet", "  location: spec.a\n  parameters: {operation: x, values: {fromList: [a]}}"), "spec.parameters.operation", "no operation"},
		{"no label", mutator("AssignMetadata", "  location: metadata.name\n  parameters: {assign: {value: x}}"), "spec.location", "no label and no annotation"},
		{"an unknown field", mutator("Assign", "  surprise: 1\n"), "spec", "unknown field"},
		{"no kind", mutator("Assign", "  match: {kinds: [{apiGroups: [apps], kinds: ['*']}]}\n  location: spec.a\n  parameters: {assign: {value: x}}"), "spec.applyTo", "none of the kinds"},
		{"a deep path", mutator("Assign", "  location: "+strings.Repeat("a.", 300)+"b\n  parameters: {assign: {value: x}}"), "spec.location", "more than 32 steps"},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			all := gatekeeper.Policies(t.Context(), foreign(parse(t, row.mutator)), options(true))
			if len(all) != 1 || len(all[0].Left) == 0 {
				t.Fatalf("it is not left out: %v", all)
			}
			if left := all[0].Left[0]; left.Field != row.field || !strings.Contains(left.What, row.what) {
				t.Errorf("%s: %s", left.Field, left.What)
			}
		})
	}
}
