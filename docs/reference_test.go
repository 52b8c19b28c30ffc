package docs_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	kubernetes "k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/deploy/crds"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/policytest"
)

// written compares a page with what it should be, and writes it with -update.
func written(t *testing.T, file, page string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != page {
		t.Errorf("docs/%s is not up to date: run make references (%v)", file, err)
	}
}

// TestReferenceOfKinds writes every field of every kind, as the CustomResourceDefinitions have them.
func TestReferenceOfKinds(t *testing.T) {
	t.Parallel()
	var page strings.Builder
	page.WriteString("# Fields of all kinds\n\n<!-- Written by make references. Do not edit. -->\n\n" +
		"`[]` is an element of a list, `{}` a value of a map. What is below a field with a type of Kubernetes, such as `affinity`, is as Kubernetes documents it. The pages of [docs](../README.md#write) explain what is for what.\n")
	fields := 0
	for _, kind := range api.Kinds() {
		text, err := crds.Of(kind.GroupVersionResource().GroupResource())
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatal(err)
		}
		version := crd.Spec.Versions[0]
		schema := version.Schema.OpenAPIV3Schema
		fmt.Fprintf(&page, "\n## %s\n\n`apiVersion: %s/%s`. %s\n\n| field | type | |\n|---|---|---|\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name, oneLine(schema.Description))
		for _, name := range []string{"spec", "status"} {
			property, ok := schema.Properties[name]
			if !ok {
				continue
			}
			fields += fieldRows(&page, name, &property, slices.Contains(schema.Required, name))
		}
	}
	if fields < 500 {
		t.Errorf("%d fields", fields)
	}
	written(t, "reference/kinds.md", page.String())
}

// fieldRows writes a field and those below it, and returns how many these are.
func fieldRows(page *strings.Builder, path string, schema *apiextensionsv1.JSONSchemaProps, required bool) int {
	of, below := schema.Type, ""
	switch {
	case schema.XIntOrString:
		of = "integer or string"
	case schema.Items != nil && schema.Items.Schema != nil:
		below = "[]"
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		below = "{}"
	}
	if of == "" {
		of = "any"
	}
	text := oneLine(schema.Description)
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			values = append(values, "`"+strings.Trim(string(value.Raw), `"`)+"`")
		}
		text = strings.TrimSpace(text + " One of " + strings.Join(values, ", ") + ".")
	}
	if schema.Default != nil {
		text = strings.TrimSpace(text + " The default is `" + strings.Trim(string(schema.Default.Raw), `"`) + "`.")
	}
	if required {
		text = strings.TrimSpace("Required. " + text)
	}
	fmt.Fprintf(page, "| `%s` | %s | %s |\n", path, of, text)
	properties, inner := schema.Properties, schema
	count := 1
	switch below {
	case "[]":
		inner = schema.Items.Schema
	case "{}":
		inner = schema.AdditionalProperties.Schema
	}
	if inner != schema {
		properties = inner.Properties
		if len(properties) == 0 {
			return count
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := properties[name]
		// What has no description is part of a type of Kubernetes, which documents it.
		if property.Description == "" {
			continue
		}
		count += fieldRows(page, path+below+"."+name, &property, slices.Contains(inner.Required, name))
	}
	return count
}

// oneLine makes a description the cell of a table.
func oneLine(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(strings.Join(strings.Fields(text), " "))
}

// An example is expressions that are true, about functions of a kind.
type examples struct {
	About    string   `json:"about"`
	Examples []string `json:"examples"`
}

// TestReferenceOfCEL runs the examples of the functions and macros of CEL, and writes them with the signatures. Each
// function has an example.
func TestReferenceOfCEL(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/cel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var groups []examples
	if err := yaml.UnmarshalStrict(text, &groups); err != nil {
		t.Fatal(err)
	}
	environment, err := cel.Kubernetes(kubernetes.VersionedOptions{EnvOptions: []celgo.EnvOption{celgo.Variable("authorizer", library.AuthorizerType)}})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString("# Functions of CEL\n\n<!-- Written by make references. Do not edit. -->\n\n" +
		"What expressions of [admission policies](../cel.md) and [object policies](../object-policies/guide.md) can call: all that API servers have. Mutations also have `jsonpatch.escapeKey`, which escapes a key for the path of a patch. Each example is true, and is run as a validation about this object:\n\n```yaml\n" +
		exampleObject + "```\n")
	missing := map[string]bool{}
	for _, name := range environment.Names() {
		// Others are what macros become.
		missing[name] = !strings.Contains(name, "@")
	}
	maps.DeleteFunc(missing, func(_ string, written bool) bool { return !written })
	for _, group := range groups {
		fmt.Fprintf(&page, "\n## %s\n\n```cel\n", group.About)
		shown := map[string]bool{}
		for _, expression := range group.Examples {
			if problem := whyFalse(t, expression); problem != "" {
				t.Errorf("%s: %s", expression, problem)
			}
			fmt.Fprintln(&page, expression)
			for _, call := range regexp.MustCompile(`((?:[a-z]+\.)?\w+)\(|\b(in)\b`).FindAllStringSubmatch(expression, -1) {
				for _, name := range []string{call[1], call[1][strings.LastIndex(call[1], ".")+1:], call[2]} {
					shown[name] = true
				}
			}
		}
		page.WriteString("```\n\n| function | takes, and returns |\n|---|---|\n")
		for _, name := range slices.Sorted(maps.Keys(shown)) {
			// Functions are shown where they have their first example.
			if !missing[name] {
				continue
			}
			delete(missing, name)
			fmt.Fprintf(&page, "| `%s` | %s |\n", name, signatures(environment, name))
		}
	}
	if len(missing) > 0 {
		t.Errorf("no example of %v in docs/testdata/cel.yaml", slices.Sorted(maps.Keys(missing)))
	}
	written(t, "reference/cel.md", page.String())
}

const exampleObject = `apiVersion: example.com/v1
kind: Service
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {replicas: 3, ports: [80, 443], template: {spec: {}}}
`

// whyFalse runs an expression as the validation of a policy.
func whyFalse(t *testing.T, expression string) string {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(exampleObject))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := utiljson.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	allowed := true
	c := &policytest.Case{Name: expression, Phase: usher.Validate}
	c.Policies = []map[string]any{{
		"apiVersion": "usher.dev/v1alpha1", "kind": "ClusterObjectPolicy", "metadata": map[string]any{"name": "example"},
		"spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{"example.com"}, "apiVersions": []any{"*"}, "operations": []any{"*"}, "resources": []any{"*"},
			}}},
			"validations": []any{map[string]any{"expression": expression}},
			"bindings":    []any{map[string]any{"name": "all", "validationActions": []any{"Deny"}}},
		},
	}}
	for _, access := range []policytest.AccessRequest{
		{User: "jane", Verb: "get", Group: "apps", Resource: "deployments", Namespace: "shop", ObjName: "web"},
		{User: "system:serviceaccount:shop:builder", Verb: "get", Resource: "pods", Namespace: "shop"},
	} {
		c.Access = append(c.Access, policytest.AccessStub{AccessRequest: access, Decision: "allow"})
	}
	c.Request.Operation, c.Request.Object, c.Request.Namespace, c.Request.User.Name = usher.Create, object, "shop", "jane"
	c.Objects = []map[string]any{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}}
	c.Expect = &policytest.Expect{Allowed: &allowed}
	if result := c.Run(t.Context()); result.Status != policytest.Passed {
		return result.Message
	}
	return ""
}

// signatures are those of a function; macros are expanded before there are types.
func signatures(environment *cel.Environment, name string) string {
	function, ok := environment.Functions()[name]
	if !ok {
		return "a macro"
	}
	var all []string
	for _, overload := range function.OverloadDecls() {
		arguments := overload.ArgTypes()
		receiver := ""
		if overload.IsMemberFunction() {
			receiver, arguments = arguments[0].String()+".", arguments[1:]
		}
		var types []string
		for _, argument := range arguments {
			types = append(types, argument.String())
		}
		all = append(all, fmt.Sprintf("`%s%s(%s)`: `%s`", receiver, name, strings.Join(types, ", "), overload.ResultType()))
	}
	slices.Sort(all)
	return strings.ReplaceAll(strings.Join(all, "<br>"), "|", "\\|")
}
