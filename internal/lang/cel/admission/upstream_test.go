package admission_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
)

// TestTablesOfUpstream evaluates the rows of the tables of upstream's own tests.
func TestTablesOfUpstream(t *testing.T) {
	t.Parallel()
	dir := moduleDir(t, "k8s.io/apiserver")
	const library, plugin = "pkg/cel/library/", "pkg/admission/plugin/"
	for _, test := range []struct {
		file, function string
		// run evaluates a row, or says why it cannot be.
		run func(t *testing.T, row record) string
		// ran is how many rows ran when this was written.
		ran int
	}{
		{library + "cidr_test.go", "TestCIDR", expressionRow(), 32},
		{library + "ip_test.go", "TestIP", expressionRow(), 38},
		{library + "quantity_test.go", "TestQuantity", expressionRow(), 33},
		{library + "semver_test.go", "TestSemver", expressionRow(), 33},
		{library + "format_test.go", "TestFormat", expressionRow(), 31},
		{library + "cost_test.go", "TestListsCost", expressionRow(), 2},
		{library + "cost_test.go", "TestIndexOfCost", expressionRow(), 1},
		{library + "cost_test.go", "TestURLsCost", expressionRow("url('https:://kubernetes.io/')"), 3},
		{library + "cost_test.go", "TestIPCost", expressionRow("ip('192.168.0.1')", "ip('2001:db8:3333:4444:5555:6666:7777:8888')"), 3},
		{library + "cost_test.go", "TestIPIsCanonicalCost", expressionRow(), 3},
		{library + "cost_test.go", "TestCIDRCost", expressionRow("cidr('192.168.0.0/16')", "cidr('2001:db8::/32')"), 3},
		{library + "cost_test.go", "TestStringLibrary", expressionRow(), 21},
		{library + "cost_test.go", "TestAuthzLibrary", expressionRow(), 9},
		{library + "cost_test.go", "TestQuantityCost", expressionRow(), 17},
		{library + "cost_test.go", "TestNameFormatCost", expressionRow(), 5},
		{library + "cost_test.go", "TestSetsCost", expressionRow(), 42},
		{library + "cost_test.go", "TestSemverCost", expressionRow(), 10},
		{library + "cost_test.go", "TestTwoVariableComprehensionCost", expressionRow(), 12},
		{plugin + "cel/condition_test.go", "TestCondition", conditionRow, 24},
		{plugin + "cel/condition_test.go", "TestRuntimeCELCostBudget", conditionRow, 23},
		{plugin + "cel/composition_test.go", "TestCompositedPolicies", compositionRow, 11},
		{plugin + "cel/compile_test.go", "TestCompileValidatingPolicyExpression", compileRow, 13},
		{plugin + "webhook/matchconditions/matcher_test.go", "TestMatch", matchRow, 12},
		{plugin + "policy/validating/validator_test.go", "TestValidate", validateRow, 26},
	} {
		t.Run(test.function, func(t *testing.T) {
			t.Parallel()
			all := tableOf(t, dir, test.file, test.function)
			skipped := map[string][]string{}
			var ran int
			for _, row := range all.rows {
				if why := test.run(t, row); why != "" {
					skipped[why] = append(skipped[why], row.text("name"))
					continue
				}
				ran++
			}
			t.Logf("%d of %d rows ran", ran, len(all.rows))
			for _, why := range slices.Sorted(maps.Keys(skipped)) {
				t.Logf("skipped: %s: %q", why, skipped[why])
			}
			if ran < test.ran {
				t.Errorf("%d rows ran, fewer than %d", ran, test.ran)
			}
		})
	}
}

// expressionRow runs rows of expressions alone, or of operations of receivers. What an expression
// costs is what upstream's plugin counts: tables of costs are about expressions that are not optimized.
func expressionRow(receivers ...string) func(t *testing.T, row record) string {
	return func(t *testing.T, row record) string {
		texts := expressionsOf(row, receivers)
		if len(texts) == 0 {
			return "no expression that can be read"
		}
		s := endpoints(t, "foo")
		s.authorize = func(*question) (authorizer.Decision, string, error) { return authorizer.DecisionAllow, "", nil }
		all := pairs(t, admission.Code{}, texts...)
		for i := range all {
			p := &all[i]
			a := p.compare(t, s, &tally{})
			if value := simple(row["expectValue"], row["expectResult"]); value != "" && a.String() != value {
				t.Errorf("%s is %v, not %v", p.text, a, value)
			}
			for _, pattern := range errorsOf(row) {
				if !regexp.MustCompile(pattern).MatchString(a.Err) && !strings.Contains(a.Err, pattern) {
					t.Errorf("%s is %v, without the error %s", p.text, a, pattern)
				}
			}
		}
		return ""
	}
}

// expressionsOf returns the expressions of a row.
func expressionsOf(row record, receivers []string) []string {
	var all []string
	for _, key := range []string{"expr", "op"} {
		if text := row.text(key); text != "" {
			all = append(all, text)
		}
	}
	for _, c := range row.list("costs") {
		comparable, ok := c.(record)
		if !ok {
			continue
		}
		for _, op := range row.list("opts") {
			text, _ := op.(string)
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, comparable.text("param"))
			}
			all = append(all, comparable.text("comparableLiteral")+text)
		}
	}
	for _, op := range row.list("ops") {
		for _, receiver := range receivers {
			if text, ok := op.(string); ok {
				all = append(all, receiver+text)
			}
		}
	}
	return all
}

// simple is the value that a row expects, if it is a simple one.
func simple(values ...any) string {
	for _, v := range values {
		c, ok := v.(called)
		switch {
		case v == name("types.OptionalNone"):
			return "optional.none"
		case !ok || len(c.args) != 1:
		case c.function == "types.Bool":
			return fmt.Sprintf("bool %v", c.args[0])
		case c.function == "types.Int":
			return fmt.Sprintf("int %v", c.args[0])
		case c.function == "types.String":
			if text, ok := c.args[0].(string); ok {
				return fmt.Sprintf("%q", text)
			}
		}
	}
	return ""
}

func errorsOf(row record) []string {
	var all []string
	for _, key := range []string{"expectedRuntimeErr", "expectRuntimeErr", "expectedCompileErr", "expectCompileErrs"} {
		if text := row.text(key); text != "" {
			all = append(all, text)
		}
		for _, text := range row.list(key) {
			if text, ok := text.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// endpoints is the request of upstream's tests.
func endpoints(t *testing.T, requestName string) *situation {
	t.Helper()
	object := &corev1.Endpoints{ //nolint:staticcheck // upstream's tests have them
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, ObjectMeta: metav1.ObjectMeta{Name: "endpoints1"},
		Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "127.0.0.0"}}}}, //nolint:staticcheck // as above
	}
	return situationOf(t, object, nil, requestName, usher.Create, "")
}

func situationOf(t *testing.T, object, old runtime.Object, requestName string, operation usher.Operation, subresource string) *situation {
	t.Helper()
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Endpoints"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	s := &situation{name: requestName, object: treeOf(t, object), old: treeOf(t, old)}
	s.attributes = &upstream.VersionedAttributes{
		Attributes:    upstream.NewAttributesRecord(object, old, kind, "default", requestName, resource, subresource, upstream.Operation(operation), &metav1.CreateOptions{}, false, nil),
		VersionedKind: kind, VersionedObject: object, VersionedOldObject: old,
	}
	s.request = &usher.Request{
		Phase: usher.Validate, Operation: operation, Kind: kind, Resource: resource, Subresource: subresource, Name: requestName, Namespace: "default",
		Object: usher.TreeObject(s.object), OldObject: usher.TreeObject(s.old),
	}
	return s
}

// situationFor makes the request that a row describes, or says why that is not possible.
func situationFor(t *testing.T, row record) (*situation, string) {
	t.Helper()
	var s *situation
	c, _ := row["attributes"].(called)
	switch {
	case c.function == "newValidAttribute" && c.args[1] == name("true"):
		old := endpoints(t, "foo").attributes.VersionedObject.(*corev1.Endpoints) //nolint:staticcheck // as above
		old.Name = ""
		s = situationOf(t, nil, old, "foo", usher.Create, "")
	case c.function == "newValidAttribute" && c.args[0] == name("nil"):
		s = endpoints(t, "foo")
	case c.function == "newValidAttribute":
		s = situationOf(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "foo"}, Spec: corev1.PodSpec{NodeName: "testnode"}}, nil, "foo", usher.Create, "")
	case c.function == "endpointCreateAttributes":
		s = endpoints(t, "endpoints1")
	case c.function == "endpointStatusUpdateAttributes":
		object := endpoints(t, "endpoints1").attributes.VersionedObject
		s = situationOf(t, object, object, "endpoints1", usher.Update, "status")
	default:
		return nil, "a request that is made by code"
	}
	if why := s.addParams(t, row["params"]); why != "" {
		return nil, why
	}
	if why := s.addAuthorizer(row["authorizer"]); why != "" {
		return nil, why
	}
	if row["namespaceObject"] != nil {
		s.namespace = &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: map[string]string{"env": "test", "foo": "demo"}, Annotations: map[string]string{"annotation1": "testAnnotation1"}, Finalizers: []string{"f1"}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		}
		s.namespaceTree = treeOf(t, s.namespace)
	}
	return s, ""
}

func (s *situation) addParams(t *testing.T, params any) string {
	t.Helper()
	p, ok := params.(record)
	switch {
	case params == nil, params == name("nil"):
		return ""
	case params == name("nilUnstructured"):
		var none *unstructured.Unstructured
		s.params = none
		return ""
	case !ok:
		return "params that are made by code"
	}
	if object, ok := p["Object"].(record); ok {
		s.params = &unstructured.Unstructured{Object: plain(object).(map[string]any)}
	} else {
		data := map[string]string{}
		all, _ := p["Data"].(record)
		for key := range all {
			data[key] = all.text(key)
		}
		metadata, _ := p["ObjectMeta"].(record)
		s.params = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: metadata.text("Name")}, Data: data}
	}
	if u, ok := s.params.(*unstructured.Unstructured); ok {
		s.paramed = u.Object
	} else {
		s.paramed = treeOf(t, s.params)
	}
	return ""
}

func plain(value any) any {
	r, ok := value.(record)
	if !ok {
		return value
	}
	made := map[string]any{}
	for key, member := range r {
		made[key] = plain(member)
	}
	return made
}

func (s *situation) addAuthorizer(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case record:
		result, ok := v["defaultResult"].(record)
		if !ok {
			break
		}
		reason := result.text("reason")
		failed, _ := result["err"].(called)
		s.authorize = func(*question) (authorizer.Decision, string, error) {
			if len(failed.args) > 0 {
				return authorizer.DecisionNoOpinion, reason, fmt.Errorf("%v", failed.args[0])
			}
			return authorizer.DecisionDeny, reason, nil
		}
		return ""
	case called:
		match, ok := v.args[0].(record)
		if v.function != "newAuthzAllowMatch" || !ok {
			break
		}
		for field := range match {
			if strings.Contains(field, "Selector") {
				return "selectors that are made by code"
			}
		}
		who, _ := match["User"].(record)
		want := question{
			User: who.text("Name"), Verb: match.text("Verb"), Path: match.text("Path"), NonResource: !match.flag("ResourceRequest"),
			Resource:    schema.GroupVersionResource{Group: match.text("APIGroup"), Version: match.text("APIVersion"), Resource: match.text("Resource")},
			Subresource: match.text("Subresource"), Namespace: match.text("Namespace"), Name: match.text("Name"),
		}
		s.authorize = func(q *question) (authorizer.Decision, string, error) {
			asked := *q
			asked.Groups, asked.UID, asked.Extra = nil, "", nil
			if fmt.Sprint(asked) == fmt.Sprint(want) {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionDeny, "", nil
		}
		return ""
	}
	return "an authorizer that is made by code"
}

// conditionRow runs rows of expressions about a request, some with a budget.
func conditionRow(t *testing.T, row record) string {
	for _, field := range []string{"compatibilityVersion", "testPerCallLimit", "envType"} {
		if row[field] != nil {
			return "it is about " + field
		}
	}
	s, why := situationFor(t, row)
	if why != "" {
		return why
	}
	var texts []string
	for _, v := range row.list("validations") {
		texts = append(texts, v.(record).text("Expression"))
	}
	results := row.list("results")
	budget, limited := row["testRuntimeCELCostBudget"].(int64)
	if !limited || budget < 0 {
		budget = wholeBudget
	}
	program, err := admission.CompileAny(admission.Code{Params: row.flag("hasParamKind")}, texts...)
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(t, nil)
	o.variables.HasParams = row.flag("hasParamKind")
	var stopped bool
	for i, text := range texts {
		p := pair{text: text, upstream: o.compile(text), program: program, index: i}
		a := p.compare(t, s, &tally{})
		if i < len(results) {
			expect(t, row, text, a, results[i].(record))
		}
		if a = s.usher(t, program, i, budget); a.Stopped != "" {
			stopped = true
			break
		}
		budget -= a.Cost
		if row.flag("exceedPerCallLimit") && i == len(texts)-1 && !strings.Contains(a.Err, "cost limit exceeded") {
			t.Errorf("%s: %s is %v, and should be over the limit", row.text("name"), text, a)
		}
	}
	if stopped != row.flag("exceedBudget") {
		t.Errorf("%s: stopped: %v", row.text("name"), stopped)
	}
	if left, ok := row["expectRemainingBudget"].(called); ok {
		for len(left.args) == 1 {
			inner, ok := left.args[0].(called)
			if !ok {
				break
			}
			left = inner
		}
		if want, ok := left.args[0].(int64); ok && want != budget {
			t.Errorf("%s: %d are left, not %d", row.text("name"), budget, want)
		}
	}
	return ""
}

// expect compares an answer with the result that a row expects.
func expect(t *testing.T, row record, text string, a answer, want record) {
	t.Helper()
	if failed, ok := want["Error"].(called); ok {
		if message, ok := failed.args[0].(string); ok && !strings.Contains(a.Err, message) {
			t.Errorf("%s: %s is %v, without %q", row.text("name"), text, a, message)
		}
		return
	}
	value := map[any]string{name("celtypes.True"): "bool true", name("celtypes.False"): "bool false"}[want["EvalResult"]]
	if value != a.String() {
		t.Errorf("%s: %s is %v, not %v", row.text("name"), text, a, want["EvalResult"])
	}
}

// compositionRow runs rows of an expression with variables.
func compositionRow(t *testing.T, row record) string {
	s, why := situationFor(t, row)
	if why != "" {
		return why
	}
	var source admission.Code
	for _, v := range row.list("variables") {
		source.Variables = append(source.Variables, admission.Named{Name: v.(record).text("name"), Expression: v.(record).text("expression")})
	}
	p := pairs(t, source, row.text("expression"))[0]
	budget, ok := row["runtimeCostBudget"].(int64)
	if !ok {
		budget = wholeBudget
	}
	p.compare(t, s, &tally{})
	a := s.usher(t, p.program, 0, budget)
	switch message := row.text("expectedErrorMessage"); {
	case row.flag("expectErr") && !strings.Contains(a.Err+a.Stopped, message):
		t.Errorf("%s: %v, without %q", row.text("name"), a, message)
	case row.flag("expectErr"):
	case row["expectedResult"] == name("true") && a.Value != "bool true":
		t.Errorf("%s: %v", row.text("name"), a)
	}
	return ""
}

// compileRow runs rows of expressions that compile or do not.
func compileRow(t *testing.T, row record) string {
	if row["envType"] != nil {
		return "it is about new expressions, and policies are stored"
	}
	if !row.flag("hasAuthorizer") && strings.Contains(fmt.Sprint(row["errorExpressions"]), "authorizer") {
		return "validations have an authorizer"
	}
	compile := func(text string) string {
		_, problems := admission.Compile(admission.Code{Params: row.flag("hasParams"), Validations: []admission.Validation{{Expression: text}}})
		return fmt.Sprint(problems)
	}
	for _, text := range row.list("expressions") {
		if problems := compile(text.(string)); problems != "[]" {
			t.Errorf("%s: %s", text, problems)
		}
	}
	failing, _ := row["errorExpressions"].(record)
	for text := range failing {
		if problems := compile(text); !strings.Contains(problems, failing.text(text)) {
			t.Errorf("%s: %s, without %s", text, problems, failing.text(text))
		}
	}
	return ""
}

// expressionOf is an expression whose result is that of a row.
func expressionOf(result record) (text, failure string, ok bool) {
	if failed, isCall := result["Error"].(called); isCall {
		message, _ := failed.args[0].(string)
		return "object.nothing.more == 1", message, true
	}
	switch v := result["EvalResult"].(type) {
	case name:
		text, ok = map[name]string{"celtypes.True": "true", "celtypes.False": "false", "celtypes.NullValue": "null"}[v]
		return text, "", ok
	case called:
		if v.function == "celtypes.String" {
			message, isText := v.args[0].(string)
			return fmt.Sprintf("%q", message), "", isText
		}
	}
	return "", "", false
}

// matchRow runs rows of matchConditions.
func matchRow(t *testing.T, row record) string {
	if row.flag("throwError") {
		return "a filter that fails by itself"
	}
	source := admission.Code{Validations: []admission.Validation{{Expression: "false"}}, Ignore: row["failPolicy"] == name("v1.Ignore")}
	for _, e := range row.list("evaluations") {
		text, _, ok := expressionOf(e.(record))
		if !ok {
			return "a result that no expression gives"
		}
		accessor, _ := e.(record)["ExpressionAccessor"].(record)
		source.Conditions = append(source.Conditions, admission.Named{Name: accessor.text("Name"), Expression: text})
	}
	program, _ := admission.Compile(source)
	s := endpoints(t, "foo")
	r := asUpstream(evaluate(t, program, s))
	v := newValidator(t, source)
	if want := v.evaluate(s); fmt.Sprint(want) != fmt.Sprint(r) {
		t.Errorf("%s: upstream %+v, usher %+v", row.text("name"), want, r)
	}
	failed := len(r.Denials) == 1 && r.Denials[0].Failed
	if failed != (row.text("expectError") != "") {
		t.Errorf("%s: %+v", row.text("name"), r)
	}
	if matched := len(r.Denials) == 1 && !failed; matched != row.flag("shouldMatch") {
		t.Errorf("%s: %+v", row.text("name"), r)
	}
	return ""
}

// validateRow runs rows of decisions about the results of expressions.
func validateRow(t *testing.T, row record) string {
	if row.flag("throwError") || row["costBudget"] != nil || row["matcher"] != nil {
		return "parts that fail by themselves"
	}
	source := admission.Code{Ignore: row["failPolicy"] == name("v1.Ignore")}
	var failures []string
	for i, e := range row.list("evaluations") {
		text, failure, ok := expressionOf(e.(record))
		if !ok {
			return "a result that no expression gives"
		}
		accessor, _ := e.(record)["ExpressionAccessor"].(record)
		reason, _ := accessor["Reason"].(name)
		v := admission.Validation{Expression: text, Message: accessor.text("Message"), Reason: strings.TrimPrefix(string(reason), "metav1.StatusReason")}
		if messages := row.list("messageEvaluations"); i < len(messages) && len(messages[i].(record)) > 0 {
			if v.MessageExpression, _, ok = expressionOf(messages[i].(record)); !ok || v.MessageExpression == "null" {
				return "a message that no expression gives"
			}
		}
		failures = append(failures, failure)
		source.Validations = append(source.Validations, v)
	}
	for i, e := range row.list("auditEvaluations") {
		text, _, ok := expressionOf(e.(record))
		if !ok || text == "true" || text == "false" {
			return "an annotation that no expression gives"
		}
		source.Annotations = append(source.Annotations, admission.Annotation{Key: fmt.Sprint("k", i), ValueExpression: text})
	}
	program, _ := admission.Compile(source)
	s := endpoints(t, "foo")
	r := asUpstream(evaluate(t, program, s))
	v := newValidator(t, source)
	if want := v.evaluate(s); fmt.Sprint(want) != fmt.Sprint(r) {
		t.Errorf("%s: upstream %+v, usher %+v", row.text("name"), want, r)
	}
	for i, d := range row.list("policyDecision") {
		decision := d.(record)
		at := slices.IndexFunc(r.Denials, func(d admission.Denial) bool { return d.Index == i })
		if denied := decision["Action"] == name("ActionDeny"); denied != (at >= 0) {
			t.Errorf("%s: validation %d: %+v", row.text("name"), i, r)
		} else if denied && failures[i] == "" && !strings.Contains(r.Denials[at].Message, decision.text("Message")) && !strings.HasPrefix(decision.text("Message"), "failed expression") {
			t.Errorf("%s: validation %d: %+v, without %q", row.text("name"), i, r, decision.text("Message"))
		}
	}
	return ""
}
