package admissionregistration_test

// expressions are evaluated by upstream and by Usher on every object. Those that are false or give
// an error show the most.
var expressions = []string{
	// Selection, presence, types.
	"object.metadata.name == 'web'", "object.metadata.nothing == 'web'", "has(object.spec) && has(object.spec.nodeName)",
	"has(object.metadata.labels) && 'app' in object.metadata.labels && object.metadata.labels['app'] == 'web'",
	"object.metadata.labels.app.startsWith('w')", "object.spec.containers[0].image == 'busybox'", "object.spec.containers[7].image == ''",
	"object == null || !has(object.metadata.labels)", "object != null && has(object.spec.nodeName) || has(object.metadata.annotations)", "object.metadata == null || type(object.metadata.labels) != map",
	"object == null", "oldObject == null", "type(object) == map", "type(object.metadata.name) == string", "object.kind == 'Pod'", "object.apiVersion == 'v1' && object.kind != 'Pod'",
	"dyn(object).metadata.labels == {'app': 'web', 'tier': '2'}", "object.metadata.labels.tier == 2", "int(object.metadata.labels.tier) == 2",
	"object.?metadata.?labels.?app.orValue('none') == 'none'", "object.?spec.?nodeName.hasValue()", "object.metadata.?labels[?'x'].orValue('y') == 'x'",
	"object.?spec.?containers.orValue([]).size() > 5", "optional.of(object.metadata.name).optMap(n, n + '!').value() == 'x'",
	"object.spec.?containers[?0].?name.value() == 'x'", "[1, 2][?5].hasValue()", "object.spec == oldObject.spec", "object.metadata.labels != oldObject.metadata.labels",
	// Numbers, texts, lists, maps.
	"object.spec.terminationGracePeriodSeconds <= 30", "object.spec.terminationGracePeriodSeconds > 30.5", "object.spec.terminationGracePeriodSeconds / 0 == 1",
	"object.spec.terminationGracePeriodSeconds % 7 == 0", "9223372036854775807 + 1 > 0", "-(-9223372036854775807 - 1) > 0", "1.0 / 0.0 > 1.0", "uint(3) - uint(4) > uint(0)",
	"double(object.spec.terminationGracePeriodSeconds) * 1.5 < 3.0", "string(object.spec.terminationGracePeriodSeconds) == '46'", "int('x') == 1",
	"object.metadata.name + '-x' == 'y'", "object.metadata.name.size() == 99", "size(object.spec.containers) == 1", "object.metadata.name.matches('^[a-c]+$')",
	"object.metadata.name.matches(object.metadata.namespace)", "'(' .matches(object.metadata.name)", "object.metadata.name.contains('zz')", "object.metadata.name.endsWith('z')",
	"object.metadata.name.upperAscii() == 'x'", "object.metadata.name.replace('w', 'x') == 'w'", "object.metadata.name.charAt(9) == 'w'", "object.metadata.name.substring(1, 9) == ''",
	"object.metadata.name.indexOf('e') == 5", "'a,b'.split(',') == ['a']", "['a', 'b'].join('-') == 'a'", "'%s is %d'.format([object.metadata.name, 3]) == ''", "'  x '.trim() == ''",
	"object.metadata.name.lastIndexOf('b') == 0", "strings.quote(object.metadata.annotations.note) == ''", "object.metadata.name.reverse() == 'x'",
	"object.metadata.labels.size() == 9", "'app' in object.metadata.labels && false", "object.metadata.labels.all(k, k.size() > 3)", "object.metadata.labels.exists(k, object.metadata.labels[k] == 'zz')",
	// Macros.
	"object.spec.containers.all(c, c.image.contains(':'))", "object.spec.containers.exists(c, c.name == 'z')", "object.spec.containers.exists_one(c, c.name != '')",
	"object.spec.containers.map(c, c.name) == ['c']", "object.spec.containers.filter(c, has(c.ports)).size() == 2", "object.spec.containers.map(c, has(c.ports), c.ports[0].containerPort) == [81]",
	"object.spec.containers.all(c, c.resources.limits.memory == '4Gi')", "object.spec.containers.all(c, !has(c.ports) || c.ports.all(p, p.containerPort > 100))",
	"object.spec.containers.all(c, c.?ports.orValue([]).all(p, p.?name.orValue('') != 'https'))", "object.spec.containers.all(i, c, i > 5)", "object.metadata.labels.transformList(k, v, k + v) == []",
	"object.metadata.labels.transformMap(k, v, v + 'x') == {}", "object.spec.containers.existsOne(i, c, c.name == 'zz')", "[1, 2, 3].exists(i, i > object.spec.terminationGracePeriodSeconds)",
	"object.spec.containers.all(c, c.nothing == 1) || true", "object.spec.containers.exists(c, c.nothing == 1) && false",
	// Libraries.
	"quantity(object.spec.containers[0].resources.limits.memory).isGreaterThan(quantity('8Gi'))", "quantity('x').isInteger()", "isQuantity(object.metadata.name)", "quantity('1').add(2).asInteger() == 4",
	"quantity(object.spec.containers[0].resources.limits.cpu).compareTo(quantity('1')) == 1", "ip('10.0.0.1').isLoopback()", "ip('x').family() == 4", "cidr('10.0.0.0/8').containsIP('11.0.0.1')",
	"isIP(object.metadata.name)", "url('https://example.com:80/a?b=c').getHost() == ''", "isURL('x y')", "url('::').getHost() == ''", "format.dns1123Label().validate('A_b').hasValue() == false",
	"!format.named('dns1123Label').hasValue()", "semver('1.2.3').isLessThan(semver('1.0.0'))", "isSemver('x')", "semver('v1').major() == 1",
	"sets.contains(['a'], [object.metadata.name])", "sets.equivalent([1, 2], [2, 1, 3])", "sets.intersects(['a'], ['b'])", "[3, 1, 2].isSorted()", "[1, 2].sum() == 4", "[1, 2].min() == 2", "[].max() == 1",
	"[1, 2, 2].indexOf(3) == 1", "[3, 1].sort() == [3, 1]", "[1, 2, 2].distinct() == [1]", "[[1], [2]].flatten() == [1]", "lists.range(3) == [0]", "[1, 2, 3].slice(1, 9) == []", "[1, 2].reverse() == [1, 2]",
	"object.metadata.name.find('[x-z]+') == 'w'", "object.metadata.name.findAll('[a-z]').size() == 9", "object.spec.containers[0].image.find('[') == ''",
	// Time.
	"duration('1h') > duration('2h')", "duration(object.metadata.name) > duration('1s')", "timestamp('2020-01-01T00:00:00Z') > timestamp('2021-01-01T00:00:00Z')",
	"timestamp(object.metadata.creationTimestamp) < timestamp('1999-01-01T00:00:00Z')", "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2021", "duration('90m').getHours() == 2",
	// The request, the user, the namespace.
	"request.operation == 'CREATE'", "request.operation != 'CREATE'", "request.userInfo.username == 'nobody'", "request.userInfo.uid == 'x'", "has(request.userInfo.uid)", "'devs' in request.userInfo.groups",
	"request.userInfo.extra['amr'].exists(a, a == 'otp')", "has(request.userInfo.extra)", "request.kind.kind == 'X'", "request.kind.group == '' && request.kind.version == 'v2'", "request.resource.resource == 'x'",
	"request.requestKind == request.kind && false", "request.requestResource.resource == 'pods'", "request.name == 'x'", "has(request.name)", "request.namespace == 'x'", "has(request.namespace)", "request.subResource == ''",
	"has(request.subResource)", "has(request.requestSubResource)", "request.dryRun", "!request.dryRun", "has(request.options) && request.options.kind == 'X'", "request.options.dryRun == ['All']", "dyn(request).uid == 'x'", "dyn(request).object == 1",
	"type(request) == map", "string(request.dryRun) == 'x'", "namespaceObject == null", "namespaceObject.metadata.name == 'x'", "namespaceObject.metadata.labels.env == 'prod'", "namespaceObject.metadata.annotations['owner'] == 'bob'",
	"has(namespaceObject.metadata.labels)", "namespaceObject.spec.finalizers == []", "namespaceObject.status.phase == 'Gone'", "has(namespaceObject.metadata.deletionTimestamp)", "dyn(namespaceObject).kind == 'Namespace'",
	"namespaceObject.metadata.labels.all(k, k != 'env')", "type(namespaceObject) == map",
	// Errors that are and that are not hidden.
	"false && object.nothing", "object.nothing.more == 1 || true", "object.nothing == 1 ? true : false", "true ? object.metadata.name == 'x' : object.nothing", "!(object.metadata.name == 'web')",
	"[object.metadata.name, 1][1] == 2", "{'a': 1}['b'] == 1", "{'a': 1, 'a': 2}.size() == 1", "object.metadata.labels[object.metadata.name] == ''", "object['metadata']['name'] == 'x'", "object.metadata.labels[1] == ''",
	"bytes(object.metadata.name) == b'x'", "b'ab'.size() == 3", "string(b'ab') == 'x'", "null == object.metadata.name", "object.metadata.name < 'a'", "[1, 2] + [3] == [1]", "1 in [2, 3]", "object.metadata.name in ['a', 'b']", "!has(object.metadata.name)",
	"object.metadata == {'name': 'web'}", "object.spec.containers == []", "object.metadata.labels == null", "dyn([1, 'a', true]) == []", "dyn(1) == 'a'", "1 == 1.0 && false", "dyn(object.metadata.name) > 1",
	// Compile errors.
	"object.", "nothing == 1", "request.nothing == 'x'", "params.x == 1", "1 + 'a' == 2", "object.metadata.name", "namespaceObject.metadata.managedFields == 1", "variables.x == 1", "cel.bind(x, 1, x == 1)", "'a'.matches('(')", "duration('x') > duration('1s')",
	// Costs: the first is stopped.
	"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))",
	"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, a + b > 2))",
}
