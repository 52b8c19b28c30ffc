package index

import "github.com/usher-dev/usher/internal/rule"

// maxLists is how many lists a look-up can merge without allocating.
const maxLists = 24

// An entry is one selector of one rule, or the whole of a rule without selectors.
type entry struct {
	rank     int32 // place of the rule in emission order
	selector int32
}

// The entries that are for no selector: that of a rule without selectors, and that of a rule
// that names resources.
const (
	noSelector = -1
	byResource = -2
)

// matches checks everything except operation and kind, which are the key of the bucket.
func (e entry) matches(m *rule.Match, s *rule.Target) bool {
	if e.selector < 0 {
		return m.Matches(s)
	}
	return m.MatchesBy(&m.Selectors[e.selector], s)
}

// A bucket holds the entries for one operation and kind. Each is filed under its rarest
// requirement, which the fewest other entries share: a name, a namespace, a label or a field. Lists
// are in emission order.
type bucket struct {
	entries []entry // until arranged; nil from then on

	names      map[string][]entry
	namespaces map[string][]entry
	labels     map[string]*values
	fields     []*fieldValues
	rest       []entry
}

// values holds the entries that require a value, or only its presence.
type values struct {
	equal   map[string][]entry
	present []entry
}

type fieldValues struct {
	field rule.Field // only its Path counts
	values
}

// arrange files the entries under their clauses.
func (b *bucket) arrange(rules []rule.Rule) {
	clauses := make([][]clause, len(b.entries))
	demand := demand{}
	for i, e := range b.entries {
		clauses[i] = clausesOf(&rules[e.rank].Match, e.selector)
		demand.add(clauses[i])
	}
	paths := map[string]*fieldValues{}
	for i, e := range b.entries {
		if m := &rules[e.rank].Match; e.selector == noSelector || !never(&m.Selectors[e.selector]) {
			b.file(e, demand.rarest(clauses[i]), paths)
		}
	}
	b.entries = nil
}

// file puts e under c, or with the rest if there is no clause. Fields that b has so far
// are in paths.
func (b *bucket) file(e entry, c *clause, paths map[string]*fieldValues) {
	if c == nil {
		b.rest = append(b.rest, e)
		return
	}
	switch c.sort {
	case byName:
		fileEqual(&b.names, c.values, e)
	case byNamespace:
		fileEqual(&b.namespaces, c.values, e)
	case byLabel:
		if b.labels == nil {
			b.labels = map[string]*values{}
		}
		if b.labels[c.key] == nil {
			b.labels[c.key] = &values{}
		}
		b.labels[c.key].file(e, c)
	case byField:
		f := paths[c.key]
		if f == nil {
			f = &fieldValues{field: rule.Field{Path: c.path}}
			paths[c.key] = f
			b.fields = append(b.fields, f)
		}
		f.file(e, c)
	}
}

func (v *values) file(e entry, c *clause) {
	if len(c.values) == 0 {
		v.present = append(v.present, e)
		return
	}
	fileEqual(&v.equal, c.values, e)
}

func fileEqual(lists *map[string][]entry, values []string, e entry) {
	if *lists == nil {
		*lists = map[string][]entry{}
	}
	for _, value := range values {
		(*lists)[value] = append((*lists)[value], e)
	}
}

// collect appends the lists of clauses that s meets.
func (b *bucket) collect(lists [][]entry, s *rule.Target) [][]entry {
	lists = collect(lists, b.rest)
	lists = collect(lists, b.names[s.Name])
	lists = collect(lists, b.namespaces[s.Namespace])
	for i := range b.fields {
		if text, ok := b.fields[i].field.Text(s.Object); ok {
			lists = b.fields[i].collect(lists, text)
		}
	}
	if len(b.labels) <= s.LabelCount() {
		objectLabels := s.Labels()
		for key, v := range b.labels {
			if value, ok := objectLabels.Lookup(key); ok {
				lists = v.collect(lists, value)
			}
		}
		return lists
	}
	for key, value := range s.EachLabel {
		if v := b.labels[key]; v != nil {
			lists = v.collect(lists, value)
		}
	}
	return lists
}

func (v *values) collect(lists [][]entry, value string) [][]entry {
	return collect(collect(lists, v.present), v.equal[value])
}

func collect(lists [][]entry, list []entry) [][]entry {
	if len(list) == 0 {
		return lists
	}
	return append(lists, list)
}
