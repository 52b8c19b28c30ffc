package hostile

import (
	"maps"
	"strings"
	"sync"
)

// chain doubles a list as often as that.
const doubled = 30

// Variables are those that programs may read as variables.NAME, each with its expression, in order: they
// double the one before.
func Variables() [][2]string {
	var all [][2]string
	for _, c := range chains {
		name, last := c.name, c.first
		for i := range doubled {
			own := name
			if i < doubled-1 {
				own += string(rune('a'+i/10)) + string(rune('0'+i%10))
			}
			all = append(all, [2]string{own, strings.ReplaceAll(c.next, "%s", last)})
			last = "variables." + own
		}
	}
	return all
}

// chains are the variables that double.
var chains = []struct{ name, first, next, step string }{
	{"texts", "'ab'", "%s + %s", "x + x"},
	{"lists", "[1]", "%s + %s", "x + x"},
	{"nested", "[1]", "[%s, %s]", "[x, x]"},
	{"maps", "{'a': dyn(1)}", "{'a': dyn(%s), 'b': dyn(%s)}", "{'a': dyn(x), 'b': dyn(x)}"},
	{"options", "[optional.of(dyn(1))]", "[optional.of(dyn(%s)), optional.of(dyn(%s))]", "[optional.of(dyn(x)), optional.of(dyn(x))]"},
}

// Inline returns an expression that does not read variables, but makes them.
func Inline(text string) string { return inline(text, doubled) }

// Small returns an expression in which variables double a few times only, so that it has a value.
func Small(text string) string { return inline(text, 12) }

func inline(text string, times int) string {
	for _, c := range chains {
		if strings.Contains(text, "variables."+c.name) {
			text = strings.ReplaceAll(text, "variables."+c.name, "[dyn("+c.first+")]"+strings.Repeat(".map(x, dyn("+c.step+"))", times)+"[0]")
		}
	}
	return text
}

// Needed returns the variables that an expression reads, and those that these read.
func Needed(text string) [][2]string {
	var all [][2]string
	for _, v := range Variables() {
		for _, c := range chains {
			if strings.HasPrefix(v[0], c.name) && strings.Contains(text, "variables."+c.name) {
				all = append(all, v)
			}
		}
	}
	return all
}

// ForAccess returns an expression about a request of an authorization policy in place of one about an
// object; false if it needs what there is not.
func ForAccess(text string) (string, bool) {
	text = Inline(text)
	if strings.Contains(text, "authorizer") || strings.Contains(text, "namespaceObject") || strings.Contains(text, "params") {
		return "", false
	}
	return toAccess.Replace(text), true
}

var toAccess = strings.NewReplacer(
	"request.userInfo.groups", "request.groups", "request.userInfo.extra", "request.extra", "request.userInfo.username", "request.user", "request.options", "request.extra",
	"object.metadata.finalizers", "request.groups", "object.metadata.ownerReferences", "request.groups", "object.metadata.labels", "request.extra",
	"object.data.size()", "request.extra.size()", "object.data.bytes", "request.extra['bytes'][0]", "object.data.digits", "request.extra['digits'][0]", "object.data.pattern", "request.extra['pattern'][0]",
	"object.data.combining", "request.extra['combining'][0]", "object.data.nines", "request.extra['nines'][0]", "object.data.controls", "request.extra['controls'][0]",
	"object.data.text", "request.name", "object.data.half", "request.namespace", "object.?data", "optional.of(request.extra)", "oldObject", "request.extra", "object", "request.extra",
)

// values are hostile expressions of each kind. A %s in one is any text.
var values = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{"string": texts(), "bytes": {"bytes(%s)", `b'\xff\xfe\x80'`, `b'\xff' + bytes(object.data.half)`}}
	maps.Copy(all, numbers)
	maps.Copy(all, collections)
	maps.Copy(all, opaque)
	return all
})

func texts() []string {
	return []string{
		"object.data.text", "(object.data.half + 'b')", "object.data.half", "object.data.pattern", "object.data.digits", "object.data.nines", "object.data.combining", "object.data.controls",
		"('1e-' + object.data.digits)", "('1E+' + object.data.digits)", "(object.data.nines + 'e99999')", "'1e-99999'", "'9e+20000'", "'0.' + object.data.nines", "'%.999999999f'", "'%.9999s'", "('%.' + object.data.digits + 'e')",
		"'%s%s%s%d%x%b'", "'%X'", "''", "'a'", "'x{1000}'", "'(x{1000}){1000}'", "'(a*)*b'", "'(a|aa)+$'", `'(?i)\\p{L}{500}'`, `'[\\p{L}\\p{N}]{300}b'`, `'(?s).{1000}$'`, `'(.*)(.*)(.*)(.*)b'`,
		`'\\PM\\pM*'`, `'(?i)` + strings.Repeat("k", 200) + "'", `'^(([a-z])+.)+[A-Z]([a-z])+$'`, "'('", "'America/New_York'", "'Asia/Kolkata'", "'../../../../etc/passwd'", "'+99:99'", "'-00:60'", "'UTC'",
		"lists.range(20000).map(i, 'ab').join(',')", "object.data.text.replace('a', 'bb')", "variables.texts", "request.userInfo.username", "namespaceObject.metadata.labels['text']",
		"('1.2.3-' + object.data.text)", "('https://' + object.data.half + ':8443/?' + object.data.text)", "('http://a/?' + lists.range(20000).map(i, 'a' + string(i) + '=%25').join('&'))", "('/' + object.data.combining)",
		"'::ffff:1.2.3.4'", "'2001:db8::/32'", "'10.0.0.0/8'", "'9999-12-31T23:59:59.999999999Z'", "'9223372036s'", "('0.' + object.data.nines + 's')", "lists.range(50000).map(i, '1h').join()", "string(object.data.bytes)",
		"lists.range(10000).map(i, 'a' + string(i) + '=b').join(',')", "('a in (' + lists.range(20000).map(i, 'v' + string(i)).join(',') + ')')", "'dns1123Label'", `'\u202e\u0000\U0010ffff'`,
	}
}

var numbers = map[string][]string{
	"int":       {"0", "-1", "1", "1000", "100000", "1000000", "999999999", "9223372036854775807", "(-9223372036854775807 - 1)", "object.data.size()"},
	"uint":      {"0u", "1u", "18446744073709551615u"},
	"double":    {"0.0", "1e308", "-1.7e308", "5e-324", "double('NaN')", "double('-Infinity')", "0.1"},
	"bool":      {"true", "false", "has(object.metadata)"},
	"null_type": {"null"},
	"timestamp": {"timestamp('0001-01-01T00:00:00Z')", "timestamp('9999-12-31T23:59:59.999999999Z')"},
	"duration":  {"duration('9223372036s')", "duration('-9223372036s')", "duration('1ns')"},
	"type":      {"type(variables.nested)", "type(object)"},
}

var collections = map[string][]string{
	listKind: {
		"object.metadata.finalizers", "object.metadata.ownerReferences", "request.userInfo.groups", "lists.range(990000)", "lists.range(20000)", "[]", "variables.lists", "variables.nested", "[variables.maps]", "variables.options",
		"lists.range(20000).map(i, object.data.text)", "object.data.text.split('')", "object.data.text.findAll('a')", "[dyn(1), 'a', 2.5, null, {}, [variables.nested]]", "[dyn(object), object, oldObject]",
		"lists.range(300).map(i, lists.range(300))", "lists.range(2000).map(i, {string(i): i})", "lists.range(3000).map(i, object)", "lists.range(5000).map(i, quantity('1Ki'))", "lists.range(3000).map(i, -i)",
		"[optional.none(), optional.of(variables.maps)]", "lists.range(2000).map(i, timestamp(i))", "[object.data.text, object.data.half, object.data.text]", "lists.range(300).map(i, b'\\xff')",
	},
	"list(int)":       {"lists.range(990000)", "lists.range(3000).map(i, -i)", "[]"},
	"list(uint)":      {"lists.range(100000).map(i, uint(i))"},
	"list(double)":    {"lists.range(100000).map(i, double(i) / 3.0)", "lists.range(1000).map(i, double('NaN'))"},
	"list(bool)":      {"lists.range(100000).map(i, i > 5)"},
	"list(string)":    {"object.metadata.finalizers", "object.data.text.split('')", "lists.range(2000).map(i, object.data.text)", "request.userInfo.groups", "lists.range(20000).map(i, '')", "lists.range(1000).map(i, %s)"},
	"list(bytes)":     {"lists.range(1000).map(i, bytes(object.data.half))", "lists.range(100000).map(i, b'\\xff')"},
	"list(timestamp)": {"lists.range(20000).map(i, timestamp(i))"},
	"list(duration)":  {"lists.range(20000).map(i, duration('1s'))"},
	"list(list(dyn))": {"lists.range(300).map(i, lists.range(300))", "[variables.nested, variables.nested]"},
	mapKind: {
		"object", "oldObject", "object.metadata.labels", "object.data", "request.userInfo.extra", "variables.maps", "{object.data.text: variables.nested}", "{}",
		"lists.range(10000).transformMapEntry(i, v, {string(i): object})", "lists.range(10000).transformMapEntry(i, v, {v: [variables.nested, v]})",
	},
	optionalKind: {"optional.of(variables.nested)", "optional.of(variables.maps)", "optional.ofNonZeroValue(object)", "optional.none()", "object.?data[?%s]", "optional.of(%s)"},
}

var opaque = map[string][]string{
	"kubernetes.Quantity":                    {"quantity(%s)", "quantity('1e-999')", "quantity('9223372036854775807E')", "quantity('9e+9999')", "quantity('1e-9999')", "quantity('1n')"},
	"net.IP":                                 {"ip('::ffff:1.2.3.4')", "ip('10.0.0.1')", "ip('2001:db8::1')"},
	"net.CIDR":                               {"cidr('::/0')", "cidr('10.0.0.0/8')"},
	"kubernetes.URL":                         {"url('https://' + object.data.half + '/')", "url('http://a/?' + lists.range(20000).map(i, 'a' + string(i) + '=1').join('&'))", "url('http://a/' + object.data.text)", "url('/' + %s)"},
	"kubernetes.Semver":                      {"semver('1.2.3')", "semver('1.2.3-' + object.data.half)", "semver('1.2.3-' + lists.range(20000).map(i, 'a').join('.'))", "semver(%s)"},
	"kubernetes.NamedFormat":                 {"format.dns1123Label()", "format.uuid()", "format.date()", "format.datetime()", "format.labelValue()", "format.uri()", "format.byte()", "format.qualifiedName()", "format.dns1123Subdomain()"},
	"kubernetes.authorization.Authorizer":    {"authorizer", "authorizer.serviceAccount('shop', 'builder')"},
	"kubernetes.authorization.PathCheck":     {"authorizer.path('/healthz')", "authorizer.path(%s)"},
	"kubernetes.authorization.GroupCheck":    {"authorizer.group('apps')", "authorizer.group(%s)"},
	"kubernetes.authorization.ResourceCheck": {"authorizer.requestResource", "authorizer.group('').resource(%s)", "authorizer.group('').resource('pods').labelSelector(%s)", "authorizer.group('').resource('pods').fieldSelector(%s)"},
	"kubernetes.authorization.Decision":      {"authorizer.path('/x').check('get')", "authorizer.group('').resource('pods').name(object.data.text).check('list')"},
}

// macros are those of the parser, as calls.
func macros() []Form {
	return []Form{
		{"all", "%s.all(m, m == %s)", []string{listKind, anyKind}, "bool"},
		{"exists", "%s.exists(m, m == %s)", []string{listKind, anyKind}, "bool"},
		{"exists_one", "%s.exists_one(m, m == %s)", []string{mapKind, anyKind}, "bool"},
		{"filter", "%s.filter(m, m != %s)", []string{listKind, anyKind}, listKind},
		{"map", "%s.map(m, [m, %s])", []string{listKind, anyKind}, listKind},
		{"map in map", "%s.map(m, %s.map(n, [m, n]))", []string{listKind, listKind}, listKind},
		{"transformList", "%s.transformList(m, n, {m: n})", []string{mapKind}, listKind},
		{"transformMap", "%s.transformMap(m, n, [n, m, %s])", []string{mapKind, anyKind}, mapKind},
		{"transformMapEntry", "%s.transformMapEntry(m, n, {string(m) + %s: n})", []string{listKind, "string"}, mapKind},
		{"sortBy", "%s.sortBy(m, string(m) + %s)", []string{"list(int)", "string"}, listKind},
		{"sortBy of texts", "%s.sortBy(m, m.size())", []string{"list(string)"}, listKind},
		{"cel.bind", "cel.bind(m, %s, [m, m, %s])", []string{anyKind, anyKind}, listKind},
		{"optMap", "%s.optMap(m, [m, m, %s])", []string{optionalKind, anyKind}, optionalKind},
		{"optFlatMap", "%s.optFlatMap(m, optional.of([m, m]))", []string{optionalKind}, optionalKind},
		{"has", "has(dyn(%s).a)", []string{mapKind}, "bool"},
		{"a text that is added to", "lists.range(1000).map(m, %s + %s)", []string{"string", "string"}, listKind},
		{"a map that is made", "{%s: %s, %s: %s}", []string{"string", anyKind, "string", anyKind}, mapKind},
		{"a list that is made", "[%s, %s, %s, optional.of(%s)]", []string{anyKind, anyKind, anyKind, anyKind}, listKind},
		{"JSONPatch", "[JSONPatch{op: 'add', path: '/metadata/annotations/' + %s, value: %s}]", []string{"string", anyKind}, "patches"},
		{"apply", "Object{data: {'a': %s}, metadata: Object.metadata{annotations: {%s: %s}}}", []string{"string", "string", "string"}, "applied"},
	}
}
