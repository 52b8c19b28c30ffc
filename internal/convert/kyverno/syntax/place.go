package syntax

import "fmt"

// place tells the parts of a rule where they are.
func (r *Rule) place(field string) {
	r.Field = field
	r.Match.place(field + ".match")
	r.Exclude.place(field + ".exclude")
	placeEntries(r.Context, field)
	r.Preconditions.place(field + ".preconditions")
	r.Validate.place(field + ".validate")
	r.Mutate.place(field + ".mutate")
}

func (m *Match) place(field string) {
	if m == nil {
		return
	}
	m.Field, m.Block.Field = field, field
	for i := range m.Any {
		m.Any[i].Field = fmt.Sprintf("%s.any[%d]", field, i)
	}
	for i := range m.All {
		m.All[i].Field = fmt.Sprintf("%s.all[%d]", field, i)
	}
}

func placeEntries(entries []Entry, field string) {
	for i := range entries {
		entries[i].Field = fmt.Sprintf("%s.context[%d]", field, i)
	}
}

func (c *Conditions) place(field string) {
	if c == nil {
		return
	}
	c.Field = field
	at := func(list []Condition, format string) {
		for i := range list {
			list[i].Field = fmt.Sprintf(format, field, i)
		}
	}
	at(c.Any, "%s.any[%d]")
	if c.listed {
		at(c.All, "%s[%d]")
		return
	}
	at(c.All, "%s.all[%d]")
}

func (d *Deny) place(field string) {
	if d != nil {
		d.Conditions.place(field + ".conditions")
	}
}

// placed returns a pattern that knows its parts.
func (p *Pattern) placed(field string) *Pattern {
	if p == nil {
		return nil
	}
	return PatternOf(p.raw, field)
}

func (v *Validate) place(field string) {
	if v == nil {
		return
	}
	v.Field = field
	v.Pattern, v.AnyPattern = v.Pattern.placed(field+".pattern"), v.AnyPattern.placed(field+".anyPattern")
	v.Deny.place(field + ".deny")
	placeForeach(v.Foreach, field)
}

func placeForeach(all []Foreach, parent string) {
	for i := range all {
		f := &all[i]
		f.Field = fmt.Sprintf("%s.foreach[%d]", parent, i)
		placeEntries(f.Context, f.Field)
		f.Preconditions.place(f.Field + ".preconditions")
		f.Pattern, f.AnyPattern = f.Pattern.placed(f.Field+".pattern"), f.AnyPattern.placed(f.Field+".anyPattern")
		f.Deny.place(f.Field + ".deny")
		placeForeach(f.Foreach, f.Field)
	}
}

func (m *Mutate) place(field string) {
	if m == nil {
		return
	}
	m.Field = field
	m.PatchStrategicMerge = m.PatchStrategicMerge.placed(field + ".patchStrategicMerge")
	placeForeachMutate(m.Foreach, field)
}

func placeForeachMutate(all []ForeachMutate, parent string) {
	for i := range all {
		f := &all[i]
		f.Field = fmt.Sprintf("%s.foreach[%d]", parent, i)
		placeEntries(f.Context, f.Field)
		f.Preconditions.place(f.Field + ".preconditions")
		f.PatchStrategicMerge = f.PatchStrategicMerge.placed(f.Field + ".patchStrategicMerge")
		placeForeachMutate(f.Foreach, f.Field)
	}
}
