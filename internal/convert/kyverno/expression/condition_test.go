package expression_test

import (
	"testing"

	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

func TestConditions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		key      any
		operator string
		value    any
		expected string
	}{
		{"{{ request.operation || 'BACKGROUND' }}", "NotEquals", "DELETE", `!(request.operation == 'DELETE')`},
		{"{{ request.operation }}", "In", []any{"CREATE", "UPDATE"}, `request.operation in ['CREATE', 'UPDATE']`},
		{"{{ request.operation }}", "AnyIn", []any{"CREATE", "UPDATE"}, `request.operation in ['CREATE', 'UPDATE']`},
		{"{{ request.object.metadata.labels.foo || '' }}", "Equals", "bar", `object.metadata.?labels.?foo.orValue('') == 'bar'`},
		{"{{ request.object.metadata.labels.foo || '' }}", "NotEquals", "b*", `!object.metadata.?labels.?foo.orValue('').startsWith('b')`},
		{"{{ request.object.metadata.labels.foo }}", "Equals", "3", `isQuantity(object.metadata.labels.foo) && quantity(object.metadata.labels.foo).compareTo(quantity('3')) == 0`},
		{"{{ request.object.spec.foo || '' }}", "Equals", "bar", `object.?spec.?foo.orValue('') == 'bar'`},
		{"{{ request.object.spec.foo || '' }}", "Equals", "", `object.?spec.?foo.optFlatMap(v, v == 0 ? optional.of(v) : optional.ofNonZeroValue(v)).orValue('') == ''`},
		{"{{ request.object.spec.replicas }}", "GreaterThan", int64(3), `type(object.spec.replicas) == string ? (object.spec.replicas.matches('^[-+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') ? duration(object.spec.replicas) > duration('3s') : object.spec.replicas.matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$') && double(object.spec.replicas) > 3.0) : (type(object.spec.replicas) == int || type(object.spec.replicas) == double) && object.spec.replicas > 3`},
		{"{{ request.object.spec.terminationGracePeriodSeconds || `0` }}", "LessThan", int64(3), `object.?spec.?terminationGracePeriodSeconds.orValue(0) < 3`},
		{"{{ request.object.spec.containers[].image }}", "AnyIn", []any{"a*", "b"}, `object.?spec.?containers.orValue([]).map(c, has(c.image), c.image).exists(v, v in ['b', '*'] || v.startsWith('a'))`},
		{"{{ request.object.spec.containers[].image }}", "AllNotIn", []any{"a*", "b"}, `object.?spec.?containers.optMap(l, l.map(c, has(c.image), c.image).all(v, !(v in ['b', '*'] || v.startsWith('a')))).orValue(false)`},
		{"{{ request.object.spec.volumes[].keys(@)[] || '' }}", "AnyNotIn", []any{"emptyDir", "secret", ""}, `object.?spec.?volumes.orValue([]).map(v, v.map(k, k)).flatten().exists(v, !(v in ['emptyDir', 'secret', '']))`},
		{"{{ request.object.spec.volumes || '' }}", "Equals", "", `size(object.?spec.?volumes.orValue([])) == 0`},
		{"{{ request.object.spec.volumes || '' }}", "NotEquals", "", `size(object.?spec.?volumes.orValue([])) > 0`},
		{"{{ request.object.metadata.finalizers || '' }}", "AnyNotIn", []any{"a"}, `size(object.metadata.?finalizers.orValue([])) == 0 || object.metadata.?finalizers.orValue([]).exists(v, !(v in ['a', '*']))`},
		{"{{ request.object.spec.containers[].ports[].hostPort }}", "AnyIn", []any{int64(80), int64(443)}, `object.?spec.?containers.orValue([]).map(c, has(c.ports), c.ports).flatten().map(p, has(p.hostPort), p.hostPort).exists(v, v in [80, 443])`},
		{"{{ request.object.spec.containers[].ports[].hostPort }}", "AnyNotIn", "5000-6000", `object.?spec.?containers.orValue([]).map(c, has(c.ports), c.ports).flatten().map(p, has(p.hostPort), p.hostPort).exists(v, !(v >= 5000 && v <= 6000))`},
		{"{{ request.object.spec.foo }}", "AnyIn", []any{"80", "b"}, `type(object.spec.foo) == list ? object.spec.foo.exists(v, v == 80 || v in ['80', 'b', '*']) : object.spec.foo == 80 || object.spec.foo in ['80', 'b', '*']`},
		{"{{ length(request.object.spec.containers) }}", "GreaterThanOrEquals", int64(3), `size(object.spec.containers) >= 3`},
		{"{{ request.object.metadata.annotations.lifetime || '0s' }}", "GreaterThan", "1h", `[object.metadata.?annotations.?lifetime.optFlatMap(v, optional.ofNonZeroValue(v)).orValue('0s')].exists(v, v.matches('^[-+]?(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+$') ? duration(v) > duration('1h') : v.matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[-+]?[0-9]+)?$') && double(v) > 3600.0)`},
		{"{{ request.object.metadata.name }}", "Equals", "{{ request.object.metadata.namespace }}", `object.metadata.name == object.metadata.namespace`},
		{"{{ request.object.metadata.namespace }}-x", "Equals", "*-{{ request.object.metadata.name }}", `!isQuantity(object.metadata.namespace + '-x') && (object.metadata.namespace + '-x').endsWith('-' + object.metadata.name)`},
		{"{{ request.object.spec.hostNetwork || `false` }}", "Equals", true, `object.?spec.?hostNetwork.orValue(false)`},
		{"{{ request.oldObject.metadata.labels.foo }}", "Equals", "a", `oldObject != null && oldObject.metadata.labels.foo == 'a'`},
		{"{{ request.userInfo.groups }}", "AllNotIn", []any{"system:masters", "a:*"}, `request.userInfo.groups.all(v, !(v in ['system:masters', '*'] || v.startsWith('a:')))`},
		{"{{ request.object.metadata.labels || `{}` }}", "NotEquals", map[string]any{}, `!(object.metadata.?labels.orValue({}) == {})`},
		{"{{ request.object.metadata.labels.v }}", "GreaterThan", "1.2.3", `isSemver(object.metadata.labels.v) && semver(object.metadata.labels.v).compareTo(semver('1.2.3')) > 0`},
	} {
		scope := pods()
		v, err := scope.Condition(&syntax.Condition{Key: syntax.Value{Of: row.key}, Operator: row.operator, Value: syntax.Value{Of: row.value}})
		if err != nil {
			t.Errorf("%v %s %v\n   %v", row.key, row.operator, row.value, err)
			continue
		}
		compiles(t, v.Text)
		if v.Text != row.expected {
			t.Errorf("%v %s %v\n   %s  %q", row.key, row.operator, row.value, v.Text, scope.Notes())
		}
	}
}
