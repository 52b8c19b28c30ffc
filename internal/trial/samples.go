package trial

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/rule"
)

// mostSampled limits the resources for which a policy gets samples, and samplesEach the objects of
// each, besides those with several elements in a list.
const (
	mostSampled = 8
	samplesEach = 120
)

// usual are the kinds that come first.
var usual = []string{"Pod", "Deployment", "ConfigMap", "Namespace", "Ingress", "Service"}

// A sampled is a resource with requests that a policy is for.
type sampled struct {
	typecheck.Target

	subresource string
	operations  []usher.Operation
}

// Samples returns requests that a policy is for, without user. They differ in the fields
// that its expressions read: each is there and is not, and has the constants of the expressions, and
// those that are given, as values. The same policy gets the same samples.
func Samples(kinds *kind.Set, p compile.Typed, spec any, constants ...any) []*usher.Request {
	words := wordsOf(spec)
	expressions := p.Expressions()
	checker := typecheck.New()
	reads := rule.Rule{Steps: []rule.Step{{Program: traced{uses: checker.Uses(expressions)}}}}
	constants = around(slices.Concat(checker.Constants(expressions), constants))
	var all []*usher.Request
	for _, of := range sampledResources(kinds, p.Matches()) {
		m := newMaker(kinds, of.Kind, words, &reads)
		all = append(all, of.requests(m.samples(constants))...)
	}
	return all
}

// around returns constants with values near them: larger and smaller numbers, and texts that contain
// others, begin or end with them.
func around(constants []any) []any {
	all := []any{true, false, int64(0), int64(largeNumber)}
	for _, c := range constants {
		switch v := c.(type) {
		case int64:
			all = append(all, v, v+1, v-1)
		case string:
			all = append(all, v, "x"+v, v+"x")
		default:
			all = append(all, v)
		}
	}
	return all
}

// largeNumber is more than what policies permit, of replicas or of seconds.
const largeNumber = 100000

// sampledResources returns resources of a match: those that it names, or some of those that it does
// not name.
func sampledResources(kinds *kind.Set, match *rule.ResourceMatch) []sampled {
	var all []sampled
	for r := range kinds.Resources() {
		target, ok := targetOf(r, match)
		if !ok || kinds.Schema(target.Kind) == nil {
			continue
		}
		s := sampled{Target: target}
		_, s.subresource, _ = strings.Cut(r.Name, "/")
		named := operationsIn(match)
		for _, operation := range operationsOf(r) {
			if len(named) == 0 || slices.Contains(named, operation) {
				s.operations = append(s.operations, operation)
			}
		}
		slices.Sort(s.operations)
		all = append(all, s)
	}
	rank := func(s sampled) int {
		if at := slices.Index(usual, s.Kind.Kind); at >= 0 && s.subresource == "" {
			return at
		}
		return len(usual)
	}
	slices.SortStableFunc(all, func(a, b sampled) int { return rank(a) - rank(b) })
	return all[:min(len(all), mostSampled)]
}

// requests returns requests with objects; the old object of an update is another one of them.
func (s *sampled) requests(objects []map[string]any) []*usher.Request {
	var all []*usher.Request
	for i, object := range objects {
		for n, operation := range s.operations {
			if n > 0 && i%(n+2) != 0 && len(objects) > samplesEach/2 {
				// Most objects are written by one operation; which ones differ in nothing else.
				continue
			}
			r := &usher.Request{
				Phase: usher.Validate, Operation: operation, Kind: s.Kind, Resource: s.Resource, Subresource: s.subresource, Name: "x",
			}
			if metadata, ok := object["metadata"].(map[string]any); ok {
				r.Namespace, _ = metadata["namespace"].(string)
				r.Name, _ = metadata["name"].(string)
			}
			if s.Kind.Kind == "Namespace" && s.Kind.Group == "" {
				r.Namespace = r.Name
			}
			if operation != usher.Delete {
				r.Object = usher.TreeObject(object)
			}
			if operation == usher.Update || operation == usher.Delete {
				r.OldObject = usher.TreeObject(objects[(i*7+1)%len(objects)])
			}
			all = append(all, r)
		}
	}
	return all
}

// samples returns different objects: the least one, full ones, those that lack a field, those with
// one other value, and mixtures of all that.
func (m *maker) samples(constants []any) []map[string]any {
	m.addChoices(constants)
	least, variants := m.least(), m.variants()
	all := append([]map[string]any{least}, variants...)
	optional := m.optional(least, variants[0])
	for _, p := range optional {
		all = append(all, without(variants[0], p))
	}
	deviations := m.deviations(variants[0])
	for i := 0; i < len(deviations); i += len(deviations)/(samplesEach/4) + 1 {
		all = append(all, deviations[i].object)
	}
	for i := range samplesEach / 2 {
		mixture := variants[i%len(variants)]
		for _, key := range slices.Sorted(maps.Keys(m.choices)) {
			values := m.choices[key]
			mixture = with(mixture, strings.Split(key, separator), values[pick(i, key)%len(values)])
		}
		for _, p := range optional {
			if pick(i, p.expression())%4 == 0 {
				mixture = without(mixture, p)
			}
		}
		all = append(all, mixture)
	}
	once := make([]map[string]any, 0, len(all))
	seen := map[string]bool{}
	for _, object := range all {
		if text := fmt.Sprint(object); !seen[text] && len(once) < samplesEach {
			seen[text] = true
			once = append(once, runtime.DeepCopyJSON(object))
		}
	}
	return append(once, m.crowded(once, constants)...)
}

// addChoices gives the constants to the fields that are read and can have them.
func (m *maker) addChoices(constants []any) {
	for i := range m.uses {
		for _, p := range m.uses[i].Paths {
			at := m.set.Follow(m.like, p).At
			if at == nil || len(p) == 0 || path(p).isIdentity() {
				continue
			}
			key := strings.Join(p, separator)
			for _, v := range constants {
				of := at.Kind()
				fits := of != kind.Anything && kind.Holds(of, v) && (len(at.Enum) == 0 || slices.Contains(at.Enum, v))
				if fits && !slices.Contains(m.choices[key], v) && len(m.choices[key]) < mostVariants {
					m.choices[key] = append(m.choices[key], v)
				}
			}
		}
	}
}

// pick returns a number that looks like a random one, and is always the same.
func pick(i int, key string) int {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%d %s", i, key)
	return int(h.Sum32() >> 1)
}
