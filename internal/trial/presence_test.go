package trial_test

import (
	"strings"
	"testing"

	"github.com/usher-dev/usher/internal/compile"
)

// TestFieldsThatAreSet: a rule that does something else, too, or for a field that not all objects get, is not
// said to be without effect.
func TestFieldsThatAreSet(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec   string
		warned bool
	}{
		"the field of all objects": {`validations: [{expression: "has(object.spec.dnsPolicy)"}]`, true},
		"of init containers":       {`validations: [{expression: "object.spec.?initContainers.orValue([]).all(c, has(c.terminationMessagePath))"}]`, true},
		"of probes":                {`validations: [{expression: "object.spec.containers.all(c, !has(c.livenessProbe) || has(c.livenessProbe.periodSeconds))"}]`, true},
		"a guard":                  {`validations: [{expression: "has(object.spec.dnsPolicy) && object.spec.dnsPolicy != 'Default'"}]`, false},
		"a value that is set":      {`validations: [{expression: "object.spec.containers.all(c, c.?imagePullPolicy.orValue('') == 'Always')"}]`, false},
		"a value whatever it was": {`
mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{spec: Object.spec{containers: object.spec.containers.filter(c, !c.image.contains(':')).map(c, Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"}}]`, false},
		"another field":       {`validations: [{expression: "has(object.spec.dnsPolicy) && has(object.spec.nodeName)"}]`, false},
		"one that is not set": {`validations: [{expression: "object.spec.containers.all(c, has(c.securityContext))"}]`, false},
		"of some objects": {`
matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}
validations: [{expression: "has(object.spec.strategy.rollingUpdate)"}]`, false},
		"of a kind of its own": {`
matchConstraints: {resourceRules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [gadgets]}]}
validations: [{expression: "has(object.spec.replicas)"}]`, false},
	} {
		p, err := policy(t, map[bool]string{false: "cel/", true: "mutation/"}[strings.Contains(row.spec, "mutations")]+"a.yaml", []byte(row.spec))
		if err != nil {
			t.Fatal(err)
		}
		warned := false
		for _, problem := range tried(t).Problems(t.Context(), compile.Policy(p)) {
			warned = warned || strings.Contains(problem.What, "API servers set this field")
		}
		if warned != row.warned {
			t.Errorf("%s: warned %t, expected %t", name, warned, row.warned)
		}
	}
}

// TestFieldsBehindOthers: an expression fails without a field although it would refuse the first objects that it is
// tried on for another reason, and says why, however long it is.
func TestFieldsBehindOthers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" && object.metadata.name != 'an-ordinary-name'", 6)
	for _, expression := range []string{
		"object.metadata.labels['owner'].startsWith('team-') && !object.metadata.name.startsWith('tmp-')",
		"object.metadata.labels['owner'].startsWith('team-') && object.metadata.name != 'tmp'" + long,
	} {
		p, err := policy(t, "cel/a.yaml", []byte(`validations: [{expression: "`+expression+`"}]`))
		if err != nil {
			t.Fatal(err)
		}
		problems := tried(t).Problems(t.Context(), compile.Policy(p))
		if len(problems) != 1 || !strings.Contains(problems[0].What, "without the label owner would be refused") || !strings.HasSuffix(problems[0].What, "no such key: owner") {
			t.Errorf("%s: %v", expression, problems)
		}
	}
}
