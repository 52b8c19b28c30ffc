package convert

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
)

// Once returns objects of which each is there once. Those that have the kind, the namespace and the name of another
// one, and other contents, are left out, all of them: nothing says which one is meant.
func Once(objects []Foreign) (kept []*Foreign, left []Import) {
	type identity struct {
		group string
		ref   usher.PolicyRef
	}
	all := map[identity][]*Foreign{}
	var order []identity
	for i := range objects {
		f := &objects[i]
		version, _ := f.Object["apiVersion"].(string)
		of := identity{schema.FromAPIVersionAndKind(version, "").Group, f.Ref()}
		if all[of] == nil {
			order = append(order, of)
		}
		all[of] = append(all[of], f)
	}
	for _, of := range order {
		first, differs := all[of][0], false
		for _, other := range all[of][1:] {
			differs = differs || !reflect.DeepEqual(first.Object, other.Object)
		}
		if !differs {
			kept = append(kept, first)
			continue
		}
		for n, f := range all[of] {
			other := first
			if n == 0 {
				other = all[of][1]
			}
			i := Import{Of: f}
			i.Leave(f, "metadata.name", fmt.Sprintf("another %s has the same name and other contents: %s", of.ref.Kind, other.place("metadata.name")), "keep one of them, or import them one by one")
			left = append(left, i)
		}
	}
	return kept, left
}

// place returns the file and the line of a field.
func (f *Foreign) place(field string) string {
	if f.Line != nil {
		if line := f.Line(field); line > 0 {
			return fmt.Sprintf("%s:%d", f.File, line)
		}
	}
	return f.File
}

// Distinct gives policies names of their own where objects of several kinds become policies of one name. Those
// that are the same policy stay so.
func Distinct(imports []Import) {
	taken := map[usher.PolicyRef]bool{}
	for i := range imports {
		for _, o := range imports[i].To {
			taken[refOf(o)] = true
		}
	}
	written := map[usher.PolicyRef]api.Object{}
	by := map[usher.PolicyRef]*Foreign{}
	for i := range imports {
		for _, o := range imports[i].To {
			ref := refOf(o)
			if written[ref] == nil {
				written[ref], by[ref] = o, imports[i].Of
				continue
			}
			if reflect.DeepEqual(written[ref], o) {
				continue
			}
			renamed := ref
			for n := 2; taken[renamed]; n++ {
				renamed.Name = numbered(ref.Name, n)
			}
			taken[renamed] = true
			o.SetName(renamed.Name)
			imports[i].Note(imports[i].Of, "metadata.name", fmt.Sprintf("what it becomes is called %s: %s becomes a policy of the name %s, too", renamed.Name, by[ref].Ref(), ref.Name), "")
		}
	}
}

// numbered returns a name with a number at its end.
func numbered(name string, n int) string {
	suffix := fmt.Sprintf("-%d", n)
	return strings.TrimRight(name[:min(len(name), validation.DNS1123SubdomainMaxLength-len(suffix))], "-.") + suffix
}
