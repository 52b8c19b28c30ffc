// Package closure runs CUE as Go closures over decoded objects, as far as the result is certain to
// be that of CUE's own evaluator. Closures never report an error: they have a result, or they leave
// it to the evaluator. internal/lang/cue/README.md explains how to add a function.
package closure

import (
	"runtime"
	"slices"
	"sync"

	"github.com/usher-dev/usher/internal/lang/cue/internal/number"
)

// A code is a translated expression: it returns the value that the evaluator would return, or that
// it cannot tell.
//
// Values are JSON trees, and also *structure for struct literals, chosen within those and within
// lists, and open.
type code func(m *machine, f *frame) (any, status)

// A status is what is known of a value.
type status int8

const (
	// known: it is this value.
	known status = iota
	// choice: it is this value, unless unification makes it one of its alternatives.
	choice
	// absent: it refers to a missing field, which CUE calls incomplete.
	absent
	// unclear: only the evaluator knows the value or the error.
	unclear
)

// open is the value of a parameter that is declared and not given: anything.
type open struct{}

// chosen is a value of status choice, as a member of something.
type chosen struct{ value any }

// member returns a member of a tree, structure or list as a value.
func member(v any) (any, status) {
	switch v := v.(type) {
	case chosen:
		return v.value, choice
	case float64:
		return number.Decode(v), known
	}
	return v, known
}

// held returns a value as a member of something.
func held(v any, s status) any {
	if s == choice {
		return chosen{v}
	}
	return v
}

// A Param is a value that a source is given, by name.
type Param struct {
	Name  string
	Value any
}

// Params are the parameters of a source: one or two; without a second, its name is empty.
type Params [2]Param

// Get returns the value of a parameter, and whether it is given.
func (p *Params) Get(name string) (any, bool) {
	for i := range p {
		if p[i].Name == name {
			return p[i].Value, true
		}
	}
	return nil, false
}

// A machine runs a translated program. It keeps no part of the result, so it can be reused.
type machine struct {
	params Params
	// steps is the remaining budget; then the evaluator, which has limits of its own, takes over.
	// When it falls below yield, other goroutines run.
	steps, yield int
	// doubt is set when something is missing because a parameter is incomplete.
	doubt bool
	// top is the frame of the file.
	top frame
	// structures and values are buffers for the first values of a run, with how many are used.
	structures             [8]smallStructure
	values                 [16]any
	takenStructures, taken int
}

// A smallStructure is a structure with capacity for a few fields.
type smallStructure struct {
	structure
	buffer [4]any
}

// list returns an empty list with capacity for n values.
func (m *machine) list(n int) []any {
	start := m.taken
	if n > len(m.values)-start {
		return make([]any, 0, n)
	}
	m.taken += n
	return m.values[start:start:m.taken]
}

// structure returns a structure with these names, and capacity for their values.
func (m *machine) structure(names []string) *structure {
	var s *smallStructure
	if m.takenStructures < len(m.structures) {
		s = &m.structures[m.takenStructures]
		m.takenStructures++
	} else {
		s = &smallStructure{}
	}
	s.names, s.values = names, slices.Grow(s.buffer[:0], len(names))
	return &s.structure
}

var machines = sync.Pool{New: func() any { return new(machine) }}

// start prepares m for a run of so many steps.
func (m *machine) start(p *plan, params *Params, steps int) {
	m.params, m.steps, m.yield, m.doubt = *params, steps, max(steps-yieldEvery, 0), false
	m.top = frame{plan: p, slots: slices.Grow(m.top.slots[:0], len(p.codes))[:len(p.codes)]}
}

// stop ends a run, and releases m.
func (m *machine) stop() {
	m.params = Params{}
	clear(m.top.slots)
	clear(m.structures[:m.takenStructures])
	clear(m.values[:m.taken])
	m.takenStructures, m.taken = 0, 0
	machines.Put(m)
}

// mostWork is how many steps a translated program may take; one copies about 16 bytes. All of them take
// some 20 ms.
const mostWork = 500_000

// A program is run at a glance if it has few expressions, without long texts, and takes few steps: in a loop each
// expression may be evaluated once for two steps.
const (
	briefExpressions = 200
	longText         = 256
	briefWork        = 100
)

// yieldEvery is after how many steps, those of half a millisecond, other goroutines run. Go
// preempts only after 10 ms.
const yieldEvery = 16_000

// spend takes n steps from the budget and reports whether they were left.
func (m *machine) spend(n int) bool {
	m.steps -= n + 1
	return m.steps >= m.yield || m.pause()
}

// pause lets other goroutines run and reports whether steps are left.
func (m *machine) pause() bool {
	if m.steps < 0 {
		return false
	}
	runtime.Gosched()
	m.yield = max(m.steps-yieldEvery, 0)
	return true
}

// A frame holds the values of the names of one scope.
type frame struct {
	outer *frame
	plan  *plan
	slots []slot
}

// A plan says how the values of a frame are computed, each on first use; nil if they are given.
type plan struct {
	codes []code
	names []string
	// fields are the slots of the fields that the scope has, conditions those of the
	// conditions that fields are under.
	fields, conditions []int
}

type slot struct {
	value  any
	status status
	state  slotState
	// doubt is that of the machine after the value was found.
	doubt bool
}

type slotState int8

const (
	fresh slotState = iota
	busy
	done
)

func (p *plan) frame(outer *frame) *frame {
	return &frame{outer: outer, plan: p, slots: make([]slot, len(p.codes))}
}

// get returns the value in a slot. One that depends on itself is unclear.
func (f *frame) get(m *machine, i int) (any, status) {
	s := &f.slots[i]
	switch s.state {
	case done:
		m.doubt = m.doubt || s.doubt
		return s.value, s.status
	case busy:
		return nil, unclear
	case fresh:
	}
	s.state = busy
	s.value, s.status, s.doubt = m.eval(f.plan.codes[i], f)
	s.state = done
	return s.value, s.status
}

// set gives a slot its value.
func (f *frame) set(i int, v any, s status, doubt bool) { f.slots[i] = slot{v, s, done, doubt} }

// eval returns the value of an expression, and whether there is doubt about it.
func (m *machine) eval(c code, f *frame) (v any, s status, doubt bool) {
	before := m.doubt
	m.doubt = false
	v, s = c(m, f)
	doubt = m.doubt
	m.doubt = before || doubt
	return v, s, doubt
}

// certain returns a code that leaves doubt to the evaluator: it reports a cycle for a list or
// struct in a condition if something in it depends on a field that an incomplete parameter lacks.
func certain(c code) code {
	return func(m *machine, f *frame) (any, status) {
		v, s, doubt := m.eval(c, f)
		if doubt {
			return nil, unclear
		}
		return v, s
	}
}

// A structure is the value of a struct literal, its fields in the order of their
// declaration. Hidden fields begin with _, as no other field does.
type structure struct {
	names  []string
	values []any
	index  map[string]int
	// unordered means that some fields depend on conditions or loops: the order in which the
	// evaluator returns them is unknown.
	unordered bool
}

// fewFields is up to how many fields a structure looks for a name one after the other.
const fewFields = 12

func (s *structure) find(name string) (int, bool) {
	if s.index != nil {
		i, ok := s.index[name]
		return i, ok
	}
	for i := range s.names {
		if s.names[i] == name {
			return i, true
		}
	}
	return 0, false
}

// add adds a field to s, and reports whether it had no field of this name.
func (s *structure) add(name string, value any) bool {
	if _, ok := s.find(name); ok {
		return false
	}
	s.names = append(s.names, name)
	s.values = append(s.values, value)
	switch {
	case s.index != nil:
		s.index[name] = len(s.names) - 1
	case len(s.names) > fewFields:
		s.index = make(map[string]int, 2*len(s.names))
		for i, name := range s.names {
			s.index[name] = i
		}
	}
	return true
}

// isHidden reports whether a field of a structure is seen only within the source.
func isHidden(name string) bool { return name != "" && name[0] == '_' }
