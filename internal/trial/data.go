package trial

import (
	"cmp"
	"context"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/rule"
)

// everyOne finds that a problem is with every object, whatever it has.
var everyOne = regexp.MustCompile(`^every \S+ (that it was tried on )?would be refused`)

// sampleData are the data of an object policy: no object that is named, and lists of samples.
type sampleData struct {
	// lists has the objects of each kind that is listed.
	lists map[schema.GroupVersionKind][]any
}

// resolve returns the value of an object or a list. Known is false if there is no sample of it.
func (d *sampleData) resolve(o *fact.Object) (value any, known bool, err error) {
	if !o.All {
		return nil, o.Name != "", &fact.NotFound{Kind: o.Kind, Name: o.Name}
	}
	all, known := d.lists[schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)]
	for _, item := range all {
		object, _ := item.(map[string]any)
		known = known && (o.Selector == nil || o.Selector.Matches(object))
	}
	return all, known, nil
}

// canBeSampled reports whether all data of an object policy are lists, or objects that need not exist.
func canBeSampled(c *compile.Compiled) bool {
	spec := c.ObjectSpec()
	if spec == nil || len(spec.Data) == 0 {
		return false
	}
	for i := range spec.Data {
		d := &spec.Data[i]
		if d.List == nil && (d.Object == nil || d.OnMissing != "Null") {
			return false
		}
	}
	return true
}

// tryData tries an object policy with samples of its data: what it fails on is told once.
func (t *Trial) tryData(ctx context.Context, set *kind.Set, c *compile.Compiled, words words, about explained) []rule.Problem {
	if !canBeSampled(c) {
		return nil
	}
	p := c.Typed()
	least, full := map[schema.GroupVersionKind][]any{}, map[schema.GroupVersionKind][]any{}
	empty := map[schema.GroupVersionKind][]any{}
	name := ""
	for _, d := range p.Data() {
		if name = cmp.Or(name, d.Name); !d.List || set.Schema(d.Kind) == nil {
			continue
		}
		name = d.Name
		m := newMaker(set, d.Kind, words, &rule.Rule{Policy: c.Ref})
		all := stored(m.full(), nil)
		least[d.Kind], full[d.Kind], empty[d.Kind] = []any{stored(m.least(), all)}, []any{all}, []any{}
	}
	tries := []struct {
		lists    map[schema.GroupVersionKind][]any
		when, do string
	}{
		{empty, "while the data do not exist, ", "they are null then: ask first, data." + name + " != null && …"},
		{full, "", ""},
		{least, "while data." + name + " has an object without optional fields, ", "ask first whether each field of the objects in data." + name + " is there, with has() or an optional selection"},
	}
	if len(empty) == 0 {
		tries = tries[:1]
	} else {
		tries[0].when, tries[0].do = "while data."+name+" has no objects, ", "ask first, size(data."+name+") > 0 && …"
	}
	for _, try := range tries {
		about.data = &sampleData{lists: try.lists}
		for _, r := range p.Unbound() {
			t.free(&r, p, about.targets)
			for _, problem := range t.tryRule(ctx, set, &r, words, about) {
				// Whatever every object is refused for may be due to the data, which have no keys of maps.
				every := everyOne.MatchString(problem.What) && try.when == ""
				if strings.Contains(problem.What, refused) && !every {
					problem.Severity = rule.Warning
					problem.What, problem.Do = try.when+problem.What, cmp.Or(try.do, problem.Do)
					return []rule.Problem{problem}
				}
			}
		}
	}
	return nil
}

// stored returns an object as it is stored: with what API servers set, and the status of a full one, which controllers set.
func stored(object, full map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	if metadata != nil {
		metadata["uid"], metadata["resourceVersion"], metadata["creationTimestamp"] = "00000000-0000-0000-0000-000000000001", "1", "2020-01-01T00:00:00Z"
	}
	if status, has := full["status"]; has {
		object["status"] = status
	}
	return object
}
