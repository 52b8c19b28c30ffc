package object

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/compile/spec"
	"github.com/usher-dev/usher/internal/lang/cel"
	"github.com/usher-dev/usher/internal/lang/cel/admission"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// actions are what follows from a validation that fails.
type actions byte

const (
	deny actions = 1 << iota
	warn
	audit
)

func actionsOf(written []usher.Action) actions {
	var all actions
	for _, action := range written {
		switch action {
		case usher.ActDeny:
			all |= deny
		case usher.ActWarn:
			all |= warn
		case usher.ActAudit:
			all |= audit
		}
	}
	return all
}

// list returns the actions that take effect: a user who is denied need not be warned of the same.
func (a actions) list() []usher.Action {
	var all []usher.Action
	switch {
	case a&deny != 0:
		all = append(all, usher.ActDeny)
	case a&warn != 0:
		all = append(all, usher.ActWarn)
	}
	if a&audit != 0 {
		all = append(all, usher.ActAudit)
	}
	return all
}

// An evaluation is one evaluation of a policy for a request: that of all bindings that have the
// same params.
type evaluation struct {
	params map[string]any
	// size is that of params, 0 if it is not known.
	size    cel.Size
	digest  rule.Digest
	actions actions
}

// of sets the params of an input.
func (e *evaluation) of(in *admission.Input) {
	in.Params, in.ParamsSize, in.ParamsDigest = e.params, e.size, e.digest
}

// An involvement is what a policy is evaluated with for a request.
type involvement struct {
	// few are the first of count evaluations, and more the others.
	few   [2]evaluation
	more  []evaluation
	count int
	// skipped, unless empty, says why the policy is not for the request.
	skipped string
	// misconfigured are the bindings whose params cannot be used, by index, with the error.
	misconfigured []misconfigured
}

// at returns an evaluation, of which there are to.count.
func (to *involvement) at(i int) *evaluation {
	if i < len(to.few) {
		return &to.few[i]
	}
	return &to.more[i-len(to.few)]
}

type misconfigured struct {
	binding int
	err     error
}

// Skips implements [rule.Skipper] for the programs of the policy.
func (o *Policy) Skips(in *rule.Input) (string, error) {
	var to involvement
	err := o.involve(in, &to)
	return to.skipped, err
}

// involve finds out what the policy is evaluated with. The error is [*fact.Missing], or that of a
// fact that selectors need.
func (o *Policy) involve(in *rule.Input, to *involvement) error {
	if to.skipped = o.uninvolved(in.Request); to.skipped != "" {
		return nil
	}
	var err error
	if to.skipped, err = o.match.Skips(in); err != nil || to.skipped != "" {
		return err
	}
	why := ""
	for i := range o.bindings {
		b := &o.bindings[i]
		skipped, err := b.skips(in)
		if err != nil {
			return err
		}
		if skipped != "" {
			why = skipped
			continue
		}
		params, err := b.collect(o.paramKind, in)
		if _, missing := errors.AsType[*fact.Missing](err); missing {
			return err
		}
		if err != nil {
			to.misconfigured = append(to.misconfigured, misconfigured{i, err})
			continue
		}
		if len(params) == 0 {
			why = "there is no " + o.paramKind.Kind + " that it refers to"
		}
		for _, object := range params {
			to.add(object, b)
		}
	}
	switch {
	case to.count+len(to.misconfigured) > 0:
	case len(o.bindings) == 1:
		to.skipped = fmt.Sprintf("binding %s: %s", o.bindings[0].name, why)
	default:
		to.skipped = "no binding is for the request"
	}
	return nil
}

func (to *involvement) add(params map[string]any, b *binding) {
	for i := range to.count {
		if e := to.at(i); reflect.ValueOf(e.params).Pointer() == reflect.ValueOf(params).Pointer() {
			e.actions |= b.actions
			return
		}
	}
	e := evaluation{params: params, size: b.size, digest: b.digest, actions: b.actions}
	if to.count < len(to.few) {
		to.few[to.count] = e
	} else {
		to.more = append(to.more, e)
	}
	to.count++
}

// The users whose deletions no policy denies: without them a namespace cannot be deleted.
const (
	namespaceController = "system:serviceaccount:kube-system:namespace-controller"
	garbageCollector    = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// uninvolved returns why the policy is not for requests of a user.
func (o *Policy) uninvolved(r *usher.Request) string {
	switch {
	case r.Operation == usher.Delete && (r.User.Name == namespaceController || r.User.Name == garbageCollector):
		return "deletions by the namespace controller and the garbage collector are not denied"
	case len(o.subjects) > 0 && !authz.Among(o.subjects, &r.User):
		return "the user is not one of the subjects"
	case len(o.excluded) > 0 && authz.Among(o.excluded, &r.User):
		return "the user is one of the excludeSubjects"
	}
	return ""
}

// skips returns why a binding is not for a request.
func (b *binding) skips(in *rule.Input) (string, error) {
	if b.match == nil {
		return "", nil
	}
	return b.match.Mismatch(in)
}

// collect returns the params of a binding, which are written in place or objects of a kind.
func (b *binding) collect(kind *admissionv1.ParamKind, in *rule.Input) ([]map[string]any, error) {
	if b.params == nil {
		return b.values, nil
	}
	return b.params.Collect(kind, in.Request.Namespace, in.Facts)
}

// reading is what a program of the policy reads.
func (o *Policy) reading(p *admission.Program) spec.Reading {
	matches, digests := []*spec.Match{&o.match}, make([]rule.Digest, len(o.bindings))
	for i := range o.bindings {
		digests[i] = o.bindings[i].digest
		matches = append(matches, o.bindings[i].match)
	}
	return spec.NewReading(p, digests, matches...)
}

// dependsOn returns on what the outcome of a program of the policy depends for requests with an
// operation.
func (o *Policy) dependsOn(operation usher.Operation, p *admission.Program) rule.Dependencies {
	all := p.DependsOn(operation) | o.match.DependsOn()
	if len(o.subjects) > 0 {
		all |= rule.OnUser
	}
	if len(o.excluded) > 0 || operation == usher.Delete {
		all |= rule.OnExcluded
	}
	for i := range o.bindings {
		b := &o.bindings[i]
		all |= b.params.DependsOn()
		if b.match != nil {
			all |= b.match.DependsOn()
		}
	}
	return all
}

// String says what the rule does.
func (o *Policy) String() string {
	names := make([]string, 0, len(o.bindings))
	for i := range o.bindings {
		b := &o.bindings[i]
		var words []string
		for _, action := range b.actions.list() {
			words = append(words, string(action))
		}
		if o.mutate != nil && o.validate == nil {
			// Actions are those of validations.
			words = []string{"changes"}
		}
		text := strings.Join(words, ", ")
		if b.name != "" {
			text = b.name + ": " + text
		}
		names = append(names, text)
	}
	return strings.Join(names, "; ")
}
