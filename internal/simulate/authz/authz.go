// Package authz simulates how an API server authorizes a request: which attributes an HTTP request
// has, and the answers of RBAC and of a chain of authorizers. Answers, reasons and quirks are those
// of Kubernetes 1.36.
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

// An Answer is the answer of an authorizer. It may come with an error: the answer is still valid,
// but a denial becomes an HTTP 500.
type Answer struct {
	Verdict usher.Verdict
	Reason  string
	Err     error
}

// Status is the HTTP status that the user gets.
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

// A Chain calls one stage after the other until one allows or denies, like a list of authorizers of
// an API server.
type Chain []Stage

// A Step is the result of one stage.
type Step struct {
	Stage string
	// Answer is the answer of the stage, even if an API server would not call it.
	Answer Answer
	// Asked reports whether an API server calls the stage: the stages before it had no opinion.
	Asked bool
}

// errNoRBAC is the answer where no object says who may do what.
var errNoRBAC = errors.New("nothing says who may do what: give roles and bindings (rbac.authorization.k8s.io) with the other objects")

// Server returns the chain of a server with the roles and bindings among decoded objects: members
// of system:masters may do everything, others what these say. Without any, the answer about
// others is an error.
func Server(objects []map[string]any) (Chain, error) {
	found, err := FromTrees(objects)
	if err != nil {
		return nil, err
	}
	chain := Chain{{Name: "system:masters", Authorizer: Privileged()}}
	if found.Empty() {
		return append(chain, Stage{Name: "rbac", Authorizer: Always(Answer{Err: errNoRBAC})}), nil
	}
	rbac, _ := NewRBAC(found)
	return append(chain, Stage{Name: "rbac", Authorizer: rbac}), nil
}

// Decide implements [usher.Decider] for requests to authorize.
func (c Chain) Decide(ctx context.Context, r *usher.Request) (usher.Decision, error) {
	answer := c.Authorize(ctx, r)
	return usher.Decision{Verdict: answer.Verdict, Message: answer.Reason}, answer.Err
}

// Authorize implements [Authorizer].
func (c Chain) Authorize(ctx context.Context, r *usher.Request) Answer {
	answer, _ := c.Explain(ctx, r)
	return answer
}

// Explain answers as Authorize does, and returns the answer of every stage.
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

// Webhook is a decider behind an authorization webhook. If only is not empty, other verdicts become
// no opinion.
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

// AlwaysAllowedPaths allows what API servers allow everybody by default: health checks.
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

// ErrNode reports that an answer depends on which pods a node runs.
var ErrNode = errors.New("what a node may do depends on the pods that it runs: this is not simulated")

// Node represents the node authorizer. Like that, it has no opinion on users that are not nodes;
// for a node it reports that its answer is unknown.
func Node() Authorizer {
	return AuthorizerFunc(func(_ context.Context, r *usher.Request) Answer {
		if strings.HasPrefix(r.User.Name, "system:node:") && slices.Contains(r.User.Groups, "system:nodes") {
			return Answer{Reason: ErrNode.Error()}
		}
		return Answer{}
	})
}
