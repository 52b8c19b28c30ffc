// Package authz is what an API server does to authorize a request, without an API server:
// which question an HTTP request is, what a chain of authorizers makes of it, and what RBAC
// says. Answers, reasons and quirks are those of Kubernetes 1.36.
package authz

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	usher "github.com/usher-dev/usher"
)

// An Answer is what an authorizer says of a request. It may come with an error: that does
// not undo it, but makes a refusal an HTTP 500.
type Answer struct {
	Verdict usher.Verdict
	Reason  string
	Err     error
}

// Status is the HTTP status that the user gets to see.
func (a Answer) Status() int {
	switch {
	case a.Verdict == usher.Allow:
		return http.StatusOK
	case a.Err != nil:
		return http.StatusInternalServerError
	}
	return http.StatusForbidden
}

// An Authorizer answers requests whose phase is Authorize.
type Authorizer interface {
	Authorize(context.Context, *usher.Request) Answer
}

// AuthorizerFunc is a function as an [Authorizer].
type AuthorizerFunc func(context.Context, *usher.Request) Answer

// Authorize calls f.
func (f AuthorizerFunc) Authorize(ctx context.Context, r *usher.Request) Answer { return f(ctx, r) }

// A Stage is an authorizer with the name that it has in the configuration.
type Stage struct {
	Name string
	Authorizer
}

// A Chain asks one stage after the other until one allows or denies. It is the authorizer
// that a list of authorizers amounts to.
type Chain []Stage

// A Step is what became of one stage.
type Step struct {
	Stage string
	// Answer is what the stage says, also if it is not asked.
	Answer Answer
	// Asked tells whether the stages before it left the question open.
	Asked bool
}

// Authorize implements [Authorizer].
func (c Chain) Authorize(ctx context.Context, r *usher.Request) Answer {
	answer, _ := c.Explain(ctx, r)
	return answer
}

// Explain answers as Authorize does, and tells what every stage says.
func (c Chain) Explain(ctx context.Context, r *usher.Request) (Answer, []Step) {
	var final *Answer
	var reasons []string
	var errs []error
	steps := make([]Step, 0, len(c))
	for _, stage := range c {
		step := Step{Stage: stage.Name, Answer: stage.Authorize(ctx, r), Asked: final == nil}
		steps = append(steps, step)
		switch {
		case !step.Asked:
		case step.Answer.Verdict != usher.NoOpinion:
			final = &step.Answer
		default:
			if step.Answer.Reason != "" {
				reasons = append(reasons, step.Answer.Reason)
			}
			if step.Answer.Err != nil {
				errs = append(errs, step.Answer.Err)
			}
		}
	}
	if final != nil {
		return *final, steps
	}
	answer := Answer{Reason: strings.Join(reasons, "\n")}
	if len(errs) > 0 {
		answer.Err = utilerrors.NewAggregate(errs)
	}
	return answer, steps
}

// Webhook is a decider as API servers see it through a webhook. If only is not empty, the
// webhook gives no opinion in place of any other verdict.
func Webhook(d usher.Decider, only usher.Verdict) Authorizer {
	return AuthorizerFunc(func(ctx context.Context, r *usher.Request) Answer {
		decision, err := d.Decide(ctx, r)
		if err != nil {
			return Answer{Err: err}
		}
		if only != "" && decision.Verdict != only && decision.Verdict != usher.NoOpinion {
			return Answer{}
		}
		return Answer{Verdict: decision.Verdict, Reason: decision.Message}
	})
}

// Privileged allows everything to members of system:masters. It is before every chain.
func Privileged() Authorizer {
	return AuthorizerFunc(func(_ context.Context, r *usher.Request) Answer {
		if slices.Contains(r.User.Groups, "system:masters") {
			return Answer{Verdict: usher.Allow}
		}
		return Answer{}
	})
}

// AlwaysAllowedPaths allows everybody what API servers do by default: to ask whether they live.
func AlwaysAllowedPaths() Authorizer {
	paths := []string{"/healthz", "/livez", "/readyz"}
	return AuthorizerFunc(func(_ context.Context, r *usher.Request) Answer {
		if r.Access != nil && r.Access.NonResource && slices.Contains(paths, r.Access.Path) {
			return Answer{Verdict: usher.Allow}
		}
		return Answer{}
	})
}

// Always gives the same answer to every request.
func Always(a Answer) Authorizer {
	return AuthorizerFunc(func(context.Context, *usher.Request) Answer { return a })
}

// ErrNode says that an answer depends on which pods a node runs.
var ErrNode = errors.New("what a node may do depends on the pods that it runs: this is not simulated")

// Node stands for the authorizer of nodes. It has no opinion of anybody who is no node,
// like that; of a node it does not know what that would say, and says so.
func Node() Authorizer {
	return AuthorizerFunc(func(_ context.Context, r *usher.Request) Answer {
		if strings.HasPrefix(r.User.Name, "system:node:") && slices.Contains(r.User.Groups, "system:nodes") {
			return Answer{Reason: ErrNode.Error()}
		}
		return Answer{}
	})
}
