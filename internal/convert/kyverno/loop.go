package kyverno

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/usher-dev/usher/internal/convert/kyverno/expression"
	"github.com/usher-dev/usher/internal/convert/kyverno/syntax"
)

// each makes changes of the elements of a list, and of lists in these.
func (w *patcher) each(f *syntax.ForeachMutate, nesting int, within func(string) string) error {
	f, err := oneList(f)
	if err != nil {
		return err
	}
	list, err := expression.Required(w.scope, f.List)
	if err != nil {
		return placed(f.Field+".list", err)
	}
	outer := w.scope
	defer func() { w.scope = outer }()
	place := "i"
	if nesting > 0 {
		place = fmt.Sprintf("i%d", nesting)
	}
	name := w.scope.Taking(place).ElementName(lastName(strings.TrimSuffix(strings.TrimSpace(f.List), " || `[]`")))
	element, index := expression.Named(name, list.Type.Item()), expression.Named(place, expression.Type{Kind: expression.Integer})
	w.scope = outer.Taking(name).Taking(place).With("element", element).With("elementIndex", index).
		With(fmt.Sprintf("element%d", nesting), element).With(fmt.Sprintf("elementIndex%d", nesting), index)
	if err := w.elementContext(f.Context); err != nil {
		return err
	}
	applies := yes
	if f.Preconditions != nil {
		v, err := w.scope.Conditions(f.Preconditions)
		if err != nil {
			return placed(f.Preconditions.Field, err)
		}
		applies = termOf(v)
	}
	inside := func(text string) string {
		text = parenthesizedChoice(text)
		if applies != yes {
			text = applies.within(either) + " ? " + text + " : []"
		}
		reversed := ""
		if strings.EqualFold(f.Order, "Descending") {
			reversed = ".reverse()"
		}
		return within(fmt.Sprintf("%s.transformList(%s, %s, %s)%s.flatten()", list.Postfix(), place, name, text, reversed))
	}
	switch {
	case f.PatchesJSON6902 != "":
		return patchEach(w, f, inside)
	case len(f.Foreach) > 0:
		for n := range f.Foreach {
			if err := w.each(&f.Foreach[n], nesting+1, inside); err != nil {
				return err
			}
		}
		return nil
	case nesting > 0:
		return refuse(f.Field+".patchStrategicMerge", "it is a merge in a loop in a loop", "write it as a JSONPatch")
	}
	return w.mergeEach(f, name, list, inside)
}

// severalLists are lists in one map whose elements follow each other.
var severalLists = regexp.MustCompile(`^request\.object\.(?:(\w+(?:\.\w+)*)\.)?\[\s*(\w+(?:\s*,\s*\w+)*)\s*\]\s*\[\]$`)

// oneList returns a loop over one list, if a patch of a loop over several ones changes elements of that one alone, which it
// selects by their names. Objects have no two containers of one name.
func oneList(f *syntax.ForeachMutate) (*syntax.ForeachMutate, error) {
	text := strings.TrimSuffix(strings.TrimSpace(f.List), " || `[]`")
	if !strings.ContainsAny(text, ",?|") {
		return f, nil
	}
	found := severalLists.FindStringSubmatch(text)
	if found == nil || len(f.Foreach) > 0 {
		return f, refuse(f.Field+".list", "its elements are not those of one list, and have other places there", "write a rule for each list")
	}
	indexed := strings.Contains(textOf(f), "elementIndex")
	if indexed && f.PatchesJSON6902 != "" {
		return f, nil
	}
	if !indexed && (f.PatchesJSON6902 != "" || annotated(f.PatchStrategicMerge) != nil) {
		return f, nil
	}
	p, path := onlyList(f.PatchStrategicMerge)
	prefix, name := "", strings.TrimPrefix(path, ".")
	if at := strings.LastIndexByte(name, '.'); at >= 0 {
		prefix, name = name[:at], name[at+1:]
	}
	conditional := p != nil && p.Sort == syntax.List && len(p.Items) == 1 && slices.ContainsFunc(p.Items[0].Keys, func(k syntax.Key) bool {
		return k.Name == mergedLists[name] && k.Anchor == syntax.Conditional
	})
	names := strings.FieldsFunc(found[2], func(r rune) bool { return r == ',' || r == ' ' })
	if !conditional || prefix != found[1] || !slices.Contains(names, name) || indexed {
		return f, refuse(f.Field+".list", "its elements are not those of one list, and have other places there", "write a rule for each list")
	}
	one := *f
	one.List = "request.object" + path + "[]"
	return &one, nil
}

// onlyList returns what is below maps of one key each in a patch, and its path.
func onlyList(p *syntax.Pattern) (*syntax.Pattern, string) {
	var path strings.Builder
	for p != nil && p.Sort == syntax.Map && len(p.Keys) == 1 && p.Keys[0].Anchor == syntax.NoAnchor {
		path.WriteString("." + p.Keys[0].Name)
		p = p.Keys[0].Value
	}
	return p, path.String()
}

// annotated returns what a patch adds to annotations or labels, if keys have variables; nil for other patches.
func annotated(p *syntax.Pattern) *syntax.Pattern {
	for _, names := range [][]string{{"metadata"}, {"annotations", "labels"}} {
		if p == nil || p.Sort != syntax.Map || len(p.Keys) != 1 || p.Keys[0].Anchor != syntax.NoAnchor || !slices.Contains(names, p.Keys[0].Name) {
			return nil
		}
		p = p.Keys[0].Value
	}
	variable := false
	for _, key := range p.Keys {
		if key.Anchor != syntax.NoAnchor || key.Value.Sort != syntax.Scalar || key.Value.Scalar == nil {
			return nil
		}
		variable = variable || strings.Contains(key.Name, "{{")
	}
	if p.Sort != syntax.Map || !variable {
		return nil
	}
	return p
}

// annotateEach adds annotations or labels for each element of the list.
func (w *patcher) annotateEach(f *syntax.ForeachMutate, keys *syntax.Pattern, list expression.Value, within func(string) string) error {
	if f.Preconditions != nil {
		return refuse(f.Preconditions.Field, "they are for keys that have variables", "write it as a JSONPatch")
	}
	name := f.PatchStrategicMerge.Keys[0].Value.Keys[0].Name
	to := location{}.to("metadata").to(name)
	var lists []string
	for i := range keys.Keys {
		key := &keys.Keys[i]
		v, err := w.scope.String(key.Name)
		switch {
		case err != nil:
			return placed(key.Value.Field, err)
		case v.CanBeNull() || v.Type.Kind != expression.Text:
			return refuse(key.Value.Field, "its key may be no text", "write it as a JSONPatch")
		}
		value, err := w.value(key.Value)
		if err != nil {
			return err
		}
		at := append(slices.Clip(to), segment{text: "/"}, segment{computed: "jsonpatch.escapeKey(" + v.Text + ")"})
		lists = append(lists, at.operation("add", value))
	}
	made := "(" + has("object.metadata", name).text + " ? [] : " + to.operation("add", "{}") + ")"
	text := "size(" + list.Text + ") == 0 ? [] : " + made + " + " + within(joinedLists(lists))
	w.changes = append(w.changes, change{text: "(" + text + ")", path: "/metadata/" + name + "/*", loops: true, makes: true, field: f.Field})
	return nil
}

// mergeEach merges into each element of the list, which the patch names by its own name.
func (w *patcher) mergeEach(f *syntax.ForeachMutate, name string, list expression.Value, within func(string) string) error {
	if keys := annotated(f.PatchStrategicMerge); keys != nil {
		return w.annotateEach(f, keys, list, within)
	}
	of := list.Type.Item()
	path := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(f.List), "request.object."), "[]")
	p, to, err := beside(w, f, path, list)
	if err != nil {
		return err
	}
	if p == nil || p.Sort != syntax.List || len(p.Items) != 1 || p.Items[0].Sort != syntax.Map || strings.ReplaceAll(path, ".", "/") != strings.TrimPrefix(strings.Trim(to.String(), "'"), "/") {
		return refuse(f.Field+".patchStrategicMerge", "it changes something else than the element", "write it as a JSONPatch")
	}
	item := *p.Items[0]
	by := mergedLists[to.last()]
	var rest []syntax.Key
	named := false
	for _, key := range item.Keys {
		text, _ := key.Value.Scalar.(string)
		if key.Name == by && (key.Anchor == syntax.NoAnchor || key.Anchor == syntax.Conditional) && strings.ReplaceAll(text, " ", "") == "{{element."+by+"}}" {
			named = true
			continue
		}
		rest = append(rest, key)
	}
	if !named || by == "" {
		return refuse(f.Field+".patchStrategicMerge", "it does not name the element", "write it as a JSONPatch")
	}
	item.Keys = rest
	shapes := shape{kinds: w.Kinds, of: of.Schemas()}
	w.note(f.Field, "elements stay where they are: Kyverno moves those that it changes to the beginning of the list", "")
	lists, err := w.keys(&item, name, to.at("i"), shapes)
	if err != nil {
		return err
	}
	w.changes = append(w.changes, change{text: within(joinedLists(lists)), path: strings.Trim(to.String(), "'") + "/*", loops: true, field: f.Field})
	return nil
}

// beside returns the list in a patch, and its place. What the patch changes beside it is changed once, if there are elements.
func beside(w *patcher, f *syntax.ForeachMutate, path string, list expression.Value) (*syntax.Pattern, location, error) {
	p, to := f.PatchStrategicMerge, location{}
	at, of := "object", w.p.selection.shape
	of.root = true
	names := strings.Split(path, ".")
	for p != nil && p.Sort == syntax.Map && len(p.Keys) > 0 && len(to) < len(names) {
		rest := syntax.Pattern{Sort: syntax.Map, Field: p.Field}
		var next *syntax.Key
		for i := range p.Keys {
			if key := &p.Keys[i]; key.Name == names[len(to)] && key.Anchor == syntax.NoAnchor {
				next = key
			} else {
				rest.Keys = append(rest.Keys, *key)
			}
		}
		if next == nil {
			break
		}
		if len(rest.Keys) > 0 {
			if f.Preconditions != nil || len(f.Context) > 0 || anchorsBelow(&rest) || strings.Contains(textOf(rest.Raw()), "element") {
				return nil, nil, refuse(p.Field, "it changes something else than the element, which depends on it", "write it as a JSONPatch")
			}
			lists, err := w.keys(&rest, at, to, of)
			if err != nil {
				return nil, nil, err
			}
			for i, text := range lists {
				w.changes = append(w.changes, change{
					text: "(size(" + list.Text + ") == 0 ? [] : " + parenthesizedChoice(text) + ")", path: strings.Trim(to.String(), "'") + "/" + rest.Keys[min(i, len(rest.Keys)-1)].Name, makes: true, field: f.Field,
				})
			}
		}
		to = to.to(next.Name)
		at = member(at, next.Name)
		of, _ = of.field(next.Name)
		p = next.Value
	}
	return p, to, nil
}

// A change is a list of operations in CEL.
type change struct {
	text, path, field string
	// makes says that it makes maps on its path, moves that it moves other elements of the list that it is in, loops
	// that it is for elements of a list, and reads that its value is read from the object.
	makes, moves, loops, reads bool
	// there is how much of the path every element of a loop has; 0 outside of loops.
	there int
}

func changeOf(o *operation, text, field string) change {
	names := strings.Split(o.Path, "/")
	c := change{text: text, field: field, reads: strings.Contains(textOf(o.Value), "{{")}
	for i, name := range names {
		if elementIndex.MatchString(name) {
			c.loops, c.there, names[i] = true, i+1, "*"
		}
	}
	last := names[len(names)-1]
	c.makes = o.Op == "add"
	c.moves = last == "*" && o.Op != "replace" || strings.HasPrefix(last, "-") || strings.Trim(last, "0123456789") == ""
	c.path = strings.Join(names, "/")
	return c
}

// apart reports whether two changes have the same result together as one after the other.
func (c change) apart(o change) bool {
	a, b := strings.Split(c.path, "/"), strings.Split(o.path, "/")
	common := 0
	for common < min(len(a), len(b)) && a[common] == b[common] {
		common++
	}
	switch {
	case common == len(a) || common == len(b):
		return false
	case c.moves && common >= len(a)-1 || o.moves && common >= len(b)-1:
		return false
	}
	// Both would make what is missing on the way.
	there := min(c.there, o.there)
	if there == 0 {
		there = 1
		if a[1] == "metadata" {
			there = 2
		}
	}
	return !c.makes || !o.makes || common <= there
}

// finish makes mutations of the changes: one if they do not depend on each other, since a mutation sees what those
// before have changed, and so do its variables and conditions.
func (w *patcher) finish() error {
	var texts []string
	apart := true
	for i, c := range w.changes {
		texts = append(texts, c.text)
		for _, o := range w.changes[:i] {
			apart = apart && c.apart(o)
		}
	}
	if apart {
		w.add(texts...)
		return nil
	}
	if w.when != yes {
		text := (source{judge: w.judge}).inlined(w.when.text)
		if ofData.MatchString(text) || strings.Contains(text, "namespaceObject") {
			return refuse(w.r.Field+".preconditions", "they are asked once, before several changes that build on each other", "write a rule for each change")
		}
		w.p.selection.conditions = append(w.p.selection.conditions, matchCondition("preconditions", text))
		w.when = yes
	}
	for i, c := range w.changes {
		if i > 0 && (c.reads || c.loops && strings.Contains(c.text, "variables.")) {
			return refuse(c.field, "it reads what changes before it have changed", "write a rule for each change")
		}
		w.add(c.text)
	}
	return nil
}
