package expression_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/kind"
)

func pods() *expression.Scope {
	set := kind.Recorded()
	return expression.NewScope(expression.ObjectOf(set, set.Schema(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})))
}

func TestExpressions(t *testing.T) {
	t.Parallel()
	for text, expected := range map[string]string{
		"request.object.metadata.name":                                                                                     `object.metadata.name`,
		"request.object.metadata.labels.foo || ''":                                                                         `object.metadata.?labels.?foo.orValue('')`,
		"request.object.metadata.labels.\"a/b\" || 'empty'":                                                                `object.metadata.?labels[?'a/b'].optFlatMap(v, optional.ofNonZeroValue(v)).orValue('empty')`,
		"request.operation || 'BACKGROUND'":                                                                                `request.operation`,
		"request.object.spec.containers[].image":                                                                           `object.?spec.?containers.optMap(l, l.map(c, has(c.image), c.image)).optMap(v, dyn(v)).orValue(null)`,
		"request.object.spec.initContainers[] || `[]` | length(@)":                                                         `size(object.?spec.?initContainers.orValue([]))`,
		"request.object.spec.[ephemeralContainers, initContainers, containers][].ports[].hostPort":                         `object.?spec.optMap(v, object.spec.?ephemeralContainers.orValue([]) + object.spec.?initContainers.orValue([]) + object.spec.containers).optMap(l, l.map(s, has(s.ports), s.ports).flatten().map(p, has(p.hostPort), p.hostPort)).optMap(v, dyn(v)).orValue(null)`,
		"request.object.spec.[ephemeralContainers, initContainers, containers][].securityContext.capabilities.add[]":       `object.?spec.optMap(v, object.spec.?ephemeralContainers.orValue([]) + object.spec.?initContainers.orValue([]) + object.spec.containers).optMap(l, l.map(s, s.?securityContext.?capabilities.?add.hasValue(), s.securityContext.capabilities.add).flatten()).optMap(v, dyn(v)).orValue(null)`,
		"request.object.spec.volumes[?hostPath] | length(@)":                                                               `size(object.spec.volumes.filter(v, size(v.?hostPath.orValue({})) > 0))`,
		"request.object.spec.volumes[?contains(keys(@), 'emptyDir')] || `[]` | length(@)":                                  `size(object.?spec.?volumes.orValue([]).filter(v, has(v.emptyDir)))`,
		"request.object.spec.volumes[].keys(@)[] || ''":                                                                    `object.?spec.?volumes.orValue([]).map(v, v.map(k, k)).flatten()`,
		"request.object.spec.containers[?resources.requests.memory!=resources.limits.memory] | length(@)":                  `size(object.spec.containers.filter(c, c.?resources.?requests.?memory != c.?resources.?limits.?memory))`,
		"request.object.metadata.ownerReferences[0].kind || ''":                                                            `object.metadata.?ownerReferences[?0].?kind.orValue('')`,
		"request.object.metadata.ownerReferences || `[]`":                                                                  `object.metadata.?ownerReferences.orValue([])`,
		"request.object.spec.containers[?(@.name=='controller')].image":                                                    `object.?spec.?containers.optMap(l, l.filter(c, c.name == 'controller').map(c, has(c.image), c.image)).optMap(v, dyn(v)).orValue(null)`,
		"request.object.spec.x[].verbs[]":                                                                                  `object.?spec.?x.optFlatMap(l, type(l) == list ? optional.of(l) : optional.none()).optMap(l, l.flatten().map(x, x.?verbs.hasValue(), x.verbs).flatten()).optMap(v, dyn(v)).orValue(null)`,
		"contains(request.object.spec.x[].verbs[], '*')":                                                                   `'*' in object.?spec.?x.optFlatMap(l, type(l) == list ? optional.of(l) : optional.none()).value().flatten().map(x, x.?verbs.hasValue(), x.verbs).flatten()`,
		"request.object.metadata.keys(@).contains(@, 'ownerReferences') && request.object.metadata.ownerReferences[0].uid": `(has(object.metadata.ownerReferences) ? object.metadata.ownerReferences[?0].hasValue() : true) ? (has(object.metadata.ownerReferences) ? object.metadata.ownerReferences[0].uid : dyn(false)) : null`,
		"request.userInfo.groups[?contains(@,':') == `false`]":                                                             `request.userInfo.?groups.optMap(l, l.filter(g, !g.contains(':'))).optMap(v, dyn(v)).orValue(null)`,
		"request.object.spec.containers[].livenessProbe.exec.command[].regex_match('\\bjcmd\\b',@)":                        `object.?spec.?containers.optMap(l, l.map(c, c.?livenessProbe.?exec.?command.hasValue(), c.livenessProbe.exec.command).flatten().map(c, c.matches(r'\bjcmd\b'))).optMap(v, dyn(v)).orValue(null)`,
		"serviceAccountName":                                     `request.userInfo.username.startsWith('system:serviceaccount:') ? request.userInfo.username.split(':')[3] : ''`,
		"request.object.spec.replicas || `1`":                    `object.?spec.?replicas.optFlatMap(v, v == 0 ? optional.of(v) : optional.ofNonZeroValue(v)).orValue(1)`,
		"request.object.spec.foo || ''":                          `object.?spec.?foo.optFlatMap(v, v == 0 ? optional.of(v) : optional.ofNonZeroValue(v)).orValue('')`,
		"request.object.spec.foo || 'd'":                         `object.?spec.?foo.optFlatMap(v, v == 0 ? optional.of(v) : optional.ofNonZeroValue(v)).orValue('d')`,
		"request.oldObject.metadata.labels.foo || ''":            `oldObject.?metadata.?labels.?foo.orValue('')`,
		"request.object.metadata.labels || `{}`":                 `object.metadata.?labels.orValue({})`,
		"request.object.spec.volumes[].secret || '' | length(@)": `size(object.?spec.?volumes.orValue([]).map(v, has(v.secret), v.secret))`,
		"request.object.spec.topologySpreadConstraints[?topologyKey=='kubernetes.io/hostname' || topologyKey=='topology.kubernetes.io/zone'] || `[]` | length(@)": `size(object.?spec.?topologySpreadConstraints.orValue([]).filter(t, t.topologyKey == 'kubernetes.io/hostname' || t.topologyKey == 'topology.kubernetes.io/zone'))`,
		"request.object.spec.terminationGracePeriodSeconds || `0`": `object.?spec.?terminationGracePeriodSeconds.orValue(0)`,
	} {
		v, err := pods().Expression(text)
		if err != nil {
			t.Errorf("%s\n   %v", text, err)
			continue
		}
		compiles(t, v.Exact())
		if v.Exact() != expected {
			t.Errorf("%s\n   %s  (%s)", text, v.Exact(), v.Type.Kind)
		}
	}
}

func TestLongExpressionsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		strings.TrimSuffix(strings.Repeat("to_string(request.object.metadata.name) || ", 90), " || "),
		strings.Repeat("to_array(", 90) + "request.operation" + strings.Repeat(")", 90),
		strings.TrimSuffix(strings.Repeat("(request.object.spec.a[] || request.object.spec.b[]) | ", 40), " | "),
	} {
		if v, err := pods().Expression(text); err == nil && len(v.Text) > 20_000 {
			t.Errorf("%.40s: %d characters", text, len(v.Text))
		}
	}
}
