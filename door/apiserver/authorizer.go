package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/access"
	"github.com/usher-dev/usher/internal/answer"
)

// AuthorizerOptions configure an [Authorizer]. The zero value is ready to use.
type AuthorizerOptions struct {
	// FailurePolicy applies if there is no decision: with Ignore the next authorizers decide. With
	// Fail, put an authorizer for system:masters in front of this one, as API servers do; without it
	// nobody can repair the cluster.
	FailurePolicy usher.FailurePolicy
	// Timeout is how long a decision may take; 0 means 500 ms.
	Timeout time.Duration
	// Rules lists what users may do; if it is nil, such lists are incomplete.
	Rules Lister
	// Log receives errors; nil means slog.Default.
	Log *slog.Logger
}

// An Authorizer asks a [usher.Decider] whether users may do something. It is safe for concurrent
// use. Use [NewAuthorizer].
type Authorizer struct {
	decider usher.Decider
	options AuthorizerOptions
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// NewAuthorizer returns an authorizer that sends requests of the phase Authorize to d.
func NewAuthorizer(d usher.Decider, o AuthorizerOptions) *Authorizer {
	o.Timeout = cmp.Or(o.Timeout, 500*time.Millisecond)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Authorizer{decider: d, options: o}
}

// Authorize implements [authorizer.Authorizer].
func (z *Authorizer) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	ctx, cancel := context.WithTimeout(ctx, z.options.Timeout)
	defer cancel()
	r := access.Request(a)
	r.UID = string(uuid.NewUUID())
	d, err := answer.Decide(ctx, z.decider, r, z.options.Log)
	if err != nil {
		return z.undecided(ctx, r, err)
	}
	switch d.Verdict {
	case usher.Allow:
		return authorizer.DecisionAllow, d.Message, nil
	case usher.Deny:
		return authorizer.DecisionDeny, d.Message, nil
	case usher.NoOpinion:
		// A server tells users who are denied that this could be the reason.
		return authorizer.DecisionNoOpinion, d.Message, failures(d.Findings)
	}
	return z.undecided(ctx, r, fmt.Errorf("verdict %q is not known", d.Verdict))
}

func (z *Authorizer) undecided(ctx context.Context, r *usher.Request, reason error) (authorizer.Decision, string, error) {
	z.options.Log.ErrorContext(ctx, "access without a decision", "uid", r.UID, "verb", r.Access.Verb,
		"resource", r.Resource.String(), "path", r.Access.Path, "error", reason)
	err := fmt.Errorf("no decision was reached: %w", reason)
	if z.options.FailurePolicy == usher.Ignore {
		return authorizer.DecisionNoOpinion, "", err
	}
	return authorizer.DecisionDeny, "", err
}

// failures joins the errors of the rules that failed, nil if there are none.
func failures(findings []usher.Finding) error {
	var all []string
	for i := range findings {
		if f := &findings[i]; f.Outcome == usher.Failed && f.Err != nil {
			all = append(all, fmt.Sprintf("%s %s: %v", f.Policy, f.Rule, f.Err))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return errors.New(strings.Join(all, "; "))
}

// A Lister lists what a user may do in a namespace; the empty namespace means cluster-scoped
// resources. live.Live is one.
type Lister interface {
	Grants(ctx context.Context, user usher.User, namespace string) (usher.Grants, error)
}

// A ListerFunc adapts a function to a [Lister].
type ListerFunc func(ctx context.Context, user usher.User, namespace string) (usher.Grants, error)

// Grants calls f.
func (f ListerFunc) Grants(ctx context.Context, user usher.User, namespace string) (usher.Grants, error) {
	return f(ctx, user, namespace)
}

// RulesFor implements [authorizer.RuleResolver]. A server calls it for `kubectl auth can-i --list`;
// user interfaces use that to decide what to offer.
func (z *Authorizer) RulesFor(ctx context.Context, info user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if z.options.Rules == nil {
		return nil, nil, true, nil
	}
	grants, err := z.options.Rules.Grants(ctx, access.User(info), namespace)
	if err != nil {
		return nil, nil, true, fmt.Errorf("list rules: %w", err)
	}
	var resources []authorizer.ResourceRuleInfo
	var paths []authorizer.NonResourceRuleInfo
	for _, g := range grants.Allowed {
		if len(g.Paths) > 0 {
			paths = append(paths, &authorizer.DefaultNonResourceRuleInfo{Verbs: g.Verbs, NonResourceURLs: g.Paths})
			continue
		}
		resources = append(resources, &authorizer.DefaultResourceRuleInfo{
			Verbs: g.Verbs, APIGroups: g.Groups, Resources: g.Resources, ResourceNames: g.Names,
		})
	}
	return resources, paths, grants.Incomplete, nil
}
