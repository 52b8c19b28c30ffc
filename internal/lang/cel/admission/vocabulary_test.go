package admission_test

import (
	"fmt"
	"slices"

	"github.com/google/cel-go/cel"
)

// texts are literals of strings.
var texts = []string{
	"", "a", "web", "app", "Web-1", "a,b,,c", "10", "-3", "1.5", "true", "  pad\t", "line\nbreak", "100% %s", "ünï-😀-код", "'quoted\"", "a/b", "x.y.z", "aaaaaaaaaaaaaaaaaaaaaaaa",
}

// fields are selected from what may not have them.
var fields = []string{"spec", "metadata", "labels", "app", "name", "nothing", "text", "a", "containers", "`a/b`"}

// keys are what maps have, mostly.
var keys = []string{"app", "memory", "name", "a", "env", "nothing"}

// A poolKey is the argument of a function.
type poolKey struct {
	function string
	argument int
}

// pools are texts of the form that a function takes, and some that are not.
var pools = map[poolKey][]string{
	{"quantity", 0}:         {"1Gi", "500m", "-2", "1e3", "0.5Ki", "9223372036854775807", "x", "", "100000000000000000000"},
	{"isQuantity", 0}:       {"1Gi", "x", "1.5.2", "12"},
	{"ip", 0}:               {"10.0.0.1", "127.0.0.1", "::1", "fe80::1", "ff02::1", "1.2.3", "::ffff:1.2.3.4", "0.0.0.0"},
	{"isIP", 0}:             {"10.0.0.1", "::1", "x", "01.2.3.4"},
	{"ip.isCanonical", 0}:   {"10.0.0.1", "2001:DB8::1", "x", "::0"},
	{"cidr", 0}:             {"10.0.0.0/8", "10.1.2.3/16", "2001:db8::/32", "10.0.0.0", "x/1"},
	{"isCIDR", 0}:           {"10.0.0.0/8", "x"},
	{"containsIP", 1}:       {"10.0.0.1", "11.0.0.1", "x", "::1"},
	{"containsCIDR", 1}:     {"10.0.0.0/16", "11.0.0.0/8", "x"},
	{"url", 0}:              {"https://user@example.com:8443/a%20b?x=1&x=2#f", "/path", "http://[::1]:80", "::", "not a url", "mailto:a@b"},
	{"isURL", 0}:            {"https://example.com", "x y", "/a"},
	{"semver", 0}:           {"1.2.3", "v1.2.3", "1.0.0-rc.1+build", "1.2", "x", "0.0.0"},
	{"isSemver", 0}:         {"1.2.3", "v1", "x"},
	{"matches", 1}:          {"^[a-z]+$", "[0-9]{2,}", "", "a|b", ".*", "(", "^.{3}$", "(?i)WEB"},
	{"find", 1}:             {"[a-z]+", "[0-9]", "", "(", "b$"},
	{"findAll", 1}:          {"[a-z]", "[0-9]+", "", "(", "."},
	{"timestamp", 0}:        {"2024-02-29T12:34:56Z", "2024-02-30T00:00:00Z", "2023-01-01T00:00:00+14:00", "x", "0001-01-01T00:00:00Z", "10000-01-01T00:00:00Z"},
	{"duration", 0}:         {"1h", "-5m", "1.5s", "x", "", "3000000h", "1d"},
	{"format", 0}:           {"%s", "%d and %s", "%x", "%.2f", "%b", "%o", "%e", "%", "%q", "%s%s%s", "plain %%", "%X"},
	{"format.named", 0}:     {"dns1123Label", "dns1123Subdomain", "labelValue", "uuid", "uri", "date", "datetime", "byte", "nothing", "qualifiedName"},
	{"validate", 1}:         {"web", "A_b", "a.b", "", "2024-01-01", "0123456789abcdef", "https://x"},
	{"fieldSelector", 1}:    {"spec.nodeName=n1", "a!=b,c=d", "bad", "", "a==b"},
	{"labelSelector", 1}:    {"a=b", "a in (b,c)", "!x", "a!=b,c", "=bad==,", "a>1", "x notin (y)"},
	{"check", 1}:            {"get", "list", "create", "*"},
	{"group", 1}:            {"", "apps", "*"},
	{"resource", 1}:         {"pods", "deployments"},
	{"path", 1}:             {"/healthz", "/metrics", "bad path"},
	{"serviceAccount", 1}:   {"shop", "Bad_NS", ""},
	{"serviceAccount", 2}:   {"builder", "bad name"},
	{"int", 0}:              {"1", "-7", "9223372036854775808", "x", "1.0"},
	{"uint", 0}:             {"1", "-7", "18446744073709551616", "x"},
	{"double", 0}:           {"1", "1.5e3", "nan", "Infinity", "x"},
	{"bool", 0}:             {"true", "TRUE", "t", "yes", "0"},
	{"getFullYear", 1}:      zones,
	{"getMonth", 1}:         zones,
	{"getDate", 1}:          zones,
	{"getDayOfMonth", 1}:    zones,
	{"getDayOfWeek", 1}:     zones,
	{"getDayOfYear", 1}:     zones,
	{"getHours", 1}:         zones,
	{"getMinutes", 1}:       zones,
	{"getSeconds", 1}:       zones,
	{"getMilliseconds", 1}:  zones,
	{"jsonpatch.escape", 0}: {"a/b~c"},
}

var zones = []string{"UTC", "America/New_York", "+02:00", "-04:30", "Nowhere/Bad", "02:00", ""}

// opaques are expressions of types without literals.
var opaques = map[string][]string{
	"kubernetes.URL":                         {`url("https://user@example.com:8443/a?x=1&x=2")`, `url("/p")`},
	"kubernetes.Quantity":                    {`quantity("1Gi")`, `quantity("500m")`, `quantity("-3")`, `quantity("1e30")`},
	"net.IP":                                 {`ip("10.0.0.1")`, `ip("::1")`},
	"net.CIDR":                               {`cidr("10.0.0.0/8")`, `cidr("fd00::1/64")`},
	"kubernetes.Semver":                      {`semver("1.2.3")`, `semver("1.0.0-rc.1")`, `semver("v2", true)`},
	"kubernetes.NamedFormat":                 {`format.dns1123Label()`, `format.uuid()`, `format.date()`, `format.labelValue()`},
	"kubernetes.authorization.Authorizer":    {"authorizer", `authorizer.serviceAccount("shop", "builder")`},
	"kubernetes.authorization.PathCheck":     {`authorizer.path("/healthz")`},
	"kubernetes.authorization.GroupCheck":    {`authorizer.group("apps")`, `authorizer.group("")`},
	"kubernetes.authorization.ResourceCheck": {"authorizer.requestResource", `authorizer.group("").resource("pods").namespace("shop")`, `authorizer.group("").resource("pods").name("x").subresource("log")`},
	"kubernetes.authorization.Decision":      {`authorizer.path("/x").check("get")`, `authorizer.requestResource.check("create")`, `authorizer.group("").resource("pods").check("list")`},
	"kubernetes.AdmissionRequest":            {"request"},
	"kubernetes.GroupVersionKind":            {"request.kind", "request.requestKind"},
}

// paths are what objects and requests have, by the type of most values there.
var paths = map[string]map[string][]string{
	"widget": {
		"string": {
			"object.metadata.name", "object.metadata.labels.app", "object.metadata.labels['a/b']", "object.metadata.annotations.note", "object.spec.text", "object.spec.unicode", "object.spec.host",
			"object.spec.names[0]", "object.spec.deep.a.b.c.d", "object.spec.containers[0].image", "object.spec.quantity", "object.spec.url", "object.spec.ip", "object.spec.version", "object.spec.`dash-ed`",
			"object.spec.when", "object.spec.wait", "object.kind", "object.spec.containers[1].name", "object.spec.limits.memory",
		},
		"int":       {"object.spec.replicas", "object.spec.max", "object.spec.min", "object.spec.numbers[1]", "object.metadata.generation", "object.spec.containers[0].ports[0].port", "object.spec.zero"},
		"double":    {"object.spec.ratio", "object.spec.huge", "object.spec.ratios[0]"},
		"bool":      {"object.spec.flag", "object.spec.containers[0].ready", "has(object.spec.flag)", "has(object.spec.nothing)", "has(object.spec.deep.a)", "has(object.spec.null)"},
		"null_type": {"object.spec.null", "object.spec.containers[0].none"},
		"list":      {"object.spec.names", "object.spec.numbers", "object.spec.containers", "object.spec.empty", "object.spec.mixed", "object.spec.containers[0].ports", "object.spec.ratios", "object.spec.matrix"},
		"map":       {"object.metadata.labels", "object.spec.limits", "object.spec.emptyMap", "object.spec.deep", "object.spec.containers[0]", "object.spec.one", "object"},
		"optional_type": {
			"object.?spec.?text", "object.spec.?nothing", "object.spec.?replicas", "object.metadata.?labels[?'app']", "object.spec.names[?0]", "object.spec.?flag", "object.spec.?null", "object.?spec.?containers[?5].?name",
		},
	},
	"pod": {
		"string": {
			"object.metadata.name", "object.metadata.labels.app", "object.metadata.labels['app']", "object.metadata.annotations.note", "object.spec.containers[0].image", "object.spec.containers[0].name",
			"object.spec.nodeName", "object.spec.serviceAccountName", "object.spec.containers[0].resources.limits.memory", "object.spec.containers[0].env[0].value", "object.spec.volumes[0].name",
			"object.metadata.creationTimestamp", "object.spec.restartPolicy", "object.status.phase",
		},
		"int":       {"object.spec.terminationGracePeriodSeconds", "object.spec.containers[0].ports[0].containerPort", "object.spec.securityContext.runAsUser", "object.spec.priority", "object.spec.containers[0].livenessProbe.httpGet.port"},
		"double":    {"object.spec.ratio"},
		"bool":      {"object.spec.hostNetwork", "object.spec.containers[0].securityContext.privileged", "has(object.spec.hostNetwork)", "has(object.spec.volumes)", "has(object.spec.containers[0].securityContext)", "has(object.metadata.labels.app)"},
		"null_type": {"object.metadata.creationTimestamp", "object.spec.nothing"},
		"list":      {"object.spec.containers", "object.spec.initContainers", "object.spec.containers[0].ports", "object.spec.containers[0].env", "object.spec.volumes", "object.spec.containers[0].command", "object.metadata.finalizers"},
		"map":       {"object.metadata.labels", "object.spec.nodeSelector", "object.spec.containers[0].resources.limits", "object.spec.containers[0]", "object.spec.volumes[0]", "object.spec.securityContext", "object.metadata"},
		"optional_type": {
			"object.?spec.?nodeName", "object.spec.?hostNetwork", "object.metadata.?labels[?'app']", "object.spec.containers[?1].?image", "object.spec.?securityContext.?runAsUser",
		},
	},
	"request": {
		"string": {
			"request.operation", "request.userInfo.username", "request.userInfo.uid", "request.namespace", "request.name", "request.kind.kind", "request.resource.resource", "request.subResource", "request.requestKind.group",
			"namespaceObject.metadata.name", "namespaceObject.metadata.labels.env", "namespaceObject.status.phase", "variables.text", "variables.chain", "params.data.key", "request.userInfo.groups[0]", "request.options.fieldManager",
		},
		"int":           {"variables.number", "namespaceObject.metadata.generation", "variables.list[1]", "params.spec.replicas"},
		"double":        {"variables.half"},
		"bool":          {"request.dryRun", "has(request.namespace)", "has(request.userInfo.uid)", "variables.yes", "has(variables.text)", "has(namespaceObject.metadata.labels)", "variables.broken", "variables.uncompiled"},
		"null_type":     {"variables.nil"},
		"list":          {"request.userInfo.groups", "variables.list", "variables.names", "namespaceObject.spec.finalizers", "request.userInfo.extra['amr']"},
		"map":           {"request.userInfo.extra", "namespaceObject.metadata.labels", "variables.labels", "params", "params.data", "request.options"},
		"optional_type": {"variables.option", "request.?namespace", "params.?data.?key"},
		"timestamp":     {"namespaceObject.metadata.creationTimestamp", "variables.moment"},
		"duration":      {"variables.span"},
	},
}

// macros are what the parser replaces: productions that no function is.
func macros() []*production {
	a, dyn, text := cel.TypeParamType("A"), cel.DynType, cel.StringType
	list := cel.ListType
	iterated := func(g *generator, depth int, body func(name, ranged string, element *cel.Type) string) string {
		element := simpleTypes[g.IntN(5)]
		ranged := g.write(list(element), depth-1)
		if g.IntN(4) == 0 {
			element, ranged = text, g.write(cel.MapType(text, simpleTypes[g.IntN(5)]), depth-1)
		}
		name := g.bind(element)
		defer g.unbind(1)
		return body(name, ranged, element)
	}
	twice := func(g *generator, depth int, format string, bodies ...*cel.Type) string {
		key, value := cel.IntType, simpleTypes[g.IntN(5)]
		ranged := g.write(list(value), depth-1)
		if g.IntN(2) == 0 {
			key, ranged = text, g.write(cel.MapType(text, value), depth-1)
		}
		first, second := g.bind(key), g.bind(value)
		defer g.unbind(2)
		args := []any{ranged, first, second}
		for _, t := range bodies {
			args = append(args, g.write(t, depth-1))
		}
		return fmt.Sprintf(format, args...)
	}
	quantifier := func(name string) *production {
		return &production{id: "macro " + name, result: cel.BoolType, macro: func(g *generator, _ bindings, depth int) string {
			return iterated(g, depth, func(v, ranged string, _ *cel.Type) string {
				return fmt.Sprintf("%s.%s(%s, %s)", ranged, name, v, g.write(cel.BoolType, depth-1))
			})
		}}
	}
	two := func(name, format string, result *cel.Type, bodies func(g *generator, b bindings) []*cel.Type) *production {
		return &production{id: "macro " + name, result: result, macro: func(g *generator, b bindings, depth int) string {
			return twice(g, depth, format, bodies(g, b)...)
		}}
	}
	boolean := func(*generator, bindings) []*cel.Type { return []*cel.Type{cel.BoolType} }
	of := func(more ...*cel.Type) func(*generator, bindings) []*cel.Type {
		return func(g *generator, b bindings) []*cel.Type { return append(slices.Clip(more), g.resolve(a, b)) }
	}
	return []*production{
		quantifier("all"), quantifier("exists"), quantifier("exists_one"),
		{id: "macro map", result: list(a), macro: func(g *generator, b bindings, depth int) string {
			return iterated(g, depth, func(v, ranged string, _ *cel.Type) string {
				return fmt.Sprintf("%s.map(%s, %s)", ranged, v, g.write(g.resolve(a, b), depth-1))
			})
		}},
		{id: "macro map with filter", result: list(a), macro: func(g *generator, b bindings, depth int) string {
			return iterated(g, depth, func(v, ranged string, _ *cel.Type) string {
				return fmt.Sprintf("%s.map(%s, %s, %s)", ranged, v, g.write(cel.BoolType, depth-1), g.write(g.resolve(a, b), depth-1))
			})
		}},
		{id: "macro filter", result: list(a), macro: func(g *generator, b bindings, depth int) string {
			element := g.resolve(a, b)
			ranged := g.write(list(element), depth-1)
			v := g.bind(element)
			defer g.unbind(1)
			return fmt.Sprintf("%s.filter(%s, %s)", ranged, v, g.write(cel.BoolType, depth-1))
		}},
		{id: "macro sortBy", result: list(a), macro: func(g *generator, b bindings, depth int) string {
			element := g.resolve(a, b)
			ranged := g.write(list(element), depth-1)
			v := g.bind(element)
			defer g.unbind(1)
			return fmt.Sprintf("%s.sortBy(%s, %s)", ranged, v, g.write(simpleTypes[g.IntN(3)], depth-1))
		}},
		two("all with two", "%s.all(%s, %s, %s)", cel.BoolType, boolean),
		two("exists with two", "%s.exists(%s, %s, %s)", cel.BoolType, boolean),
		two("existsOne with two", "%s.existsOne(%s, %s, %s)", cel.BoolType, boolean),
		two("transformList", "%s.transformList(%s, %s, %s)", list(a), of()),
		two("transformList with filter", "%s.transformList(%s, %s, %s, %s)", list(a), of(cel.BoolType)),
		two("transformMap", "%s.transformMap(%s, %s, %s)", cel.MapType(text, a), of()),
		two("transformMap with filter", "%s.transformMap(%s, %s, %s, %s)", cel.MapType(text, a), of(cel.BoolType)),
		two("transformMapEntry", "%s.transformMapEntry(%s, %s, {%s: %s})", cel.MapType(text, a), of(text)),
		{id: "macro optMap", result: cel.OptionalType(a), macro: func(g *generator, b bindings, depth int) string { return g.opt("optMap", g.resolve(a, b), depth) }},
		{id: "macro optFlatMap", result: cel.OptionalType(a), macro: func(g *generator, b bindings, depth int) string {
			return g.opt("optFlatMap", cel.OptionalType(g.resolve(a, b)), depth)
		}},
		{id: "macro has", result: cel.BoolType, macro: func(g *generator, _ bindings, depth int) string {
			return "has(" + g.write(cel.MapType(text, dyn), depth-1) + "." + g.pick(fields[:len(fields)-1]) + ")"
		}},
	}
}

// opt writes optMap or optFlatMap. Only a name can be the target of one in a comprehension.
func (g *generator) opt(name string, body *cel.Type, depth int) string {
	t := simpleTypes[g.IntN(5)]
	target := g.write(cel.OptionalType(t), depth-1)
	v := g.bind(t)
	defer g.unbind(1)
	return fmt.Sprintf("%s.%s(%s, %s)", target, name, v, g.write(body, depth-1))
}

// bind declares a variable, and returns its name.
func (g *generator) bind(t *cel.Type) string {
	g.locals++
	name := fmt.Sprintf("v%d", g.locals)
	g.scope = append(g.scope, local{name, t})
	return name
}

func (g *generator) unbind(n int) { g.scope = g.scope[:len(g.scope)-n] }
