package celkinds

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/internal/kind"
)

// resource replaces a call that reads the cluster by data.
func (r *rewriter) resource(e ast.Expr, function string, args []ast.Expr) {
	const instead = "write it with data of a ClusterObjectPolicy"
	var of v1alpha1.DataSource
	var err error
	switch function {
	case "get":
		of, err = r.get(args)
	case "list":
		of, err = r.list(args)
	default:
		err = fmt.Errorf("it creates objects, with resource.%s", function)
	}
	if err != nil {
		r.leave(err.Error(), instead)
		return
	}
	name := r.add(of)
	if function == "list" {
		r.text(e, fmt.Sprintf("{'items': %s.%s}", dataName, name))
		return
	}
	r.text(e, dataName+"."+name)
}

// served returns the kind of a resource.
func (r *rewriter) served(args []ast.Expr) (*kind.Resource, error) {
	if len(args) < 3 {
		return nil, fmt.Errorf("a call of resource has %d arguments", len(args))
	}
	version, isText := args[0].AsLiteral().(types.String)
	name, isName := args[1].AsLiteral().(types.String)
	if !isText || !isName {
		return nil, fmt.Errorf("the kind of the objects that it reads is computed")
	}
	for found := range r.Kinds.Resources() {
		if found.Of().GroupVersion().String() == string(version) && found.Name == string(name) {
			return found, nil
		}
	}
	return nil, fmt.Errorf("the kind of the resource %s in %s is not known: name the file with its CustomResourceDefinition", name, version)
}

func (r *rewriter) get(args []ast.Expr) (v1alpha1.DataSource, error) {
	var s v1alpha1.DataSource
	of, err := r.served(args)
	if err != nil {
		return s, err
	}
	if namespaceOf(r.i.Of) != "" && len(args) == 3 {
		// Those of a namespace read their own.
		args = []ast.Expr{args[0], args[1], r.factory.NewLiteral(0, types.String(namespaceOf(r.i.Of))), args[2]}
	}
	if len(args) != 4 {
		return s, fmt.Errorf("a call of resource has %d arguments", len(args))
	}
	o := &v1alpha1.DataObject{Kind: of.Kind}
	o.APIVersion, _ = of.Of().ToAPIVersionAndKind()
	// What is not there is null.
	s.Object, s.OnMissing = o, v1alpha1.OnMissingNull
	namespace, computed, err := r.argument(args[2])
	switch {
	case err != nil:
		return s, err
	case !of.Namespaced:
	case computed:
		o.NamespaceExpression = r.unlessOwn(namespace)
	case namespace == "":
		return s, fmt.Errorf("it reads an object of the kind %s in no namespace", of.Kind)
	default:
		o.Namespace = r.unlessMine(namespace)
	}
	name, computed, err := r.argument(args[3])
	if computed {
		o.NameExpression = name
	} else {
		o.Name = name
	}
	return s, err
}

func (r *rewriter) list(args []ast.Expr) (v1alpha1.DataSource, error) {
	var s v1alpha1.DataSource
	of, err := r.served(args)
	if err != nil {
		return s, err
	}
	l := &v1alpha1.DataList{Kind: of.Kind}
	l.APIVersion, _ = of.Of().ToAPIVersionAndKind()
	s.List = l
	if len(args) == 4 {
		if l.LabelSelector, err = selector(args[3]); err != nil {
			return s, err
		}
	}
	namespace, computed, err := r.argument(args[2])
	switch {
	case err != nil || !of.Namespaced:
	case computed:
		l.NamespaceExpression = r.unlessOwn(namespace)
	case namespace == "":
		l.Namespace = "*"
	default:
		l.Namespace = r.unlessMine(namespace)
	}
	r.note(r.at, "a list of more than 1,000 objects is an error, and it is as old as the watch", "set live: true if it has to be current")
	return s, err
}

// unlessMine returns a namespace, or none for that of a policy of a namespace.
func (r *rewriter) unlessMine(namespace string) string {
	if namespace == namespaceOf(r.i.Of) {
		return ""
	}
	return namespace
}

// unlessOwn returns an expression for a namespace, or none for that of the request.
func (r *rewriter) unlessOwn(expression string) string {
	if expression == "request.namespace" || r.own && expression == "object.metadata.namespace" {
		return ""
	}
	return expression
}

// selector returns a selector of labels for a map of texts.
func selector(e ast.Expr) (*metav1.LabelSelector, error) {
	labels := map[string]string{}
	if e.Kind() != ast.MapKind {
		return nil, fmt.Errorf("the labels of the objects that it reads are computed")
	}
	for _, entry := range e.AsMap().Entries() {
		key, isText := entry.AsMapEntry().Key().AsLiteral().(types.String)
		value, isValue := entry.AsMapEntry().Value().AsLiteral().(types.String)
		if !isText || !isValue {
			return nil, fmt.Errorf("the labels of the objects that it reads are computed")
		}
		labels[string(key)] = string(value)
	}
	return &metav1.LabelSelector{MatchLabels: labels}, nil
}

// argument returns a text, or an expression that makes one: it may read what is known before data is read.
func (r *rewriter) argument(e ast.Expr) (text string, computed bool, err error) {
	if literal, ok := e.AsLiteral().(types.String); ok && e.Kind() == ast.LiteralKind {
		return string(literal), false, nil
	}
	inlined, err := r.inline(e, 0)
	if err != nil {
		return "", false, err
	}
	if literal, ok := inlined.AsLiteral().(types.String); ok && inlined.Kind() == ast.LiteralKind {
		return string(literal), false, nil
	}
	text, err = unparse(inlined, ast.NewSourceInfo(nil))
	return text, true, err
}

// mostInlined limits how deep variables are in variables.
const mostInlined = 8

// inline returns a copy of an expression with the variables that it reads.
func (r *rewriter) inline(e ast.Expr, depth int) (ast.Expr, error) {
	copied := r.factory.CopyExpr(e)
	var wrong error
	size := 0
	var visit func(ast.Expr, []string)
	visit = func(e ast.Expr, bound []string) {
		if size++; size > maxExpression/10 || depth > mostInlined {
			wrong = fmt.Errorf("the name of an object that it reads is computed from too much")
		}
		if wrong != nil {
			return
		}
		if e.Kind() == ast.SelectKind && isIdent(e.AsSelect().Operand(), variablesName, bound) {
			name := e.AsSelect().FieldName()
			for original, replacement := range r.empty {
				if name == replacement {
					e.SetKindCase(r.factory.NewIdent(0, original))
					return
				}
			}
			parsed, err := parse(r.texts[name])
			if err != nil {
				wrong = err
				return
			}
			inner, err := r.inline(parsed.Expr(), depth+1)
			if err != nil {
				wrong = err
				return
			}
			e.SetKindCase(inner)
			return
		}
		if e.Kind() == ast.IdentKind && !slices.Contains(bound, e.AsIdent()) && !slices.Contains([]string{objectName, oldObjectName, requestName, namespaceName}, e.AsIdent()) {
			wrong = fmt.Errorf("the name of an object that it reads is computed from %s", e.AsIdent())
			return
		}
		children(e, bound, visit)
	}
	visit(copied, nil)
	return copied, wrong
}

// children visits the parts of an expression, and returns the names that are bound in the last of them.
func children(e ast.Expr, bound []string, visit func(ast.Expr, []string)) []string {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			visit(call.Target(), bound)
		}
		for i, arg := range call.Args() {
			if call.IsMemberFunction() && slices.Contains(binders, call.FunctionName()) && i < len(call.Args())-1 && arg.Kind() == ast.IdentKind {
				bound = append(slices.Clip(bound), arg.AsIdent())
				continue
			}
			visit(arg, bound)
		}
	case ast.SelectKind:
		visit(e.AsSelect().Operand(), bound)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			visit(item, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			visit(entry.AsMapEntry().Key(), bound)
			visit(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			visit(field.AsStructField().Value(), bound)
		}
	}
	return bound
}

// add adds a source of data, once, and returns its name.
func (r *rewriter) add(s v1alpha1.DataSource) string {
	for _, known := range r.data {
		other := known
		other.Name = ""
		if reflect.DeepEqual(other, s) {
			return known.Name
		}
	}
	of, many := "", ""
	if s.Object != nil {
		of = s.Object.Kind
	} else {
		of, many = s.List.Kind, "s"
	}
	name := r.naming
	if name == "" || r.isData(name) {
		name = strings.ToLower(of[:1]) + of[1:] + many
	}
	unique := name
	for n := 2; r.isData(unique); n++ {
		unique = fmt.Sprint(name, n)
	}
	s.Name = unique
	r.data = append(r.data, s)
	return unique
}

// isData reports whether there is a source of data of a name.
func (r *rewriter) isData(name string) bool {
	return slices.ContainsFunc(r.data, func(s v1alpha1.DataSource) bool { return s.Name == name })
}

// namespaced reports whether all resources of rules are in namespaces.
func (c *conversion) namespaced(rules []admissionv1.NamedRuleWithOperations) bool {
	for _, r := range rules {
		for _, name := range r.Resources {
			found := false
			for resource := range c.Kinds.Resources() {
				if resource.Name == name && slices.Contains(r.APIGroups, resource.Under()) {
					if found = resource.Namespaced; !found {
						return false
					}
				}
			}
			if !found {
				return false
			}
		}
	}
	return len(rules) > 0
}
