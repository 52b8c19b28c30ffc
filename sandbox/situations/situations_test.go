// Package situations asks a kube-apiserver that has admission policies of Kubernetes, and API
// servers that leave the same policies to Usher, about the same requests, and compares everything
// that a client and the audit log see.
//
// A file in testdata has a YAML document for each situation: policies with bindings, what else is
// in the cluster, and requests. All situations are in force at the same time, in API servers that
// they share: each has a namespace of its own, named by $ns, and its policies are for that
// namespace.
package situations

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A situation is policies in a cluster, and requests.
type situation struct {
	Reason string `json:"reason"`
	// Policy has fields of the spec of a ValidatingAdmissionPolicy named $ns, Mutation those of a
	// MutatingAdmissionPolicy. They replace those of a policy for ConfigMaps. With neither, the policy
	// validates with the expression false.
	Policy   map[string]any `json:"policy"`
	Mutation map[string]any `json:"mutation"`
	// Binding has fields of the spec of the binding $ns. They replace those of one that denies, for
	// namespaces with the label situation: $ns.
	Binding map[string]any `json:"binding"`
	// More are other policies and bindings. A binding that does not say for which namespaces
	// it is, is for those of the situation.
	More []map[string]any `json:"more"`
	// Given are requests of an administrator that are made before the policies exist.
	Given []request `json:"given"`
	// Requests are made one after the other. Without any, a ConfigMap is created.
	Requests []request `json:"requests"`
	// Shows is part of the answers of the API server that has the policies.
	Shows string `json:"shows"`
	// Differs says why Usher answers differently behind a door, by the name of the door.
	Differs map[string]string `json:"differs"`

	name string
}

// A request is one to an API server.
type request struct {
	// Do is a verb and a target: create configmaps, update widgets.v1beta1.situations.example/web/status.
	// The verbs are create, update, patch, strategic, json, apply, delete, deletecollection and get.
	Do string `json:"do"`
	// With is the body. What it lacks of apiVersion, kind and name is that of the target.
	With any `json:"with"`
	// In is another namespace than that of the situation.
	In    string `json:"in"`
	Query string `json:"query"`
	// As is the user; none is an administrator.
	As user `json:"as"`
	// Until makes the request again until the answer shows the text: what the API server knows of
	// other objects is a little older than they are.
	Until string `json:"until"`
}

// A user is impersonated.
type user struct {
	Name   string              `json:"name"`
	UID    string              `json:"uid"`
	Groups []string            `json:"groups"`
	Extra  map[string][]string `json:"extra"`
}

// load reads the situations of a file.
func load(t *testing.T, path string) []*situation {
	t.Helper()
	file, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(filepath.Base(path), ".yaml")
	var all []*situation
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(file)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		s := &situation{name: fmt.Sprintf("%s-%02d", base, len(all)+1)}
		if err := yaml.UnmarshalStrict(expand(text, s.name), s); err != nil {
			t.Fatalf("read %s: situation %d: %v", path, len(all)+1, err)
		}
		if s.Reason == "" {
			t.Fatalf("read %s: situation %d has no reason", path, len(all)+1)
		}
		if len(s.Requests) == 0 {
			s.Requests = []request{{Do: "create configmaps", With: map[string]any{"data": map[string]any{"a": "1"}}}}
		}
		all = append(all, s)
	}
}

const (
	// costly takes 350,000 units of cost, and little time.
	costly = "!authorizer.path('/x').check('get').errored()"
	// costlyText is for messages, which have no authorizer. It takes 400,000.
	costlyText = "string('" + x1000 + x1000 + x1000 + x1000 + "'.matches('y" + x1000 + x1000 + x1000 + x1000 + "'))"
	x1000      = x100 + x100 + x100 + x100 + x100 + x100 + x100 + x100 + x100 + x100
	x100       = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
)

// expand replaces $ns by the name of a situation, and names of expressions that are too long to
// write.
func expand(text []byte, name string) []byte {
	list := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.NewReplacer("$i", strconv.Itoa(i), "$text", costlyText, "$costly", costly).Replace(format))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	validation := `{expression: "$costly"}`
	return []byte(strings.NewReplacer(
		"$ns", name,
		"$costly-conditions", list(8, `{name: c$i, expression: "$costly"}`),
		"$costly-validations", list(30, validation),
		"$nearly-validations", list(25, validation),
		"$costly-messages", list(16, `{expression: "$costly", messageExpression: "$text"}`),
		"$costly", costly,
	).Replace(string(text)))
}

// policies are the policies and bindings of a situation.
func (s *situation) policies() []map[string]any {
	var all []map[string]any
	metadata := map[string]any{"name": s.name}
	constraints := map[string]any{"resourceRules": []any{map[string]any{
		"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"*"}, "resources": []any{"configmaps"},
	}}}
	switch {
	case s.Mutation != nil:
		spec := with(map[string]any{"matchConstraints": constraints, "reinvocationPolicy": "Never", "failurePolicy": "Fail"}, s.Mutation)
		all = append(all, objectOf(mutating, metadata, spec), objectOf(mutating+"Binding", metadata, with(map[string]any{"policyName": s.name}, s.Binding)))
	default:
		spec := with(map[string]any{"matchConstraints": constraints, "validations": []any{map[string]any{"expression": "false"}}}, s.Policy)
		binding := with(map[string]any{"policyName": s.name, "validationActions": []any{"Deny"}}, s.Binding)
		all = append(all, objectOf(validating, metadata, spec), objectOf(validating+"Binding", metadata, binding))
	}
	for _, more := range s.More {
		all = append(all, with(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1"}, more))
	}
	for _, object := range all {
		if strings.HasSuffix(fmt.Sprint(object["kind"]), "Binding") {
			s.confine(object)
		}
	}
	return all
}

const (
	validating = "ValidatingAdmissionPolicy"
	mutating   = "MutatingAdmissionPolicy"
)

// confine has a binding only for the namespaces of the situation.
func (s *situation) confine(binding map[string]any) {
	spec, _ := binding["spec"].(map[string]any)
	resources, ok := spec["matchResources"].(map[string]any)
	if !ok {
		resources = map[string]any{}
		spec["matchResources"] = resources
	}
	if _, ok := resources["namespaceSelector"]; !ok {
		resources["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"situation": s.name}}
	}
}

func objectOf(kind string, metadata, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
}

// with returns fields, replaced by those of others.
func with(fields, others map[string]any) map[string]any {
	for key, value := range others {
		if value == nil {
			delete(fields, key)
			continue
		}
		fields[key] = value
	}
	return fields
}
