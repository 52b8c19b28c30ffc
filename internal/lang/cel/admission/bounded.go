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

// size returns the size of what the expressions read of a request.
func (r *reads) size(in *Input, p *Program) cel.Size {
	s := r.besides(in, p)
	for i := range r.object {
		s = s.Plus(in.sizeAt(&r.object[i], in.Object))
	}
	for i := range r.old {
		s = s.Plus(in.sizeAt(&r.old[i], in.OldObject))
	}
	for _, path := range r.Whole(paramsName) {
		s.Add(at(in.Params, path))
	}
	return s
}

// A readPath is a path below a variable, with a key that equal ones have in common.
type readPath struct {
	path []string
	key  string
}

// keyed returns the paths below a variable whose values are read.
func (r *reads) keyed(name string) []readPath {
	var all []readPath
	for _, path := range r.Whole(name) {
		// Quoted, the keys of a path cannot be taken for those of another one.
		all = append(all, readPath{path, fmt.Sprintf("%s%q", name, path)})
	}
	return all
}

// sizeAt returns the size of the value at a path of an object. Policies have it in common.
func (in *Input) sizeAt(p *readPath, tree map[string]any) cel.Size {
	m := in.memo()
	size, known := m.ofPaths[p.key]
	if !known {
		size.Add(at(tree, p.path))
		if m.ofPaths == nil {
			m.ofPaths = map[string]cel.Size{}
		}
		m.ofPaths[p.key] = size
	}
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
	var value any = tree
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			break
		}
		value = object[key]
	}
	return value
}
