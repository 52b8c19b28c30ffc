package condition_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/lang/condition"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/ruletest"
)

// parse reads a template in YAML.
func parse(t testing.TB, source string) *v1alpha1.ValidateRuleTemplate {
	t.Helper()
	var template v1alpha1.ValidateRuleTemplate
	if err := yaml.UnmarshalStrict([]byte(source), &template); err != nil {
		t.Fatalf("read template: %v\n%s", err, source)
	}
	return &template
}

// compare is a condition on the annotation or spec field at path.
func compare(t testing.TB, cond, path, rest string) *v1alpha1.ValidateRuleTemplate {
	t.Helper()
	return parse(t, "{type: condition, condition: {cond: "+cond+", message: m1, dataRef: {from: current, path: "+path+"}"+rest+"}}")
}

func object() map[string]any {
	return map[string]any{
		"kind": "Pod",
		"metadata": map[string]any{
			"name":        "cart",
			"annotations": map[string]any{"team": "b1", "twelve": "12", "rank": "c", "price": "1.2"},
		},
		"spec": map[string]any{
			"replicas": int64(3), "ratio": 0.3, "whole": 2.0, "on": true, "affinity": nil,
			"list": []any{int64(1), "a", map[string]any{"k": nil}}, "other": []any{int64(1), "a", map[string]any{"k": nil}}, "third": []any{int64(1), "a"},
			"map": map[string]any{"a": "b"},
		},
	}
}

func TestComparisons(t *testing.T) {
	t.Parallel()
	const (
		pass   = "pass"
		reject = "reject"
		fail   = "fail"
	)
	tests := []struct {
		cond, path, rest string
		want             string
		reason           string
	}{
		{"Exist", "/metadata/name", "", reject, "the field exists"},
		{"Exist", "/metadata/labels/x", "", pass, "a parent is missing"},
		{"Exist", "/spec/affinity", "", reject, "an explicit null exists"},
		{"Exist", "/metadata/name/x", "", pass, "a string has no fields, and CUE's test for existence sees no error"},
		{"NotExist", "/metadata/labels/x", "", reject, "a parent is missing"},
		{"NotExist", "/spec/affinity", "", pass, "an explicit null exists"},

		{"Equal", "/metadata/annotations/team", ", value: {string: b1}", reject, "the same string"},
		{"Equal", "/metadata/annotations/team", ", value: {string: B1}", pass, "case counts"},
		{"Equal", "/metadata/annotations/nope", ", value: {string: b1}", pass, "missing data never hits"},
		{"NotEqual", "/metadata/annotations/nope", ", value: {string: b1}", pass, "missing data never hits, not even this"},
		{"NotEqual", "/metadata/annotations/team", ", value: {string: x}", reject, "another string"},
		{"Equal", "/spec/on", ", value: {boolean: true}", reject, "booleans"},
		{"Equal", "/spec/on", ", value: {boolean: false}", pass, "booleans"},
		{"Equal", "/spec/replicas", `, value: {float: "3.00"}`, reject, "numbers are equal whatever their type"},
		{"Equal", "/spec/whole", ", value: {integer: 2}", reject, "numbers are equal whatever their type"},
		{"Equal", "/metadata/annotations/twelve", ", value: {integer: 12}", fail, "a string and a number cannot be compared"},
		{"NotEqual", "/metadata/annotations/twelve", ", value: {integer: 12}", fail, "a string and a number cannot be compared"},
		{"Equal", "/spec/affinity", ", value: {integer: 12}", pass, "null is not equal to anything, and that is no error"},
		{"NotEqual", "/spec/affinity", ", value: {string: a}", reject, "null is different from everything"},
		{"Gt", "/spec/affinity", ", value: {integer: 12}", fail, "null is not ordered"},
		{"Equal", "/spec/map", ", valueRef: {from: current, path: /spec/map}", fail, "objects cannot be compared"},
		{"Equal", "/spec/list", ", valueRef: {from: current, path: /spec/other}", reject, "lists can"},
		{"NotEqual", "/spec/list", ", valueRef: {from: current, path: /spec/third}", reject, "lists can"},
		{"Equal", "/spec/affinity", ", valueRef: {from: current, path: /spec/affinity}", reject, "null is null"},

		{"Gt", "/spec/replicas", ", value: {integer: 3}", pass, "3 > 3"},
		{"Gte", "/spec/replicas", ", value: {integer: 3}", reject, "3 >= 3"},
		{"Lt", "/spec/replicas", ", value: {integer: 4}", reject, "3 < 4"},
		{"Lte", "/spec/replicas", ", value: {integer: 2}", pass, "3 <= 2"},
		{"Lt", "/spec/ratio", `, value: {float: "0.3"}`, pass, "0.3 is exactly 0.3"},
		{"Gt", "/metadata/annotations/rank", ", value: {string: b}", reject, "strings are ordered by their characters"},
		{"Gt", "/metadata/annotations/twelve", ", value: {string: '5'}", pass, `"12" comes before "5"`},
		{"Gt", "/metadata/annotations/twelve", ", value: {integer: 3}", fail, "a string and a number are not ordered"},
		{"Gt", "/spec/on", ", value: {boolean: false}", fail, "booleans are not ordered"},

		{"In", "/metadata/annotations/team", ", value: {stringSlice: [a1, b1]}", reject, "it is listed"},
		{"NotIn", "/metadata/annotations/team", ", value: {stringSlice: [a1, b1]}", pass, "it is listed"},
		{"NotIn", "/metadata/annotations/team", ", value: {stringSlice: [a1]}", reject, "it is not listed"},
		{"NotIn", "/metadata/annotations/nope", ", value: {stringSlice: [a1]}", pass, "missing data never hits"},
		{"In", "/metadata/annotations/twelve", ", value: {integerSlice: [12]}", pass, "a number is no string"},
		{"In", "/spec/replicas", ", value: {integerSlice: [1, 3]}", reject, "a number in numbers"},
		{"In", "/metadata/annotations/price", ", value: {floatSlice: ['1.2']}", reject, "floats are listed as strings"},
		{"In", "/spec/ratio", ", value: {floatSlice: ['0.3']}", pass, "so no number is among them"},
		{"In", "/spec/map", ", value: {stringSlice: [a]}", pass, "an object is not among strings, without error"},
		{"In", "/metadata/name", `, value: {stringSlice: ["\\(object.metadata.nope)", cart]}`, reject, "a member that refers to nothing is left out"},
		{"In", "/metadata/name", `, value: {stringSlice: ["\\(object.spec.list)"]}`, fail, "one that refers to a list is an error"},

		{"Equal", "/metadata/name", `, value: {string: "\\(object.metadata.name)"}`, reject, "constants are interpolated"},
		{"Equal", "/metadata/name", `, value: {string: "\\(object.metadata.nope)"}`, fail, "there is nothing to compare with"},
		{"Gt", "/spec/replicas", ", valueRef: {from: current, path: /spec/whole}", reject, "two fields"},
		{"Gt", "/spec/replicas", ", valueRef: {from: current, path: /spec/nope}", pass, "a missing reference never hits"},
		{"Equal", "/spec/replicas", ", value: {integer: 99}, valueRef: {from: current, path: /spec/replicas}", reject, "valueRef wins over value"},
		{"Equal", "/spec/replicas", ", value: {integer: 3}, valueRef: {from: old, path: /spec/replicas}", pass, "on CREATE there is no old object"},

		{"Gt", "/spec/replicas", ", value: {integer: 4}, valueProcess: {operation: '*', operationWith: '0.5'}", reject, "3 > 4*0.5"},
		{"Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: '*', operationWith: 60%}", pass, "3 > 5*0.6"},
		{"Gte", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: '*', operationWith: 60%}", reject, "3 >= 5*0.6, which is exactly 3"},
		{"Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: '-', operationWith: 2}", pass, "3 > 5-2"},
		{"Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: /, operationWith: 2}", reject, "3 > 5/2: division does not round"},
		{"Equal", "/spec/ratio", `, value: {float: "0.1"}, valueProcess: {operation: +, operationWith: '0.2'}`, reject, "0.1+0.2 is 0.3"},
		{"Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: '*', operationWith: lots}", reject, "what is no number counts as 0"},
		{"Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: /, operationWith: 0}", fail, "division by zero"},
		{"Gt", "/spec/replicas", ", valueRef: {from: current, path: /metadata/name}, valueProcess: {operation: +, operationWith: 1}", fail, "no arithmetic on strings"},
		{"Equal", "/metadata/name", ", value: {string: cart}, valueProcess: {operation: '*', operationWith: 1}", reject, "but CUE repeats them"},
	}
	for _, test := range tests {
		program, problems := condition.Compile(compare(t, test.cond, test.path, test.rest))
		if program == nil {
			t.Errorf("%s %s%s: %v", test.path, test.cond, test.rest, problems)
			continue
		}
		outcome, err := ruletest.Run(t, program, &rule.Input{Object: object()})
		got := pass
		switch {
		case err != nil:
			got = fail
		case outcome.Verdict == usher.Deny && outcome.Message == "m1":
			got = reject
		case outcome.Verdict != usher.NoOpinion || outcome.Message != "":
			got = "odd"
		}
		if got != test.want {
			t.Errorf("%s %s%s: %s (%+v, %v), want %s: %s", test.path, test.cond, test.rest, got, outcome, err, test.want, test.reason)
		}
	}
}

func TestAffectMode(t *testing.T) {
	t.Parallel()
	deny := func(message string) rule.Outcome { return rule.Outcome{Verdict: usher.Deny, Message: message} }
	noted := rule.Outcome{Verdict: usher.Deny, Note: "no cart"}
	tests := []struct {
		mode, path string
		want       rule.Outcome
		reason     string
	}{
		{"reject", "/metadata/name", deny("no cart"), "a hit is rejected"},
		{"reject", "/metadata/nope", rule.Outcome{}, "no hit"},
		{"''", "/metadata/name", deny("no cart"), "reject is the default"},
		{"allow", "/metadata/name", rule.Outcome{}, "a hit is allowed"},
		{"allow", "/metadata/nope", noted, "everything else is rejected, with the message as a note"},
	}
	for _, test := range tests {
		program, problems := condition.Compile(parse(t, `{type: condition, condition: {affectMode: `+test.mode+
			`, cond: Exist, message: "no \\(object.metadata.name)", dataRef: {from: current, path: `+test.path+`}}}`))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		got, err := ruletest.Run(t, program, &rule.Input{Object: object()})
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("affectMode %s, %s: %v (-want +got): %s\n%s", test.mode, test.path, err, test.reason, diff)
		}
	}
}

func TestMessageFails(t *testing.T) {
	t.Parallel()
	program, _ := condition.Compile(parse(t, `{type: condition, condition: {cond: Exist, message: "no \\(object.nope)", dataRef: {from: current, path: /metadata/name}}}`))
	outcome, err := ruletest.Run(t, program, &rule.Input{Object: object()})
	if err == nil || outcome.Verdict == usher.Deny {
		t.Errorf("outcome %+v, %v; a message that cannot be written is an error", outcome, err)
	}
	outcome, err = ruletest.Run(t, program, &rule.Input{Object: map[string]any{}})
	if err != nil || outcome.Verdict == usher.Deny {
		t.Errorf("outcome %+v, %v; no hit needs no message", outcome, err)
	}
}

// TestTextsThatAreTooLong have an error: a policy of a megabyte could have them take all memory.
func TestTextsThatAreTooLong(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	in := &rule.Input{Object: map[string]any{"kind": "Pod", "metadata": map[string]any{"name": large}}}
	const many = 10_000
	for _, row := range []struct{ reason, cond, rest, want string }{
		{"a text that is repeated", "Equal", `, value: {string: "` + strings.Repeat("y", 1000) + `"}, valueProcess: {operation: "*", operationWith: 1000000}`, "longer than 1000000 bytes"},
		{"a name that is repeated", "Equal", `, value: {string: "` + strings.Repeat(`\\(object.metadata.name)`, many) + `"}`, "longer than 1048576 bytes"},
		{"many texts", "In", `, value: {stringSlice: [` + strings.Repeat(`"\\(object.metadata.name)", `, many) + `]}`, "longer than 4194304 bytes together"},
	} {
		program, problems := condition.Compile(compare(t, row.cond, "/metadata/name", row.rest))
		if program == nil {
			t.Fatal(problems)
		}
		if _, err := program.Run(t.Context(), in); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %.200v", row.reason, err)
		}
	}
}

// TestBrief: a condition is brief if it takes the same time for every object.
func TestBrief(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason, cond, path, rest string
		want                     bool
	}{
		{"a constant", "Equal", "/metadata/name", ", value: {string: x}", true},
		{"one of some", "In", "/metadata/name", ", value: {stringSlice: [x, z]}", true},
		{"presence", "Exist", "/metadata/name", "", true},
		{"arithmetic on a constant", "Lt", "/spec/replicas", `, value: {integer: 3}, valueProcess: {operation: "*", operationWith: 2}`, true},
		{"two values of the object", "Equal", "/spec", ", valueRef: {from: old, path: /spec}", false},
		{"a value of another object", "Equal", "/spec", ", valueRef: {from: owner, path: /spec}", false},
		{"a text of the object", "Equal", "/metadata/name", `, value: {string: "\\(object.metadata.uid)"}`, false},
		{"a text that is repeated", "Equal", "/metadata/name", `, value: {string: x}, valueProcess: {operation: "*", operationWith: 1000}`, false},
		{"one of very many", "In", "/metadata/name", ", value: {stringSlice: [" + strings.Repeat("x, ", 1000) + "]}", false},
		{"a path that leads far", "Equal", strings.Repeat("/x", 1000), ", value: {string: x}", false},
	} {
		program, problems := condition.Compile(compare(t, row.cond, row.path, row.rest))
		if program == nil {
			t.Fatal(row.reason, problems)
		}
		if got := program.(rule.Brief).Brief(); got != row.want {
			t.Errorf("%s: brief is %t", row.reason, got)
		}
	}
}

// TestEvaluated: what is rendered tells of hits only, so that kinitiras can run it too.
func TestEvaluated(t *testing.T) {
	t.Parallel()
	hit, miss := rule.Outcome{Verdict: usher.Deny, Message: "m1"}, rule.Outcome{}
	failed := errors.New("failed")
	tests := []struct {
		mode   string
		run    outcome
		want   rule.Outcome
		reason string
	}{
		{"reject", outcome{hit, nil}, hit, "a hit is rejected"},
		{"reject", outcome{miss, nil}, miss, "a miss is not"},
		{"allow", outcome{hit, nil}, miss, "a hit is allowed"},
		{"allow", outcome{miss, nil}, rule.Outcome{Verdict: usher.Deny, Note: "m1"}, "a miss is not, and the message is a note"},
		{"allow", outcome{miss, failed}, rule.Outcome{}, "a failure stays one"},
	}
	for _, test := range tests {
		template := compare(t, "Exist", "/a", ", affectMode: "+test.mode)
		got, err := condition.Evaluated(template, test.run).Run(context.Background(), &rule.Input{})
		if diff := cmp.Diff(test.want, got); diff != "" || !errors.Is(err, test.run.err) {
			t.Errorf("affectMode %s: %v (-want +got): %s\n%s", test.mode, err, test.reason, diff)
		}
	}
}

// An outcome is a program that always comes to it.
type outcome struct {
	rule.Outcome
	err error
}

func (o outcome) Run(context.Context, *rule.Input) (rule.Outcome, error) { return o.Outcome, o.err }
func (o outcome) String() string                                         { return "outcome" }

func TestFacts(t *testing.T) {
	t.Parallel()
	program, problems := condition.Compile(parse(t, `{type: condition, condition: {cond: NotEqual, message: differ,
		dataRef: {from: owner, path: /metadata/labels/team}, valueRef: {from: k8s, path: /data/team, k8s: {apiVersion: v1, kind: ConfigMap, name: c, namespace: shop}}}}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	known := &fact.Known{}
	in := &rule.Input{Facts: known, Object: map[string]any{"metadata": map[string]any{"namespace": "shop",
		"ownerReferences": []any{map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r"}}}}}
	answers := []struct {
		ref   string
		value map[string]any
	}{
		{"v1 ConfigMap shop/c", map[string]any{"data": map[string]any{"team": "a"}}},
		{"apps/v1 ReplicaSet shop/r", map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "b"}}}},
	}
	for _, answer := range answers {
		_, err := ruletest.Run(t, program, in)
		var missing *fact.Missing
		if !errors.As(err, &missing) || missing.Ref.String() != answer.ref {
			t.Fatalf("error %v, want one that asks for %s", err, answer.ref)
		}
		known.Set(missing.Ref, answer.value, nil)
	}
	got, err := ruletest.Run(t, program, in)
	if want := (rule.Outcome{Verdict: usher.Deny, Message: "differ"}); err != nil || !cmp.Equal(want, got) {
		t.Errorf("outcome %+v, %v, want %+v", got, err, want)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	const data = "dataRef: {from: current, path: /spec/x}"
	tests := []struct {
		template string
		errors   []string
		warnings []string
		reason   string
	}{
		{"{}", []string{"template.type"}, nil, "no type"},
		{"{type: regex}", []string{"template.type"}, nil, "an unknown type"},
		{"{type: condition}", nil, []string{"template.condition"}, "a template without content does nothing"},
		{"{type: pab}", nil, []string{"template.podAvailableBadge"}, "a template without content does nothing"},
		{"{type: condition, condition: {cond: Exist}}", []string{"template.condition.dataRef"}, nil, "no data"},
		{"{type: condition, condition: {cond: Regex, value: {string: a.*}, " + data + "}}", []string{"template.condition.cond"}, nil, "Regex was never implemented"},
		{"{type: condition, condition: {" + data + "}}", []string{"template.condition.cond"}, nil, "no cond"},
		{"{type: condition, condition: {cond: Equal, " + data + "}}", []string{"template.condition.value"}, nil, "nothing to compare with"},
		{"{type: condition, condition: {cond: Equal, value: {}, " + data + "}}", []string{"template.condition.value"}, nil, "nothing to compare with"},
		{"{type: condition, condition: {cond: Equal, value: {stringSlice: [a]}, " + data + "}}", []string{"template.condition.value"}, nil, "lists are for In"},
		{"{type: condition, condition: {cond: Equal, value: {stringMap: {a: b}}, " + data + "}}", []string{"template.condition.value"}, nil, "maps are for nothing"},
		{"{type: condition, condition: {cond: Gt, value: {float: lots}, " + data + "}}", []string{"template.condition.value"}, nil, "not a number"},
		{"{type: condition, condition: {cond: Gt, value: {float: '1e999999999'}, " + data + "}}", []string{"template.condition.value"}, nil, "a number that would fill the memory"},
		{"{type: condition, condition: {cond: In, value: {string: a}, " + data + "}}", []string{"template.condition.value"}, nil, "In needs a list"},
		{"{type: condition, condition: {cond: In, value: {stringMap: {a: b}}, " + data + "}}", []string{"template.condition.value"}, nil, "a map is no list"},
		{"{type: condition, condition: {cond: NotIn, valueRef: {from: current, path: /spec/y}, " + data + "}}", []string{"template.condition.valueRef"}, nil, "In does not take references"},
		{"{type: condition, condition: {affectMode: deny, cond: Exist, " + data + "}}", []string{"template.condition.affectMode"}, nil, "unknown affectMode"},
		{"{type: condition, condition: {cond: Gt, value: {integer: 1}, valueProcess: {operation: '*'}, " + data + "}}", []string{"template.condition.valueProcess.operationWith"}, nil, "no operand"},
		{"{type: condition, condition: {cond: Gt, value: {integer: 1}, valueProcess: {operation: '%', operationWith: 2}, " + data + "}}", []string{"template.condition.valueProcess.operation"}, nil, "unknown operation"},
		{"{type: condition, condition: {cond: Gt, value: {integer: 1}, valueProcess: {operation: '*', operationWith: x}, " + data + "}}", nil, []string{"template.condition.valueProcess.operationWith"}, "an operand that counts as 0"},
		{"{type: condition, condition: {cond: Gt, value: {integer: 1}, valueProcess: {operation: /, operationWith: x}, " + data + "}}", nil,
			[]string{"template.condition.valueProcess.operationWith", "template.condition.valueProcess.operationWith"}, "and then divides"},
		{"{type: condition, condition: {cond: Gt, value: {boolean: true}, " + data + "}}", nil, []string{"template.condition.value"}, "a boolean is not ordered"},
		{"{type: condition, condition: {cond: Gt, value: {string: a}, valueProcess: {operation: +, operationWith: 1}, " + data + "}}", nil, []string{"template.condition.valueProcess"}, "arithmetic on a string"},
		{"{type: condition, condition: {cond: Exist, value: {string: a}, " + data + "}}", nil, []string{"template.condition"}, "Exist compares with nothing"},
		{"{type: condition, condition: {cond: In, value: {stringSlice: [a]}, valueProcess: {operation: +, operationWith: 1}, " + data + "}}", nil, []string{"template.condition.valueProcess"}, "In does no arithmetic"},
		{"{type: condition, condition: {cond: Equal, value: {integer: 1}, valueRef: {from: current, path: /a}, " + data + "}}", nil, []string{"template.condition.value"}, "valueRef wins"},
		{"{type: condition, condition: {cond: Exist, dataRef: {from: owner}}}", []string{"template.condition.dataRef.path"}, nil, "no path"},
		{"{type: condition, condition: {cond: Equal, valueRef: {from: http, path: /a}, dataRef: {from: k8s, path: /a}}}",
			[]string{"template.condition.dataRef.k8s", "template.condition.valueRef.http"}, nil, "both references lack their block"},
		{"{type: pab, podAvailableBadge: {}}", nil, []string{"template.podAvailableBadge"}, "a badge without numbers does nothing"},
		{"{type: pab, podAvailableBadge: {maxUnavailable: many}}", []string{"template.podAvailableBadge.maxUnavailable"}, nil, "not a number"},
		{"{type: pab, podAvailableBadge: {minAvailable: 1, replicaReference: {from: k8s}}}",
			[]string{"template.podAvailableBadge.replicaReference.targetReplicaPath", "template.podAvailableBadge.replicaReference.k8s",
				"template.podAvailableBadge.replicaReference.currentReplicaPath"}, nil, "everything is told, once"},
	}
	for _, test := range tests {
		template := parse(t, test.template)
		program, problems := condition.Compile(template)
		var errs, warnings []string
		for _, p := range problems {
			if p.What == "" || p.Do == "" {
				t.Errorf("%s: problem %+v does not say what is wrong and what to do", test.template, p)
			}
			if p.Severity == rule.Error {
				errs = append(errs, p.Field)
			} else {
				warnings = append(warnings, p.Field)
			}
		}
		if diff := cmp.Diff(test.errors, errs); diff != "" {
			t.Errorf("%s: errors (-want +got): %s\n%s", test.template, test.reason, diff)
		}
		if diff := cmp.Diff(test.warnings, warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got): %s\n%s", test.template, test.reason, diff)
		}
		source, rendered := condition.Render(template)
		if broken := len(test.errors) > 0; (program == nil) != broken || (source == "") != broken {
			t.Errorf("%s: program %v, rendered %q; want both or none of them", test.template, program, source)
		}
		if diff := cmp.Diff(problems, rendered); diff != "" {
			t.Errorf("%s: Compile and Render find different problems:\n%s", test.template, diff)
		}
		if _, err := condition.Params(template)(&rule.Input{Object: object()}); (err != nil) != (len(test.errors) > 0) {
			t.Errorf("%s: Params: %v: %s", test.template, err, test.reason)
		}
	}
}

func TestDefault(t *testing.T) {
	t.Parallel()
	tests := []struct{ given, want, reason string }{
		{"{type: condition, condition: {cond: Exist}}", "{type: condition, condition: {cond: Exist, affectMode: reject}}", "reject is the default"},
		{"{type: condition, condition: {affectMode: allow}}", "", "what is said stays"},
		{"{type: condition}", "", "there is no condition"},
		{"{type: pab, podAvailableBadge: {minAvailable: 1}}",
			"{type: pab, podAvailableBadge: {minAvailable: 1, replicaReference: {from: owner, targetReplicaPath: /spec/replicas, currentReplicaPath: /status/replicas}}}", "the replicas of the owner"},
		{"{type: pab, podAvailableBadge: {replicaReference: {from: current}}}", "", "what is said stays"},
	}
	for _, test := range tests {
		given := parse(t, test.given)
		got, changed := condition.Default(given)
		want := parse(t, test.given)
		if test.want != "" {
			want = parse(t, test.want)
		}
		if diff := cmp.Diff(want, got); diff != "" || changed != (test.want != "") {
			t.Errorf("%s: changed %v (-want +got): %s\n%s", test.given, changed, test.reason, diff)
		}
		if diff := cmp.Diff(parse(t, test.given), given); diff != "" {
			t.Errorf("%s: the template that was given is changed:\n%s", test.given, diff)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	tests := []struct{ template, want string }{
		{"{type: condition, condition: {cond: Gt, value: {integer: 5}, valueProcess: {operation: '*', operationWith: 60%}, dataRef: {from: old, path: /spec/x}}}", "reject if old /spec/x Gt 5 * 0.6"},
		{"{type: condition, condition: {affectMode: allow, cond: In, value: {stringSlice: [a, 'b\"']}, dataRef: {from: current, path: /spec/x}}}", `allow if current /spec/x In ["a", "b\""]`},
		{"{type: condition, condition: {cond: Exist, dataRef: {from: current, path: /spec/x}}}", "reject if current /spec/x Exist"},
		{"{type: condition, condition: {cond: Lte, valueRef: {from: owner, path: /spec/y}, dataRef: {from: current, path: /spec/x}}}", "reject if current /spec/x Lte owner /spec/y"},
		{"{type: pab, podAvailableBadge: {maxUnavailable: 60%}}", "pab maxUnavailable 0.6 of owner /spec/replicas, now owner /status/replicas"},
		{"{type: pab}", "pab without content"},
	}
	for _, test := range tests {
		program, _ := condition.Compile(parse(t, test.template))
		if got := program.String(); got != test.want {
			t.Errorf("String() = %s, want %s", got, test.want)
		}
	}
}

func BenchmarkCondition(b *testing.B) {
	object := object()
	filler := map[string]any{}
	for letter := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
		filler[letter] = strings.Repeat(letter, 150)
	}
	object["data"] = filler // The pod has 4 KB.
	tests := []struct{ name, cond, path, rest string }{
		{"Equal", "Equal", "/metadata/annotations/team", ", value: {string: x}"},
		{"In", "In", "/metadata/annotations/team", ", value: {stringSlice: [a1, x1]}"},
		{"Process", "Gt", "/spec/replicas", ", value: {integer: 5}, valueProcess: {operation: '*', operationWith: 60%}"},
	}
	for _, test := range tests {
		program, _ := condition.Compile(compare(b, test.cond, test.path, test.rest))
		in := &rule.Input{Object: object}
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := program.Run(context.Background(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a condition looks at is more than its data: ruletest.Run gives it no more than it
// says.
func TestInterpolationsAreWanted(t *testing.T) {
	t.Parallel()
	object := map[string]any{"data": "x", "value": map[string]any{"deep": "x"}, "message": map[string]any{"deep": "because"}, "other": "y"}
	old := map[string]any{"value": "x"}
	for _, value := range []v1alpha1.ConstantValue{
		{String: new(`\(object.value.deep)`)},
		{String: new(`\(oldObject.value)`)},
		{StringSlice: []string{"n", `\(object.value.deep)`}},
	} {
		cond := v1alpha1.CondEqual
		if value.StringSlice != nil {
			cond = v1alpha1.CondIn
		}
		program, problems := condition.Compile(&v1alpha1.ValidateRuleTemplate{
			Type: v1alpha1.TemplateCondition,
			Condition: &v1alpha1.ValidateCondition{
				Cond: cond, Value: &value, Message: `no, \(object.message.deep)`,
				DataRef: &v1alpha1.ResourceRefer{From: v1alpha1.FromCurrentObject, Path: "/data"},
			},
		})
		if program == nil {
			t.Fatal(problems)
		}
		got, err := ruletest.Run(t, program, &rule.Input{Object: object, OldObject: old})
		if err != nil || got.Message != "no, because" {
			t.Errorf("%s: %+v, %v", program, got, err)
		}
	}
}
