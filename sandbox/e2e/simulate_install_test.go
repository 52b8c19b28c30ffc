package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// clusterScoped are the resources in the situations that live in no namespace.
var clusterScoped = []string{"namespaces", "clusterroles", "validatingwebhookconfigurations"}

func (q *request) resource() (resource, version, group string) {
	parts := strings.SplitN(q.Resource, ".", 3)
	return parts[0], parts[1], parts[2]
}

func (q *request) namespaced() bool {
	resource, _, _ := q.resource()
	return !slices.Contains(clusterScoped, resource)
}

// widgets have two versions that differ in nothing, a default, and a status.
const widgets = `{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.simulate.example.com"},
  "spec": {
    "group": "simulate.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": SCHEMA},
                 {"name": "v2", "served": true, "storage": false, "subresources": {"status": {}}, "schema": SCHEMA}]
  }
}`

const widgetSchema = `{"openAPIV3Schema": {"type": "object", "properties": {
  "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "colour": {"type": "string", "default": "green"}}},
  "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}}}}}`

// install writes what the situations need, and waits until the API server asks it.
func (s *simulation) install(t *testing.T, situations []*situation) {
	t.Helper()
	s.write(t, parse(t, "%s", strings.ReplaceAll(widgets, "SCHEMA", widgetSchema)).Object)
	eventually(t, "widgets", func() error {
		s.mapper.Reset()
		_, err := s.of(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "simulate.example.com/v2", "kind": "Widget", "metadata": map[string]any{"namespace": "default"}}})
		return err
	})
	for _, one := range situations {
		s.write(t, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": one.namespace}})
		for _, object := range one.Objects {
			s.write(t, object)
		}
		if one.Request.Old != nil {
			s.write(t, one.Request.Old)
		}
	}
	for _, one := range situations {
		for _, object := range s.configurations(one) {
			s.write(t, object)
		}
	}
	s.awaitAsked(t)
}

func (s *simulation) write(t *testing.T, tree map[string]any) {
	t.Helper()
	object := (&unstructured.Unstructured{Object: tree}).DeepCopy()
	resource, err := s.of(object)
	if err != nil {
		t.Fatal(err)
	}
	_, err = resource.Create(testContext(t), object, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("write %s %s: %v", object.GetKind(), object.GetName(), err)
	}
}

// configurations are the webhooks and policies of a situation, written out.
func (s *simulation) configurations(one *situation) []map[string]any {
	var all []map[string]any
	for kind, hooks := range map[string][]map[string]any{"MutatingWebhookConfiguration": one.Mutating, "ValidatingWebhookConfiguration": one.Validating} {
		all = append(all, s.webhookConfigurations(one, kind, hooks)...)
	}
	for i, policy := range one.Policies {
		name := fmt.Sprintf("%s-%d", one.Name, i)
		all = append(all, one.policies("ValidatingAdmissionPolicy", name, policy)...)
	}
	for i, policy := range one.Mutations {
		name := fmt.Sprintf("%s-%d", one.Name, i)
		all = append(all, one.policies("MutatingAdmissionPolicy", name, policy)...)
	}
	return all
}

func (s *simulation) webhookConfigurations(one *situation, kind string, hooks []map[string]any) []map[string]any {
	var all []map[string]any
	for i, short := range hooks {
		name := one.Name + "-" + word(short, "configuration", fmt.Sprint(i))
		hook := one.matching(short)
		hook["name"] = word(short, "name", "hook") + "." + one.Name + ".example.com"
		url := word(short, "url", s.hooks.URL+word(short, "path", ""))
		hook["clientConfig"] = map[string]any{"url": url, "caBundle": base64.StdEncoding.EncodeToString(s.hooks.ca())}
		hook["rules"] = []any{rule(short)}
		hook["sideEffects"] = word(short, "sideEffects", "None")
		hook["admissionReviewVersions"] = or(short["admissionReviewVersions"], []any{"v1"})
		hook["timeoutSeconds"] = or(short["timeoutSeconds"], int64(5))
		for _, field := range []string{"failurePolicy", "matchPolicy", "reinvocationPolicy", "matchConditions"} {
			if short[field] != nil {
				hook[field] = short[field]
			}
		}
		known := slices.IndexFunc(all, func(c map[string]any) bool { return c["metadata"].(map[string]any)["name"] == name })
		if known >= 0 {
			all[known]["webhooks"] = append(all[known]["webhooks"].([]any), hook)
			continue
		}
		all = append(all, map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, "webhooks": []any{hook},
		})
	}
	return all
}

// matching are the selectors: by default, the namespace of the situation.
func (s *situation) matching(short map[string]any) map[string]any {
	own := map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": s.namespace}}
	m := map[string]any{"namespaceSelector": or(short["namespaceSelector"], own)}
	if short["objectSelector"] != nil {
		m["objectSelector"] = short["objectSelector"]
	}
	return m
}

func rule(short map[string]any) map[string]any {
	return map[string]any{
		"operations":  or(short["operations"], []any{"CREATE"}),
		"apiGroups":   or(short["groups"], []any{""}),
		"apiVersions": or(short["versions"], []any{"v1"}),
		"resources":   or(short["resources"], []any{"configmaps"}),
		"scope":       or(short["scope"], "*"),
	}
}

// policies are a policy and its binding.
func (s *situation) policies(kind, name string, short map[string]any) []map[string]any {
	named := rule(short)
	constraints := s.matching(short)
	if short["resourceNames"] != nil {
		named["resourceNames"] = short["resourceNames"]
	}
	constraints["resourceRules"] = []any{named}
	spec := map[string]any{"matchConstraints": constraints, "failurePolicy": or(short["failurePolicy"], "Fail")}
	if excluded := short["excludeResourceRules"]; excluded != nil {
		constraints["excludeResourceRules"] = excluded
	}
	for _, field := range []string{"validations", "auditAnnotations", "variables", "matchConditions", "paramKind"} {
		if short[field] != nil {
			spec[field] = short[field]
		}
	}
	binding := map[string]any{"policyName": name}
	if short["paramRef"] != nil {
		binding["paramRef"] = short["paramRef"]
	}
	if kind == "ValidatingAdmissionPolicy" {
		binding["validationActions"] = or(short["actions"], []any{"Deny"})
	} else {
		spec["reinvocationPolicy"] = or(short["reinvocationPolicy"], "Never")
		spec["mutations"] = []any{mutation(short)}
	}
	metadata := map[string]any{"name": name}
	return []map[string]any{
		{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec},
		{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "Binding", "metadata": metadata, "spec": binding},
	}
}

func mutation(short map[string]any) map[string]any {
	if expression := short["jsonPatch"]; expression != nil {
		return map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": expression}}
	}
	return map[string]any{"patchType": "ApplyConfiguration", "applyConfiguration": map[string]any{"expression": short["applyConfiguration"]}}
}

func word(m map[string]any, key, otherwise string) string {
	if text, ok := m[key].(string); ok {
		return text
	}
	return otherwise
}

func or(value, otherwise any) any {
	if value != nil {
		return value
	}
	return otherwise
}

// awaitAsked waits until the API server asks a webhook and a policy of each kind that were
// written last, and so all others.
func (s *simulation) awaitAsked(t *testing.T) {
	t.Helper()
	probe := &situation{Name: "simulate-zz-probe", namespace: "simulate-zz-probe"}
	only := func(kind string) map[string]any { return map[string]any{"matchLabels": map[string]any{"probe": kind}} }
	probe.Mutating = []map[string]any{{"path": "/deny", "objectSelector": only("mutating")}}
	probe.Validating = []map[string]any{{"path": "/deny", "objectSelector": only("validating")}}
	probe.Policies = []map[string]any{{"validations": []any{map[string]any{"expression": "false"}}, "objectSelector": only("policy")}}
	probe.Mutations = []map[string]any{{"jsonPatch": `[JSONPatch{op: "replace", path: "/data/none/x", value: "no"}]`, "objectSelector": only("mutation")}}
	s.write(t, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": probe.namespace}})
	for _, object := range s.configurations(probe) {
		s.write(t, object)
	}
	for _, kind := range []string{"mutating", "validating", "policy", "mutation"} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "probe", "namespace": probe.namespace, "labels": map[string]any{"probe": kind}},
		}}
		resource, err := s.of(object)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a "+kind+" probe", func() error {
			_, err := resource.Create(testContext(t), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				return errors.New("it is admitted")
			}
			return nil
		})
	}
}

// dumped is what simulate knows of a cluster in files.
var dumped = []string{
	"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
	"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
	"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
	"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"/apis/simulate.example.com/v1/widgets",
	"/api/v1/namespaces",
	"/api/v1/configmaps",
}

// dump copies the cluster into a folder, as kubectl get would.
func (s *simulation) dump(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	client, err := rest.HTTPClientFor(s.RESTConfig)
	if err != nil {
		t.Fatal(err)
	}
	for i, path := range dumped {
		list := fetch(t, client, s.RESTConfig.Host+path)
		encoded, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(folder, fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(name, encoded, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func fetch(t *testing.T, client *http.Client, url string) map[string]any {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var tree map[string]any
	if err := json.NewDecoder(response.Body).Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// get reads the object of a situation.
func (s *simulation) get(t *testing.T, one *situation) (map[string]any, error) {
	t.Helper()
	object := &unstructured.Unstructured{Object: one.Request.Old}
	resource, err := s.of(object)
	if err != nil {
		return nil, err
	}
	current, err := resource.Get(testContext(t), object.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(current.Object, "metadata", "managedFields")
	return current.Object, nil
}
