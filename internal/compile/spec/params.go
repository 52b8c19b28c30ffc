package spec

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/rule"
)

// A Params is the paramRef of a binding; nil if there is none.
type Params struct {
	// field is where it is written.
	field           string
	namespace, name string
	// selector is used if there is no name.
	selector labels.Selector
	// required says that having no object of params is an error.
	required bool
}

// ParamKind compiles spec.paramKind.
func (c *Compilation) ParamKind(k *admissionv1.ParamKind) {
	if k == nil {
		return
	}
	if gv, err := schema.ParseGroupVersion(k.APIVersion); err != nil || gv.Version == "" {
		c.Fail("spec.paramKind.apiVersion", fmt.Sprintf("%q is not an API version", k.APIVersion), "write GROUP/VERSION, or v1")
	}
	if k.Kind == "" {
		c.Fail("spec.paramKind.kind", "missing", "name the kind of the objects with params")
	}
}

// ParamRef compiles the paramRef at a field.
func (c *Compilation) ParamRef(field string, ref *admissionv1.ParamRef) *Params {
	if ref == nil {
		return nil
	}
	p := &Params{field: field, namespace: ref.Namespace, name: ref.Name}
	switch {
	case ref.Name != "" && ref.Selector != nil:
		c.Fail(field, "name and selector exclude each other", "remove one of them")
	case ref.Name == "" && ref.Selector == nil:
		c.Fail(field, "neither name nor selector is set: there are no params", "name an object, or select some")
	case ref.Selector != nil:
		// An empty selector chooses everything.
		if p.selector = c.selector(field+".selector", ref.Selector); p.selector == nil {
			p.selector = labels.Everything()
		}
	}
	switch action := ref.ParameterNotFoundAction; {
	case action == nil:
		c.Fail(field+".parameterNotFoundAction", "missing: what to do without params is not known", "use Allow or Deny")
	case *action == admissionv1.DenyAction:
		p.required = true
	case *action != admissionv1.AllowAction:
		c.Fail(field+".parameterNotFoundAction", fmt.Sprintf("%q is not an action", *action), "use Allow or Deny")
	}
	return p
}

// The errors of params are upstream's.
var (
	errNoParams    = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	errNoNamespace = errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	errNamespace   = errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
)

// A NoParamKindError is the error of a policy whose kind of params the cluster does not have. It is not
// that of params that do not exist: parameterNotFoundAction does not apply.
type NoParamKindError struct{ kind schema.GroupVersionKind }

// Error implements error, with the text of API servers.
func (e *NoParamKindError) Error() string {
	return fmt.Sprintf("failed to find resource referenced by paramKind: '%v'", e.kind)
}

// impossible returns the error for params that cannot exist, whatever their name; nil if err is
// another one, or none.
func impossible(kind *admissionv1.ParamKind, err error) error {
	if _, ok := errors.AsType[*fact.NoKind](err); ok {
		return &NoParamKindError{schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)}
	}
	scope, ok := errors.AsType[*fact.WrongScope](err)
	switch {
	case !ok:
		return nil
	case scope.Namespaced:
		return errNoNamespace
	}
	return errNamespace
}

// Collect returns the objects of params to evaluate a policy with: one nil object if there are to
// be none, and no object if the policy is not evaluated. The error is [*fact.Missing], or about
// the configuration.
func (p *Params) Collect(kind *admissionv1.ParamKind, namespace string, known *fact.Known) ([]map[string]any, error) {
	if kind == nil || p == nil {
		return []map[string]any{nil}, nil
	}
	o := p.object(kind, namespace)
	if o.Namespace == "" && isNamespaced(kind) {
		return nil, errNoNamespace
	}
	value, err := known.Value(o)
	if why := impossible(kind, err); why != nil {
		return nil, why
	}
	if _, absent := errors.AsType[*fact.NotFound](err); absent {
		value, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	objects := objectsOf(value)
	if len(objects) == 0 && p.required {
		return nil, errNoParams
	}
	return objects, nil
}

// DependsOn returns on what the objects of params depend, besides objects of requests.
func (p *Params) DependsOn() rule.Dependencies {
	switch {
	case p == nil:
		return 0
	case p.namespace != "":
		return rule.OnObjects
	}
	return rule.OnObjects | rule.OnNamespace
}

// object names the params for a request in a namespace. The resolver of the fact knows whether the
// kind is namespaced.
func (p *Params) object(kind *admissionv1.ParamKind, namespace string) *fact.Object {
	o := &fact.Object{APIVersion: kind.APIVersion, Kind: kind.Kind, Namespace: namespace, Name: p.name, AnyScope: p.namespace == ""}
	if p.namespace != "" {
		o.Namespace = p.namespace
	}
	if p.name == "" {
		o.Selector, o.All = chosen{p.selector}, true
	}
	return o
}

func objectsOf(value any) []map[string]any {
	switch v := value.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		objects := make([]map[string]any, 0, len(v))
		for _, item := range v {
			if object, ok := item.(map[string]any); ok {
				objects = append(objects, object)
			}
		}
		return objects
	}
	return nil
}

// isNamespaced reports whether objects of a kind are known to be in namespaces.
func isNamespaced(kind *admissionv1.ParamKind) bool {
	return kind.APIVersion == "v1" && (kind.Kind == "ConfigMap" || kind.Kind == "Secret")
}

// A chosen selector chooses objects by their labels, as [fact.LabelSelector].
type chosen struct{ selector labels.Selector }

// Matches implements [fact.Selector].
func (c chosen) Matches(object map[string]any) bool {
	of, _ := rule.LabelsOf(object)
	return c.selector.Matches(of)
}

// String implements [fact.Selector].
func (c chosen) String() string { return c.selector.String() }

// LabelSelector implements [fact.LabelSelector].
func (c chosen) LabelSelector() string { return c.selector.String() }
