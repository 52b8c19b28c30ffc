package spec

import (
	"cmp"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/lang/reference"
	"github.com/usher-dev/usher/internal/rule"
)

// everywhere is the namespace of a list of the objects in all namespaces.
const everywhere = "*"

// probed is the namespace, and the name, of the object by which it is found out whether objects of a
// kind can be read if their namespace and name depend on the request.
const probed = "default"

// Data are the compiled sources of spec.data.
type Data struct {
	// Sources are what expressions read.
	Sources []admission.Data
	// Reads are the kinds of the objects.
	Reads []fact.Read
	// Expected are facts that should be readable.
	Expected []Expected
}

// An Expected is a fact that a policy needs.
type Expected struct {
	Ref *fact.Object
	// field is where the policy names it, of which expressions read name.
	field, name string
	// exact says that requests read this very object, which is required.
	exact, required bool
}

// Data compiles spec.data of a policy, which is in a namespace or, with an empty one, for the cluster.
func (c *Compilation) Data(all []usherv1alpha1.DataSource, namespace string, limits *rule.Limits) *Data {
	d := &Data{}
	names := map[string]bool{}
	for i := range all {
		s := &all[i]
		x := dataSource{Compilation: c, Data: d, source: s, field: fmt.Sprintf("spec.data[%d]", i), own: namespace, limits: limits}
		switch {
		case !isIdentifier(s.Name):
			c.Fail(x.field+".name", fmt.Sprintf("%q is not a CEL identifier", s.Name), "use letters, digits and _, beginning with a letter")
		case names[s.Name]:
			c.Fail(x.field+".name", fmt.Sprintf("there is another source %q", s.Name), "rename one of them")
		}
		names[s.Name] = true
		switch s.OnMissing {
		case "", usherv1alpha1.OnMissingFail, usherv1alpha1.OnMissingNull:
		case "null":
			c.Fail(x.field+".onMissing", "it is null in YAML, which API servers drop", `write it in quotes: "Null"`)
		default:
			c.Fail(x.field+".onMissing", fmt.Sprintf("%q is not a value of onMissing", s.OnMissing), `use Fail or "Null"`)
		}
		compiled := x.compile()
		compiled.Name = s.Name
		d.Sources = append(d.Sources, compiled)
	}
	return d
}

// A dataSource is one source that is being compiled.
type dataSource struct {
	*Compilation
	*Data

	source *usherv1alpha1.DataSource
	field  string
	// own is the namespace of the policy.
	own    string
	limits *rule.Limits
}

func (x *dataSource) compile() admission.Data {
	s := x.source
	switch {
	case s.Object != nil && s.List == nil && s.HTTP == nil:
		return x.object(x.field+".object", s.Object)
	case s.List != nil && s.Object == nil && s.HTTP == nil:
		return x.list(x.field+".list", s.List)
	case s.HTTP != nil && s.Object == nil && s.List == nil:
		return x.http(x.field+".http", s.HTTP)
	}
	x.Fail(x.field, "a source of data has one of object, list and http", "write one of them")
	return broken()
}

// broken is a source that does not compile.
func broken() admission.Data {
	return admission.Data{Load: func(*admission.Input, admission.Address) (any, error) { return nil, errBroken }}
}

var (
	errBroken = errors.New("the source does not compile")
	errEmpty  = errors.New("a placeholder in the URL has no value in the object")
)

// orNull returns a value, or null for what does not exist if the source says so.
func (x *dataSource) orNull() func(value any, err error) (any, error) {
	null := x.source.OnMissing == usherv1alpha1.OnMissingNull
	return func(value any, err error) (any, error) {
		_, absent := errors.AsType[*fact.NotFound](err)
		_, unknown := errors.AsType[*fact.NoKind](err)
		if null && (absent || unknown || errors.Is(err, errEmpty)) {
			return nil, nil
		}
		return value, err
	}
}

func (x *dataSource) object(field string, o *usherv1alpha1.DataObject) admission.Data {
	x.kind(field, o.APIVersion, o.Kind)
	x.namespace(field, o.Namespace, o.APIVersion, o.Kind)
	x.namespaceExpression(field, o.Namespace, o.NamespaceExpression)
	switch {
	case o.Name != "" && o.NameExpression != "":
		x.Fail(field, "name and nameExpression exclude each other", "remove one of them")
	case o.Name == "" && o.NameExpression == "":
		x.Fail(field, "neither name nor nameExpression is set", "name the object, or write an expression that makes its name")
	case o.Name != "":
		if err := admission.CheckName(o.Name); err != nil {
			x.Fail(field+".name", err.Error(), "write the name of the object")
		}
	}
	x.Reads = append(x.Reads, fact.Read{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name})
	expected := fact.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: x.inNamespace(o.Namespace), Name: o.Name, AnyScope: o.Namespace == ""}
	exact := o.Name != "" && o.NamespaceExpression == "" && (o.Namespace != "" || x.own != "")
	if o.Name == "" {
		expected.Name = probed
	}
	x.expect(&expected, exact)
	orNull := x.orNull()
	of := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	return admission.Data{Kind: of, NameExpression: o.NameExpression, NamespaceExpression: o.NamespaceExpression, DependsOn: objectsIn(cmp.Or(o.Namespace, o.NamespaceExpression)), Load: func(in *admission.Input, at admission.Address) (any, error) {
		ref := fact.Object{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: cmp.Or(o.Namespace, at.Namespace), Name: cmp.Or(o.Name, at.Name)}
		if o.Namespace == "" && o.NamespaceExpression == "" {
			ref.Namespace, ref.AnyScope = in.Request.Namespace, true
		}
		if ref.Name == "" || ref.Namespace == "" && o.NamespaceExpression != "" {
			return orNull(nil, &fact.NotFound{Kind: o.Kind})
		}
		return orNull(in.Facts.Value(&ref))
	}}
}

func (x *dataSource) list(field string, l *usherv1alpha1.DataList) admission.Data {
	x.kind(field, l.APIVersion, l.Kind)
	if l.Namespace != everywhere || x.own != "" {
		x.namespace(field, l.Namespace, l.APIVersion, l.Kind)
	}
	x.namespaceExpression(field, l.Namespace, l.NamespaceExpression)
	selector := labels.Everything()
	if l.LabelSelector != nil {
		if chosen, err := metav1.LabelSelectorAsSelector(l.LabelSelector); err != nil {
			x.Fail(field+".labelSelector", err.Error(), "correct the selector")
		} else {
			selector = chosen
		}
	}
	x.Reads = append(x.Reads, fact.Read{APIVersion: l.APIVersion, Kind: l.Kind, Lists: true})
	in := func(namespace string) *fact.Object {
		ref := &fact.Object{APIVersion: l.APIVersion, Kind: l.Kind, Namespace: l.Namespace, Selector: chosen{selector}, All: true, Live: l.Live}
		switch {
		case l.NamespaceExpression != "":
			ref.Namespace = namespace
		case l.Namespace == "":
			ref.Namespace, ref.AnyScope = namespace, true
		case l.Namespace == everywhere:
			ref.Namespace = ""
		}
		return ref
	}
	expected := in(x.inNamespace(""))
	// It is read from time to time, for no request.
	expected.Live = false
	x.expect(expected, false)
	orNull := x.orNull()
	of := schema.FromAPIVersionAndKind(l.APIVersion, l.Kind)
	return admission.Data{Kind: of, List: true, NamespaceExpression: l.NamespaceExpression, DependsOn: objectsIn(cmp.Or(l.Namespace, l.NamespaceExpression)), Load: func(input *admission.Input, at admission.Address) (any, error) {
		if l.NamespaceExpression == "" {
			return orNull(input.Facts.Value(in(input.Request.Namespace)))
		}
		if at.Namespace == "" {
			return orNull(nil, &fact.NotFound{Kind: l.Kind})
		}
		return orNull(input.Facts.Value(in(at.Namespace)))
	}}
}

func (x *dataSource) http(field string, h *v1alpha1.HttpDataRef) admission.Data {
	// The body is the value.
	ref, problems := reference.Compile(&v1alpha1.ResourceRefer{From: v1alpha1.FromHTTP, Path: "/body", Http: h}, reference.ValueSuffix)
	for _, p := range problems {
		p.Field = x.field + "." + p.Field
		x.Problems = append(x.Problems, p)
	}
	for at, address := range map[string]string{field + ".url": h.URL, field + ".auth.authUrl": addressOf(h.Auth)} {
		if what, do := x.limits.Fetches(x.own, address); what != "" && address != "" {
			x.Fail(at, what, do)
		}
	}
	if ref == nil {
		return broken()
	}
	orNull := x.orNull()
	return admission.Data{Whole: true, DependsOn: rule.OnHTTP, Load: func(in *admission.Input, _ admission.Address) (any, error) {
		body, ok, err := ref.Value(in.Rule())
		if err == nil && !ok {
			err = errEmpty
		}
		return orNull(body, err)
	}}
}

// objectsIn returns on what objects of a namespace depend: an empty one is that of the request.
func objectsIn(namespace string) rule.Dependencies {
	if namespace == "" {
		return rule.OnObjects | rule.OnNamespace
	}
	return rule.OnObjects
}

// kind checks the kind of objects.
func (x *dataSource) kind(field, apiVersion, kind string) {
	if gv, err := schema.ParseGroupVersion(apiVersion); err != nil || gv.Version == "" {
		x.Fail(field+".apiVersion", fmt.Sprintf("%q is not an API version", apiVersion), "write GROUP/VERSION, or v1")
	}
	if kind == "" {
		x.Fail(field+".kind", "missing", "name the kind of the objects")
	}
}

// namespace checks the namespace of objects.
func (x *dataSource) namespace(field, namespace, apiVersion, kind string) {
	gk := schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind()
	switch {
	case namespace == "" || namespace == x.own:
	case x.own != "" && !x.limits.Namespaced.References.Has(gk):
		x.Fail(field+".namespace", fmt.Sprintf("a policy of namespace %s reads objects of that namespace only", x.own),
			"remove the namespace, or ask who administers the cluster for a ClusterObjectPolicy, or to allow it: --namespaced-references="+rule.Kinds{gk}.String())
	case namespace == everywhere:
	case len(validation.IsDNS1123Label(namespace)) > 0:
		x.Fail(field+".namespace", fmt.Sprintf("%q is not the name of a namespace", namespace), "name a namespace, or write namespaceExpression")
	}
}

// namespaceExpression checks the expression that makes the namespace of objects.
func (x *dataSource) namespaceExpression(field, namespace, expression string) {
	switch {
	case expression == "":
	case x.own != "":
		x.Fail(field+".namespaceExpression", fmt.Sprintf("a policy of namespace %s reads objects of that namespace only", x.own),
			"remove the expression, or ask who administers the cluster for a ClusterObjectPolicy")
	case namespace != "":
		x.Fail(field, "namespace and namespaceExpression exclude each other", "remove one of them")
	}
}

// inNamespace is the namespace of the object by which it is found out whether one can be read.
func (x *dataSource) inNamespace(namespace string) string {
	return cmp.Or(namespace, x.own, probed)
}

func (x *dataSource) expect(o *fact.Object, exact bool) {
	x.Expected = append(x.Expected, Expected{
		Ref: o, field: x.field, name: x.source.Name,
		exact: exact, required: x.source.OnMissing != usherv1alpha1.OnMissingNull,
	})
}

// Absent returns the problem that a fact does not exist, or cannot be read, given its value or error.
// Otherwise it is false. Ignore is whether the failurePolicy is Ignore. The problem has no Policy and
// no File.
func (e *Expected) Absent(ignore bool, err error) (rule.Problem, bool) {
	_, absent := errors.AsType[*fact.NotFound](err)
	scope, misplaced := errors.AsType[*fact.WrongScope](err)
	kind, unknown := errors.AsType[*fact.NoKind](err)
	effect := "the policy fails for every request that reads data." + e.name
	if ignore {
		effect = "the policy ignores every request for which it reads data." + e.name
	}
	p := rule.Problem{Severity: rule.Warning, Field: e.field}
	switch {
	case err == nil || misplaced && scope.Namespaced || (absent || unknown) && !e.required:
		return rule.Problem{}, false
	case unknown:
		p.What = fmt.Sprintf("there is no kind %s in %s: %s", kind.Kind, kind.APIVersion, effect)
		p.Do = "correct the kind, set onMissing: \"Null\", or have its CustomResourceDefinition created"
	case absent && !e.exact:
		return rule.Problem{}, false
	case absent:
		p.What = fmt.Sprintf("there is no %s: %s", e.Ref, effect)
		p.Do = "create the object, while the policy is suspended if that is for it, too, or set onMissing: \"Null\""
	case misplaced:
		p.What = fmt.Sprintf("objects of the kind %s are in no namespace: %s", e.Ref.Kind, effect)
		p.Do = "remove the namespace"
	default:
		p.What = fmt.Sprintf("data.%s cannot be read: %v: %s", e.name, err, effect)
		p.Do = "see that it can be read: usher check --reads prints the rights"
	}
	return p, true
}

// addressOf is where a token comes from, empty if there is no such place.
func addressOf(auth *v1alpha1.HttpRequestAuth) string {
	if auth == nil || auth.StaticToken != "" {
		return ""
	}
	return auth.AuthURL
}
