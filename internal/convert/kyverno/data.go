package kyverno

import (
	"net/url"
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

// source adds data to the piece, and returns its value.
func (j *judge) source(d v1alpha1.DataSource, of expression.Type) expression.Value {
	d.Name = camel(d.Name)
	if !slices.ContainsFunc(j.p.data, func(o v1alpha1.DataSource) bool { return o.Name == d.Name }) {
		j.p.data = append(j.p.data, d)
	}
	return expression.Named("data."+d.Name, of).Reading()
}

// typeOf returns the type of the objects of a kind.
func (j *judge) typeOf(of schema.GroupVersionKind) expression.Type {
	if s := j.Kinds.Schema(of); s != nil {
		return expression.ObjectOf(j.Kinds, s)
	}
	return expression.ObjectOf(j.Kinds)
}

// computed returns a text, or an expression that makes it of the request.
func (j *judge) computed(text, field string) (constant, expr string, err error) {
	v, err := j.scope.String(text)
	if err != nil {
		return "", "", placed(field, err)
	}
	if c, ok := v.Constant.(string); ok && v.IsConstant {
		return c, "", nil
	}
	if strings.Contains(v.Text, "variables.") || strings.Contains(v.Text, "data.") {
		return "", "", refuse(field, "a name of data is made of a variable", "write its value as nameExpression of data")
	}
	return "", v.Text, nil
}

func (j *judge) configMap(e *syntax.Entry) (expression.Value, error) {
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
		if j.p2namespaced() {
			o.Namespace = ""
		}
	}
	return j.source(v1alpha1.DataSource{Name: e.Name, Object: o}, j.typeOf(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})), nil
}

func (j *judge) p2namespaced() bool { return j.conversion.p.Kind == "Policy" }

// place sets a namespace: none is that of the request.
func (j *judge) place(text, field string, namespace, expr *string) error {
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
func (j *judge) apiCall(e *syntax.Entry) (expression.Value, error) {
	field := e.Field + ".apiCall"
	call := e.APICall
	switch {
	case call.Service != nil || call.URLPath == "":
		return expression.Value{}, refuse(field+".service", "it asks a service", "ask it with data.http")
	case call.Method != "" && call.Method != "GET" || len(call.Data) > 0:
		return expression.Value{}, refuse(field+".method", "it is no GET", "ask authorizer in an expression if it is a review")
	}
	v, err := j.request(e, field+".urlPath")
	if err != nil {
		return v, err
	}
	if call.JMESPath != "" {
		path, err := j.scope.String(call.JMESPath)
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
	if v.IsShort() {
		return v, nil
	}
	return j.named(e.Name, v), nil
}

// request adds the data that a path names: a list, or one object.
func (j *judge) request(e *syntax.Entry, field string) (expression.Value, error) {
	none := expression.Value{}
	path, query, _ := strings.Cut(strings.TrimSpace(e.APICall.URLPath), "?")
	parts := split(path)
	group, version := "", ""
	switch {
	case len(parts) > 3 && parts[0] == "" && parts[1] == "apis":
		group, version, parts = parts[2], parts[3], parts[4:]
	case len(parts) > 2 && parts[0] == "" && parts[1] == "api":
		version, parts = parts[2], parts[3:]
	default:
		return none, refuse(field, "it is no path of objects", "write the value in its place")
	}
	namespace, isIn := "", false
	if len(parts) > 2 && parts[0] == "namespaces" {
		namespace, isIn, parts = parts[1], true, parts[2:]
	}
	if len(parts) == 0 || len(parts) > 2 {
		return none, refuse(field, "it is no path of objects", "write the value in its place")
	}
	resource := j.resource(group, version, parts[0])
	if resource == nil {
		return none, refuse(field, "the kind of "+parts[0]+" is not known", "name the file with its CustomResourceDefinition, too")
	}
	apiVersion := schema.GroupVersion{Group: group, Version: version}.String()
	d := v1alpha1.DataSource{Name: e.Name}
	if e.APICall.Default != nil {
		d.OnMissing = v1alpha1.OnMissingNull
	}
	if len(parts) == 2 {
		o := &v1alpha1.DataObject{APIVersion: apiVersion, Kind: resource.Kind}
		var err error
		if o.Name, o.NameExpression, err = j.computed(parts[1], field); err != nil {
			return none, err
		}
		if isIn {
			if err := j.place(namespace, field, &o.Namespace, &o.NamespaceExpression); err != nil {
				return none, err
			}
		}
		d.Object = o
		v := j.source(d, j.typeOf(resource.Of()))
		if d.OnMissing != "" {
			v = v.Missable()
		}
		return v, nil
	}
	l := &v1alpha1.DataList{APIVersion: apiVersion, Kind: resource.Kind}
	switch {
	case isIn:
		if err := j.place(namespace, field, &l.Namespace, &l.NamespaceExpression); err != nil {
			return none, err
		}
	case resource.Namespaced:
		l.Namespace = "*"
	}
	if err := selected(l, query, field); err != nil {
		return none, err
	}
	d.List, d.OnMissing = l, ""
	return j.source(d, expression.ListOf(j.typeOf(resource.Of()))).Items(), nil
}

// selected sets the selector of a list.
func selected(l *v1alpha1.DataList, query, field string) error {
	values, err := url.ParseQuery(query)
	if err != nil || len(values) > 0 && (len(values) > 1 || values.Get("labelSelector") == "") {
		return refuse(field, "it selects by "+query, "select objects in an expression")
	}
	if text := values.Get("labelSelector"); text != "" {
		s, err := metav1.ParseToLabelSelector(text)
		if err != nil || strings.Contains(text, "{{") {
			return refuse(field, "its selector is no constant", "select objects in an expression")
		}
		l.LabelSelector = s
	}
	return nil
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
func (j *judge) resource(group, version, name string) *kind.Resource {
	for r := range j.Kinds.Resources() {
		if r.Group == group && r.Version == version && r.Name == strings.ToLower(name) {
			return r
		}
	}
	return nil
}
