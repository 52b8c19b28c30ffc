package admission_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	upstream "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// A situation is one request, as upstream and as Usher see it.
type situation struct {
	name       string
	attributes *upstream.VersionedAttributes
	params     runtime.Object
	namespace  *corev1.Namespace

	request              *usher.Request
	object, old, paramed map[string]any
	namespaceTree        map[string]any
	// authorize answers questions of access; if it is nil, answers depend on all that is asked.
	authorize func(q *question) (authorizer.Decision, string, error)
}

// A request is what situations are made of. Object and old may be nil.
type request struct {
	name                string
	operation           usher.Operation
	kind                schema.GroupVersionKind
	resource            schema.GroupVersionResource
	subresource         string
	object, old, params runtime.Object
	namespace           *corev1.Namespace
	user                usher.User
	dryRun              bool
}

func (r *request) situation(t testing.TB) *situation {
	t.Helper()
	s := &situation{name: r.name, params: r.params, namespace: r.namespace, object: treeOf(t, r.object), old: treeOf(t, r.old), paramed: treeOf(t, r.params)}
	namespace, name := "", ""
	if metadata, ok := s.object["metadata"].(map[string]any); ok {
		name, _ = metadata["name"].(string)
	}
	if r.namespace != nil {
		namespace = r.namespace.Name
		s.namespaceTree = treeOf(t, r.namespace)
	}
	options := &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "CreateOptions"}, FieldManager: "kubectl"}
	who := &user.DefaultInfo{Name: r.user.Name, UID: r.user.UID, Groups: r.user.Groups, Extra: r.user.Extra}
	s.attributes = &upstream.VersionedAttributes{
		Attributes: upstream.NewAttributesRecord(r.object, r.old, r.kind, namespace, name, r.resource, r.subresource,
			upstream.Operation(r.operation), options, r.dryRun, who),
		VersionedKind: r.kind, VersionedObject: r.object, VersionedOldObject: r.old,
	}
	s.request = &usher.Request{
		Phase: usher.Validate, Operation: r.operation, Kind: r.kind, Resource: r.resource, Subresource: r.subresource,
		Name: name, Namespace: namespace, User: r.user, DryRun: r.dryRun,
		Object: usher.TreeObject(s.object), OldObject: usher.TreeObject(s.old), Options: usher.TreeObject(treeOf(t, options)),
	}
	return s
}

// treeOf is an object as a webhook gets it.
func treeOf(t testing.TB, object any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := usher.RawObject(raw).Tree()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// An oracle is upstream's compiler and evaluator, for the expressions of one policy.
type oracle struct {
	compiler  *plugincel.CompositedCompiler
	variables plugincel.OptionalVariableDeclarations
}

var allVariables = plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}

func newOracle(t testing.TB, variables []admission.Named) *oracle {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		compiler.CompileAndStoreVariable(named(v), allVariables, environment.StoredExpressions)
	}
	return &oracle{compiler, allVariables}
}

// compile returns nil if upstream's compiler panics.
func (o *oracle) compile(text string) (e plugincel.ConditionEvaluator) {
	defer func() {
		if recover() != nil {
			e = nil
		}
	}()
	return o.compiler.CompileCondition([]plugincel.ExpressionAccessor{anything(text)}, o.variables, environment.StoredExpressions)
}

// evaluate returns what upstream says, and at which cost.
func (s *situation) upstream(e plugincel.ConditionEvaluator, budget int64) answer {
	request := plugincel.CreateAdmissionRequest(s.attributes.Attributes, metav1.GroupVersionResource(s.attributes.GetResource()), metav1.GroupVersionKind(s.attributes.VersionedKind))
	results, left, err := e.ForInput(context.Background(), s.attributes, request,
		plugincel.OptionalVariableBindings{VersionedParams: s.params, Authorizer: authorizer.AuthorizerFunc(s.access)}, plugincel.CreateNamespaceObject(s.namespace), budget)
	if err != nil {
		return answer{Stopped: err.Error()}
	}
	a := answer{Cost: budget - left}
	if results[0].Error != nil {
		a.Err = results[0].Error.Error()
	} else {
		a.Value = render(results[0].EvalResult)
	}
	return a
}

// usher returns what Usher says when it counts the cost.
func (s *situation) usher(t testing.TB, p *admission.Corpus, i int, budget int64) answer {
	t.Helper()
	in := s.input()
	return s.ask(t, &in, func() (admission.Outcome, int64, error) {
		value, left, err := p.ValueOf(t.Context(), &in, i, budget)
		return value, budget - left, err
	})
}

func (s *situation) input() admission.Input {
	return admission.Input{Request: s.request, Object: s.object, OldObject: s.old, Params: s.paramed, Facts: &fact.Known{}}
}

// ask evaluates until no fact is missing.
func (s *situation) ask(t testing.TB, in *admission.Input, evaluate func() (admission.Outcome, int64, error)) answer {
	t.Helper()
	for range 1000 {
		value, cost, err := evaluate()
		if missing, ok := errors.AsType[*fact.Missing](err); ok {
			s.resolve(in.Facts, missing.Ref)
			continue
		}
		if err != nil {
			return answer{Stopped: err.Error()}
		}
		a := answer{Cost: cost}
		if value.Err != nil {
			a.Err = value.Err.Error()
		} else {
			a.Value = render(value.Value)
		}
		return a
	}
	t.Fatal("a fact is missing however often it is given")
	return answer{}
}

func (s *situation) resolve(known *fact.Known, ref fact.Ref) {
	asked, ok := ref.(fact.Question)
	if !ok {
		known.Set(ref, s.namespaceTree, nil)
		return
	}
	r := asked.Request
	q := question{
		User: r.User.Name, UID: r.User.UID, Groups: r.User.Groups, Extra: r.User.Extra, Verb: r.Access.Verb, Path: r.Access.Path, NonResource: r.Access.NonResource,
		Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Labels: r.Access.Labels, Fields: r.Access.Fields,
	}
	decision, reason, err := s.decide(&q)
	value := map[string]any{"decision": map[authorizer.Decision]string{authorizer.DecisionAllow: "allow", authorizer.DecisionDeny: "deny"}[decision], "reason": reason}
	if err != nil {
		value["error"] = err.Error()
	}
	known.Set(ref, value, nil)
}

// A question is what an authorizer is asked, in a form that both have.
type question struct {
	User, UID   string
	Groups      []string
	Extra       map[string][]string
	Verb, Path  string
	NonResource bool

	Resource                     schema.GroupVersionResource
	Subresource, Namespace, Name string

	Labels, Fields []usher.Requirement
}

// answer depends on all that is asked.
func (q *question) answer() (authorizer.Decision, string, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	h := fnv.New32a()
	_, _ = h.Write(text)
	reason := "because of " + string(text)
	switch n := h.Sum32(); n % 5 {
	case 0:
		return authorizer.DecisionDeny, reason, nil
	case 1:
		return authorizer.DecisionNoOpinion, reason, errors.New("authorizer is out of order")
	case 2:
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, reason, nil
}

func (s *situation) decide(q *question) (authorizer.Decision, string, error) {
	if s.authorize != nil {
		return s.authorize(q)
	}
	return q.answer()
}

// access is upstream's authorizer.
func (s *situation) access(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	q := question{Verb: a.GetVerb(), NonResource: !a.IsResourceRequest()}
	if who := a.GetUser(); who != nil {
		q.User, q.UID, q.Groups, q.Extra = who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra()
	}
	if q.NonResource {
		q.Path = a.GetPath()
		return s.decide(&q)
	}
	q.Resource = schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}
	q.Subresource, q.Namespace, q.Name = a.GetSubresource(), a.GetNamespace(), a.GetName()
	operators := map[selection.Operator]string{
		selection.Equals: "In", selection.DoubleEquals: "In", selection.In: "In", selection.NotEquals: "NotIn", selection.NotIn: "NotIn",
		selection.Exists: "Exists", selection.DoesNotExist: "DoesNotExist",
	}
	fields, _ := a.GetFieldSelector()
	for _, f := range fields {
		q.Fields = append(q.Fields, usher.Requirement{Key: f.Field, Operator: operators[f.Operator], Values: []string{f.Value}})
	}
	labels, _ := a.GetLabelSelector()
	for i := range labels {
		operator, known := operators[labels[i].Operator()]
		if !known {
			operator = string(labels[i].Operator())
		}
		q.Labels = append(q.Labels, usher.Requirement{Key: labels[i].Key(), Operator: operator, Values: labels[i].ValuesUnsorted()})
	}
	return s.decide(&q)
}

// An answer is what there is to see of an evaluation.
type answer struct {
	Value, Err string
	// Stopped is why nothing was evaluated further.
	Stopped string
	Cost    int64
}

func (a answer) String() string {
	switch {
	case a.Stopped != "":
		return "stopped: " + a.Stopped
	case a.Err != "":
		return "error: " + a.Err
	}
	return a.Value
}

// anything is an expression whose value may be of any type.
type anything string

func (a anything) GetExpression() string    { return string(a) }
func (a anything) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }

// named is a variable.
type named admission.Named

func (n named) GetName() string          { return n.Name }
func (n named) GetExpression() string    { return n.Expression }
func (n named) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType, cel.DynType} }

// render is a value with its type. Maps have no order.
func render(v ref.Val) string {
	switch x := v.(type) {
	case nil:
		return "nothing"
	case *types.Err:
		return "error: " + x.Error()
	case *types.Optional:
		if !x.HasValue() {
			return "optional.none"
		}
		return "optional(" + render(x.GetValue()) + ")"
	case types.String:
		return strconv.Quote(string(x))
	case *types.Type:
		return "type " + x.TypeName()
	}
	typeName := v.Type().TypeName()
	switch typeName {
	case "kubernetes.variables":
		return typeName
	case "list":
		list, ok := v.(traits.Lister)
		if !ok {
			return fmt.Sprintf("a list that is %T", v)
		}
		var parts []string
		for it := list.Iterator(); it.HasNext() == types.True; {
			parts = append(parts, render(it.Next()))
		}
		if size := list.Size(); size != types.Int(len(parts)) {
			return fmt.Sprintf("a list of %d, but size %v", len(parts), size)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case "map":
		m, ok := v.(traits.Mapper)
		if !ok {
			return fmt.Sprintf("a map that is %T", v)
		}
		parts := map[string]string{}
		for it := m.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			parts[render(key)] = render(key) + ": " + render(m.Get(key))
		}
		if size := m.Size(); size != types.Int(len(parts)) {
			return fmt.Sprintf("a map of %d, but size %v", len(parts), size)
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(parts)) {
			all = append(all, parts[key])
		}
		return "{" + strings.Join(all, ", ") + "}"
	case "bool", "int", "uint", "double", "null_type", "bytes":
		return fmt.Sprintf("%s %v", typeName, v.Value())
	}
	if strings.HasPrefix(typeName, "kubernetes.authorization") {
		return typeName
	}
	return fmt.Sprintf("%s %v", typeName, v.Value())
}
