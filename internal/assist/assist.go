// Package assist answers the questions of editors about a text with policies: what is wrong, what can be written at a
// place, what is there, where it comes from, and how to correct it. The text need not be valid.
//
// Places are offsets in bytes; those outside of the text are the closest in it. It knows no protocol.
package assist

import (
	"context"
	"reflect"
	"sync"

	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/source"
	"github.com/usher-dev/usher/source/dir"
)

// A Checker finds what is wrong with sets that follow one another, such as the policies of a file while it is written.
// It is for one goroutine at a time. The error is that of ctx.
type Checker interface {
	Check(ctx context.Context, set source.Set) ([]rule.Problem, error)
}

// Options configure a [Service].
type Options struct {
	// Checker returns a checker for a file.
	Checker func() Checker
	// Kinds returns the kinds of objects that expressions are about; nil are the recorded ones.
	Kinds func() *kind.Set
	// Types are types of the Kubernetes API that say what their fields are.
	Types []reflect.Type
}

// A Service answers questions. It is safe for concurrent use.
type Service struct {
	options Options
	types   *typecheck.Checker
	kinds   func() *kind.Set
	texts   func() map[string]map[string]string
	catalog catalog
}

// New returns a service. Keep it: it reads the recorded kinds once.
func New(o Options) *Service {
	if o.Kinds == nil {
		o.Kinds = kind.Recorded
	}
	return &Service{
		options: o, types: typecheck.New(), kinds: sync.OnceValue(o.Kinds),
		texts: sync.OnceValue(func() map[string]map[string]string { return textsOf(o.Types) }),
	}
}

// Prepare does what the first questions would otherwise take longer for.
func (s *Service) Prepare(ctx context.Context) {
	text := "apiVersion: usher.dev/v1alpha1\nkind: ClusterObjectPolicy\nmetadata: {name: a}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n" +
		"  validations: [{expression: object.metadata.name != ''}]\n"
	_, _ = s.File("prepare.yaml").Check(ctx, text)
	s.Complete(ctx, text, len(text)-10)
}

// A Range is a part of a text.
type Range struct{ From, To int }

// A File is one that is being written. It is for one goroutine at a time.
type File struct {
	parser  *dir.Parser
	checker Checker
}

// File returns a file of this name, by which it is YAML or JSON.
func (s *Service) File(name string) *File {
	return &File{parser: dir.NewParser(name), checker: s.options.Checker()}
}
