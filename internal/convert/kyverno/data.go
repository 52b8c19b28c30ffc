package kyverno

import (
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
	"github.com/usher-dev/usher/internal/kind"
)

type variable = admissionv1.Variable

// A source is an entry of a context that reads objects.
type source struct {
	*judge

	e *syntax.Entry
	// inline says that what is read of the data is no variable of the policy, since it depends on an element.
	inline bool
}

// add adds data to the piece, and returns its value.
func (j source) add(d v1alpha1.DataSource, of expression.Type) expression.Value {
	d.Name = camel(d.Name)
	return expression.Named(adding(&j.p.data, d), of).Reading()
}

// adding adds data under a name that no other data has, and returns the expression that reads it.
func adding(all *[]v1alpha1.DataSource, d v1alpha1.DataSource) string {
	name := d.Name
	for n := 2; ; n++ {
		at := slices.IndexFunc(*all, func(o v1alpha1.DataSource) bool { return o.Name == d.Name })
		if at < 0 {
			*all = append(*all, d)
		}
		if at < 0 || reflect.DeepEqual((*all)[at], d) {
			return "data." + d.Name
		}
		d.Name = fmt.Sprintf("%s%d", name, n)
	}
}

// typeOf returns the type of the objects of a kind.
func (j source) typeOf(of schema.GroupVersionKind) expression.Type {
	if s := j.Kinds.Schema(of); s != nil {
		return expression.ObjectOf(j.Kinds, s)
	}
	return expression.ObjectOf(j.Kinds)
}

// computed returns a text, or an expression that makes it of the request.
func (j source) computed(text, field string) (constant, expr string, err error) {
	v, err := j.scope.String(text)
	if err != nil {
		return "", "", placed(field, err)
	}
	if c, ok := v.Constant.(string); ok && v.IsConstant {
		return c, "", nil
	}
	expr = j.inlined(v.Text)
	if ofData.MatchString(expr) || len(expr) > longestName {
		return "", "", refuse(field, "a name of data is made of other data", "write its value as nameExpression of data")
	}
	return "", expr, nil
}

// longestName is how long an expression for a name of data may be.
const longestName = 2000

var (
	ofData    = regexp.MustCompile(`\b(?:data|variables)\.`)
	variableA = regexp.MustCompile(`\bvariables\.(\w+)`)
)

// inlined returns an expression with the expressions of variables in their places, which names of data do not know.
func (j source) inlined(text string) string {
	for range j.p.variables {
		text = variableA.ReplaceAllStringFunc(text, func(found string) string {
			at := slices.IndexFunc(j.p.variables, func(v variable) bool { return "variables."+v.Name == found })
			if at < 0 || len(text) > longestName {
				return found
			}
			return "(" + j.p.variables[at].Expression + ")"
		})
	}
	return text
}

func (j source) configMap() (expression.Value, error) {
	e := j.e
	o := &v1alpha1.DataObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: e.ConfigMap.Namespace}
	var err error
	if o.Name, o.NameExpression, err = j.computed(e.ConfigMap.Name, e.Field+".configMap.name"); err != nil {
		return expression.Value{}, err
	}
	if err := j.place(e.ConfigMap.Namespace, e.Field+".configMap.namespace", &o.Namespace, &o.NamespaceExpression); err != nil {
		return expression.Value{}, err
	}
	if o.Namespace == "" && o.NamespaceExpression == "" && e.ConfigMap.Namespace == "" {
		o.Namespace = "default"
		if j.conversion.p.Kind == "Policy" {
			o.Namespace = ""
		}
	}
	return j.add(v1alpha1.DataSource{Name: e.Name, Object: o}, j.typeOf(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})), nil
}

// place sets a namespace: none is that of the request.
func (j source) place(text, field string, namespace, expr *string) error {
	name, computed, err := j.computed(text, field)
	*namespace = name
	switch {
	case err != nil:
		return err
	case computed == "request.namespace" || computed == "object.metadata.namespace":
		return nil
	}
	*expr = computed
	return nil
}

// apiCall makes data of a request to the API server.
func (j source) apiCall() (expression.Value, error) {
	e := j.e
	field := e.Field + ".apiCall"
	call := e.APICall
	switch {
	case call.Service != nil || call.URLPath == "":
		return expression.Value{}, refuse(field+".service", "it asks a service", "ask it with data.http")
	case call.Method != "" && call.Method != "GET" || len(call.Data) > 0:
		return expression.Value{}, refuse(field+".method", "it is no GET", "ask authorizer in an expression if it is a review")
	}
	v, err := j.request(field + ".urlPath")
	if err != nil {
		return v, err
	}
	if call.JMESPath != "" {
		path, err := j.scope.String(syntax.Flat(call.JMESPath))
		text, ok := path.Constant.(string)
		if err != nil || !ok {
			return v, refuse(field+".jmesPath", "it has a variable", "write the path as an expression")
		}
		if v, err = j.scope.On(v, text); err != nil {
			return v, placed(field+".jmesPath", err)
		}
	}
	if call.Default != nil {
		of, err := j.scope.JSON(call.Default.Of)
		if err != nil {
			return v, placed(field+".default", err)
		}
		if v, err = v.Default(of); err != nil {
			return v, placed(field+".default", err)
		}
	}
	if v.IsShort() || j.inline {
		return v, nil
	}
	if v.CanBeNull() {
		return j.named(e.Name, v.Nullable()).Missable(), nil
	}
	return j.named(e.Name, v), nil
}

// A path is that of a request to the API server.
type path struct {
	group, version, namespace, resource, name string
	inNamespace, named                        bool
}

// pathOf parses a path.
func pathOf(text string) (p path, ok bool) {
	parts := split(text)
	switch {
	case len(parts) > 4 && parts[0] == "" && parts[1] == "apis":
		p.group, p.version, parts = parts[2], parts[3], parts[4:]
	case len(parts) > 3 && parts[0] == "" && parts[1] == "api":
		p.version, parts = parts[2], parts[3:]
	default:
		return p, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		p.namespace, p.inNamespace, parts = parts[1], true, parts[2:]
	}
	if p.resource = parts[0]; len(parts) == 2 {
		p.name, p.named = parts[1], true
	}
	return p, len(parts) < 3
}

// request adds the data that a path names: a list, or one object.
func (j source) request(field string) (expression.Value, error) {
	none := expression.Value{}
	text, query, _ := strings.Cut(strings.TrimSpace(j.e.APICall.URLPath), "?")
	p, ok := pathOf(text)
	if !ok {
		return none, refuse(field, "it is no path of objects", "write the value in its place")
	}
	resource := j.resource(p.group, p.version, p.resource)
	if resource == nil {
		return listOfChoice(j, &p, query, field)
	}
	apiVersion := schema.GroupVersion{Group: p.group, Version: p.version}.String()
	if p.named && j.inline && strings.Contains(p.name, "element") {
		return j.elementObject(&p, &v1alpha1.DataList{APIVersion: apiVersion, Kind: resource.Kind}, resource, field)
	}
	if p.named {
		return j.object(&p, &v1alpha1.DataObject{APIVersion: apiVersion, Kind: resource.Kind}, resource, field)
	}
	l := &v1alpha1.DataList{APIVersion: apiVersion, Kind: resource.Kind}
	switch {
	case p.inNamespace:
		if err := j.place(p.namespace, field, &l.Namespace, &l.NamespaceExpression); err != nil {
			return none, err
		}
	case resource.Namespaced:
		l.Namespace = "*"
	}
	named, err := j.selected(l, query, field)
	if err != nil {
		return none, err
	}
	all := j.add(v1alpha1.DataSource{Name: j.e.Name, List: l}, expression.ListOf(j.typeOf(resource.Of())))
	if named != "" {
		all = expression.Named(all.Postfix()+".filter(i, i.metadata.name == "+named+")", all.Type).Reading()
	}
	return all.Items(), nil
}

// object adds the data of one object.
func (j source) object(p *path, o *v1alpha1.DataObject, resource *kind.Resource, field string) (expression.Value, error) {
	var err error
	if o.Name, o.NameExpression, err = j.computed(p.name, field); err != nil {
		return expression.Value{}, err
	}
	if p.inNamespace {
		if err := j.place(p.namespace, field, &o.Namespace, &o.NamespaceExpression); err != nil {
			return expression.Value{}, err
		}
	}
	d := v1alpha1.DataSource{Name: j.e.Name, Object: o}
	if j.e.APICall.Default == nil {
		return j.add(d, j.typeOf(resource.Of())), nil
	}
	d.OnMissing = v1alpha1.OnMissingNull
	return j.add(d, j.typeOf(resource.Of())).Missable(), nil
}

// elementObject adds the data of all objects, of which one is taken whose name depends on an element. If there is none, that
// is an error.
func (j source) elementObject(p *path, l *v1alpha1.DataList, resource *kind.Resource, field string) (expression.Value, error) {
	if p.inNamespace {
		if err := j.place(p.namespace, field, &l.Namespace, &l.NamespaceExpression); err != nil {
			return expression.Value{}, err
		}
	}
	name, err := j.scope.String(p.name)
	if err == nil && name.Type.Kind == expression.Any {
		name = expression.Named("string("+name.Text+")", expression.Type{Kind: expression.Text})
	}
	if err != nil || name.Type.Kind != expression.Text || name.CanBeNull() || j.e.APICall.Default != nil || resource.Namespaced && !p.inNamespace {
		return expression.Value{}, refuse(field, "the name of the object may be no text", "select objects in an expression")
	}
	of := j.typeOf(resource.Of())
	all := j.add(v1alpha1.DataSource{Name: j.e.Name, List: l}, expression.ListOf(of))
	taken := j.scope.ElementName("objects")
	return expression.Named(all.Postfix()+".filter("+taken+", "+taken+".metadata.name == "+name.Text+")[0]", of).Reading(), nil
}

// selected sets the selector of a list. A field selector for a name is returned as an expression for that.
func (j source) selected(l *v1alpha1.DataList, query, field string) (name string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil || len(values) > 1 || len(values) == 1 && values.Get("labelSelector")+values.Get("fieldSelector") == "" {
		return "", refuse(field, "it selects by "+query, "select objects in an expression")
	}
	if text, ok := strings.CutPrefix(values.Get("fieldSelector"), "metadata.name="); ok {
		v, err := j.scope.String(strings.TrimPrefix(text, "="))
		if err != nil || v.Type.Kind != expression.Text || v.CanBeNull() || strings.Contains(text, ",") {
			return "", refuse(field, "it selects by "+query, "select objects in an expression")
		}
		return v.Postfix(), nil
	}
	if text := values.Get("labelSelector"); text != "" {
		s, err := metav1.ParseToLabelSelector(text)
		if err != nil || strings.Contains(text, "{{") {
			return "", refuse(field, "its selector is no constant", "select objects in an expression")
		}
		l.LabelSelector = s
		return "", nil
	}
	return "", selectsAll(query, field)
}

// selectsAll returns an error for a query that selects by something else than labels and the name.
func selectsAll(query, field string) error {
	if query == "" {
		return nil
	}
	return refuse(field, "it selects by "+query, "select objects in an expression")
}

// split splits a path, but not within variables.
func split(path string) []string {
	var parts []string
	depth, begin := 0, 0
	for i := range path {
		switch path[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth == 0 {
				parts = append(parts, path[begin:i])
				begin = i + 1
			}
		}
	}
	return append(parts, path[begin:])
}

// resource returns the kind of a resource.
func (j source) resource(group, version, name string) *kind.Resource {
	for r := range j.Kinds.Resources() {
		if r.Group == group && r.Version == version && r.Name == strings.ToLower(name) {
			return r
		}
	}
	return nil
}
