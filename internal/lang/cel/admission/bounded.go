package admission

import (
	"fmt"

	"github.com/usher-dev/usher/internal/lang/cel"
)

// bounded reports whether no budget can be exceeded for a request.
func (p *Program) bounded(in *Input, l *limits) bool {
	if l.small.None() {
		return true
	}
	if in.Size.Total > 0 {
		params := in.ParamsSize
		if params.Total == 0 && in.Params != nil {
			params = cel.SizeOf(in.Params)
		}
		if l.small.Includes(in.Size.Plus(params).Plus(p.reads.besides(in, p))) {
			return true
		}
	}
	return l.within(p.reads.size(in, p))
}

// isBoundedSoon is [Program.bounded] of which little is measured: what is larger may be bounded, too.
func (in *Input) isBoundedSoon(p *Program) bool {
	if p.deciding.small.None() {
		return true
	}
	all := in.Size.Plus(in.ParamsSize)
	return all.Total <= measured && in.Size.Total > 0 && (in.ParamsSize.Total > 0 || in.Params == nil) && p.bounded(in, &p.deciding)
}

// size returns the size of what the expressions read of a request.
func (r *reads) size(in *Input, p *Program) cel.Size {
	s := r.besides(in, p)
	for i := range r.object {
		s = s.Plus(in.sizeAt(&r.object[i], in.Object))
	}
	for i := range r.old {
		s = s.Plus(in.sizeAt(&r.old[i], in.OldObject))
	}
	var ofParams sizes
	for i := range r.params {
		s = s.Plus(ofParams.at(&r.params[i], in.Params))
	}
	return s
}

// A readPath is a path below a variable, with a key that equal ones have in common.
type readPath struct {
	variable string
	path     []string
	key      string
}

// readPathOf returns a path below a variable.
func readPathOf(variable string, path []string) readPath {
	// Quoted, the keys of a path cannot be taken for those of another one.
	return readPath{variable, path, fmt.Sprintf("%s%q", variable, path)}
}

// keyed returns the paths below a variable whose values are read.
func (r *reads) keyed(name string) []readPath {
	var all []readPath
	for _, path := range r.Whole(name) {
		all = append(all, readPathOf(name, path))
	}
	return all
}

// sizeAt returns the size of the value at a path of an object. Policies have it in common.
func (in *Input) sizeAt(p *readPath, tree map[string]any) cel.Size {
	return in.memo().ofPaths.at(p, tree)
}

// Sizes are those of the values at paths, by their keys.
type sizes map[string]cel.Size

// at returns the size of the value at a path. Of all paths that lead no further than to one value it is measured once.
func (s *sizes) at(p *readPath, tree map[string]any) cel.Size {
	size, known := (*s)[p.key]
	if known {
		return size
	}
	value, steps := walk(tree, p.path)
	if steps < len(p.path) {
		end := readPathOf(p.variable, p.path[:steps])
		size = s.at(&end, tree)
	} else {
		size = cel.SizeOf(value)
	}
	if *s == nil {
		*s = sizes{}
	}
	(*s)[p.key] = size
	return size
}

// besides returns the size of what the expressions read besides objects and params.
func (r *reads) besides(in *Input, p *Program) cel.Size {
	var s cel.Size
	if r.plain {
		return s
	}
	if r.Mentions(requestName) {
		s = in.requestSize(r.Whole(requestName))
	}
	if r.Mentions(namespaceName) {
		s = s.Plus(in.namespaceSize())
	}
	r.addData(&s, in, p)
	return s
}

// at returns the value at a path, or the one that the path does not lead through.
func at(tree map[string]any, path []string) any {
	value, _ := walk(tree, path)
	return value
}

// walk is at that returns how many steps of the path lead to the value.
func walk(tree map[string]any, path []string) (value any, steps int) {
	value = tree
	for i, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return value, i
		}
		value = object[key]
	}
	return value, len(path)
}
