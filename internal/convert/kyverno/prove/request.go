package prove

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/convert"
	"github.com/usher-dev/usher/internal/convert/kyverno/interpret"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/policytest"
)

// values are what a test makes up: values of variables, and labels of namespaces.
type values struct {
	GlobalValues map[string]any `json:"globalValues"`
	Policies     []struct {
		Name      string        `json:"name"`
		Resources []namedValues `json:"resources"`
		Rules     []namedValues `json:"rules"`
	} `json:"policies"`
	NamespaceSelector []struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"namespaceSelector"`
	// Namespaces are namespaces that exist.
	Namespaces   []map[string]any `json:"namespaces"`
	Subresources []any            `json:"subresources"`
}

type namedValues struct {
	Name          string           `json:"name"`
	Values        map[string]any   `json:"values"`
	ForeachValues map[string][]any `json:"foreachValues"`
}

// of returns the values for a rule and an object.
func (v *values) of(policy, rule, object string) (map[string]any, error) {
	all := map[string]any{}
	if v == nil {
		return all, nil
	}
	if len(v.Subresources) > 0 {
		return nil, errors.New("it makes up subresources")
	}
	maps.Copy(all, v.GlobalValues)
	for _, p := range v.Policies {
		if p.Name != policy {
			continue
		}
		for _, r := range p.Rules {
			if slices.Contains(versions(r.Name), rule) {
				maps.Copy(all, r.Values)
				if len(r.ForeachValues) > 0 {
					return nil, errors.New("it makes up values in a loop")
				}
			}
		}
		for _, r := range p.Resources {
			if r.Name == object {
				maps.Copy(all, r.Values)
			}
		}
	}
	return all, nil
}

// request makes the request of a result, with the objects that its values represent.
func (p *prover) request(of *convert.Foreign, r *result, object map[string]any) (*interpret.Request, error) {
	made, err := p.values.of(of.Ref().Name, r.Rule, text(object, "name"))
	if err != nil {
		return nil, err
	}
	operation := r.Operation
	if named, ok := made["request.operation"].(string); ok && operation == "" {
		operation = named
	}
	if operation == "" {
		operation = "CREATE"
	}
	namespace := text(object, "namespace")
	if in, ok := made["request.namespace"].(string); ok && in != namespace {
		if namespace != "" {
			return nil, fmt.Errorf("it makes up another namespace than that of the object")
		}
		namespace = in
	}
	if namespace == "" && !p.clusterScoped(object) {
		namespace = "default"
	}
	a := &interpret.Request{Operation: operation, User: p.user}
	object = placed(object, namespace)
	switch operation {
	case "CREATE":
		a.Object = object
	case "DELETE":
		a.OldObject = object
	default:
		return nil, fmt.Errorf("it is about the operation %s, and does not say what the object was before", operation)
	}
	p.surround(a, object, namespace)
	for _, name := range []string{"request.operation", "request.namespace"} {
		delete(made, name)
	}
	if interpret.Unasked(namespace) {
		return nil, fmt.Errorf("a webhook of Kyverno is not asked about objects of the namespace %s", namespace)
	}
	more, err := existing(of, made, namespace)
	a.Data = append(append(more, p.existing...), a.Data...)
	return a, err
}

// surround adds the namespace of a request to it, and what policies read beside its object: the namespaces and ConfigMaps
// among the objects of the test, which exist unless the request makes them.
func (p *prover) surround(a *interpret.Request, object map[string]any, namespace string) {
	around := p.resources
	if p.values != nil {
		around = append(slices.Clone(p.values.Namespaces), around...)
	}
	for _, o := range around {
		if o["apiVersion"] != "v1" || o["kind"] != "Namespace" && o["kind"] != "ConfigMap" || named(o, object) {
			continue
		}
		a.Data = append(a.Data, o)
		if o["kind"] == "Namespace" && text(o, "name") == namespace {
			a.NamespaceLabels = labelsOf(o)
		}
	}
	if p.values == nil {
		return
	}
	for _, n := range p.values.NamespaceSelector {
		if n.Name != namespace {
			continue
		}
		a.NamespaceLabels = n.Labels
		for i, o := range a.Data {
			if o["kind"] == "Namespace" && text(o, "name") == namespace {
				a.Data[i] = labeled(o, n.Labels)
			}
		}
	}
}

// named reports whether two objects are one.
func named(a, b map[string]any) bool {
	return a["kind"] == b["kind"] && a["apiVersion"] == b["apiVersion"] && text(a, "name") == text(b, "name") &&
		(text(a, "namespace") == text(b, "namespace") || text(a, "namespace") == "")
}

func labelsOf(object map[string]any) map[string]string {
	all := map[string]string{}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for key, value := range labels {
		if text, ok := value.(string); ok {
			all[key] = text
		}
	}
	return all
}

// namespaceOf returns a namespace with labels, of which an API server sets one.
func namespaceOf(name string, labels map[string]string) map[string]any {
	bare := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	return labeled(labeled(bare, labels), map[string]string{"kubernetes.io/metadata.name": name})
}

// labeled returns an object with more labels.
func labeled(object map[string]any, more map[string]string) map[string]any {
	object = maps.Clone(object)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	labels, _ := metadata["labels"].(map[string]any)
	if labels = maps.Clone(labels); labels == nil {
		labels = map[string]any{}
	}
	for key, value := range more {
		labels[key] = value
	}
	metadata["labels"], object["metadata"] = labels, metadata
	return object
}

func (p *prover) clusterScoped(object map[string]any) bool {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	return p.Kinds.ClusterScoped(schema.FromAPIVersionAndKind(version, kind))
}

// placed returns an object in a namespace.
func placed(object map[string]any, namespace string) map[string]any {
	if namespace == "" {
		return object
	}
	object = maps.Clone(object)
	metadata, _ := object["metadata"].(map[string]any)
	if metadata = maps.Clone(metadata); metadata == nil {
		metadata = map[string]any{}
	}
	metadata["namespace"], object["metadata"] = namespace, metadata
	return object
}

var namespaceVariable = regexp.MustCompile(`\{\{\s*request\.(namespace|object\.metadata\.namespace)\s*\}\}`)

// existing returns the ConfigMaps that values represent. Nothing else that tests make up can be an object.
func existing(of *convert.Foreign, made map[string]any, namespace string) ([]map[string]any, error) {
	maps.DeleteFunc(made, func(name string, _ any) bool { return !used(of, name) })
	if len(made) == 0 {
		return nil, nil
	}
	policy, wrong := syntax.Decode(of.Object)
	if len(wrong) > 0 {
		return nil, &wrong[0]
	}
	data := map[string]map[string]any{}
	for name, value := range made {
		variable, key, ok := strings.Cut(name, ".data.")
		if text, isText := value.(string); ok && isText {
			if data[variable] == nil {
				data[variable] = map[string]any{}
			}
			data[variable][key] = text
			continue
		}
		return nil, fmt.Errorf("it makes up a value of %s", name)
	}
	var objects []map[string]any
	for variable, keys := range data {
		object, err := configMap(policy, variable, namespace)
		if err != nil {
			return nil, err
		}
		object["data"] = keys
		objects = append(objects, object)
	}
	return objects, nil
}

// used says that the text of a policy has the name of a variable at all.
func used(of *convert.Foreign, name string) bool {
	variable, _, _ := strings.Cut(name, ".")
	found := false
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, each := range v {
				walk(each)
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		case string:
			found = found || strings.Contains(v, variable)
		}
	}
	walk(of.Object["spec"])
	return found
}

func configMap(policy *syntax.Policy, variable, namespace string) (map[string]any, error) {
	for i := range policy.Spec.Rules {
		for _, e := range policy.Spec.Rules[i].Context {
			if e.Name != variable || e.ConfigMap == nil {
				continue
			}
			name, in := namespaceVariable.ReplaceAllString(e.ConfigMap.Name, namespace), namespaceVariable.ReplaceAllString(e.ConfigMap.Namespace, namespace)
			if in == "" {
				in = "default"
			}
			if strings.Contains(name+in, "{{") {
				return nil, fmt.Errorf("the ConfigMap %s has a name that depends on the request", variable)
			}
			return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": in}}, nil
		}
	}
	return nil, fmt.Errorf("it makes up a value of %s", variable)
}

// caseOf returns the case of a request about what a policy became. It denies whatever its action is.
func caseOf(i *convert.Import, r *interpret.Request, o Options) (*policytest.Case, error) {
	documents, err := convert.Documents(i.To)
	if err != nil {
		return nil, err
	}
	c := &policytest.Case{Phase: usher.Validate, Policies: documents, Limits: o.Limits}
	c.ValidationActions = []string{"Deny"}
	user := r.User.Authenticated()
	c.Objects = slices.Concat(r.Data, user.Bindings())
	c.Request = policytest.Request{
		Operation: usher.Operation(r.Operation), Object: r.Object, OldObject: r.OldObject, Subresource: r.Subresource,
		User: policytest.User{Name: user.Name, Groups: user.Groups},
	}
	subject := r.Object
	if subject == nil {
		subject = r.OldObject
	}
	c.Request.Namespace = text(subject, "namespace")
	if subject["kind"] == "Namespace" {
		c.Request.Namespace = text(subject, "name")
	}
	known := false
	for i, o := range c.Objects {
		if o["kind"] == "Namespace" {
			// An API server sets it.
			c.Objects[i] = labeled(o, map[string]string{"kubernetes.io/metadata.name": text(o, "name")})
			known = known || text(o, "name") == c.Request.Namespace
		}
	}
	if c.Request.Namespace != "" && !known {
		c.Objects = append(c.Objects, namespaceOf(c.Request.Namespace, r.NamespaceLabels))
	}
	return c, nil
}
