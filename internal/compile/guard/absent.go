package guard

import (
	"context"
	"errors"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

const (
	// longestReading limits the time to find out which objects that a policy names do not exist, and
	// mostRead how many of them are read: the writer waits.
	longestReading = 500 * time.Millisecond
	mostRead       = 16
)

// absent warns of objects that a policy reads by their names for every request, and that do not exist. It says
// nothing of those that the writer may not read, and does not read them: who may write policies could
// find out otherwise what there is.
func (g *guard) absent(ctx context.Context, user usher.User, c compile.Compiled) []rule.Problem {
	if g.options.Facts == nil || g.options.May == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(fact.ForTenant(ctx, c.Ref.Namespace), longestReading)
	defer cancel()
	read := 0
	return eachPart(c, func(part compile.Compiled) []rule.Problem {
		var problems []rule.Problem
		for _, need := range compile.NeedsOf([]compile.Compiled{part}) {
			problem, counts := need.Problem(nil, &fact.NotFound{})
			object, isObject := need.Ref.(*fact.Object)
			if !counts || !isObject || object.Name == "" || read == mostRead {
				continue
			}
			read++
			if g.options.lacks(ctx, user, object) {
				problems = append(problems, problem)
			}
		}
		return problems
	})
}

// lacks reports whether an object is known not to exist, and the user may know that.
func (o *Options) lacks(ctx context.Context, user usher.User, object *fact.Object) bool {
	// In this namespace, whatever the scope of the kind: the right is one there. What is in memory may be late,
	// and reading a kind once is no reason to watch it.
	here := *object
	here.AnyScope, here.Live = false, true
	a := asking{user: user, namespace: object.Namespace, places: o.Places, seen: map[question]bool{}}
	if err := a.reads(ctx, fact.Read{APIVersion: object.APIVersion, Kind: object.Kind, Name: object.Name}); err != nil {
		return false
	}
	if why, err := a.rights.Missing(ctx, o.May); err != nil || why != "" {
		return false
	}
	_, err := o.Facts.Resolve(ctx, &here)
	_, absent := errors.AsType[*fact.NotFound](err)
	_, unknown := errors.AsType[*fact.NoKind](err)
	_, misplaced := errors.AsType[*fact.WrongScope](err)
	return absent && !unknown && !misplaced
}
