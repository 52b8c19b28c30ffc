// Package decisionlog writes one line of log for each decision: denials, including those that were
// not enforced, warnings to users, and uses of exemptions at Info; failed rules at Warn (if ignored by the failure
// policy) or Error; everything else at Debug.
//
// Objects are never logged. Names are logged; the error of a failed rule without quoted text, which may
// be a value of the object; and of a denial the rule, the field and the message, and warnings, as users get them.
// Messages and errors about Secrets, or after a Secret was read, are withheld.
//
// Quoted text is left out of errors whatever it is, such as the values that a field may have: to have them
// in the log, write them without quotes, or deny the request with a message instead of returning an error.
package decisionlog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/withhold"
)

// Wrap returns a decider that decides as d does and logs it; nil means slog.Default.
func Wrap(d usher.Decider, log *slog.Logger) usher.Decider {
	if log == nil {
		log = slog.Default()
	}
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		start := time.Now()
		decision, err := d.Decide(ctx, r)
		level := levelOf(decision, err)
		if log.Enabled(ctx, level) {
			log.LogAttrs(ctx, level, "decision", attrs(r, decision, err, time.Since(start))...)
		}
		return decision, err
	})
}

func levelOf(d usher.Decision, err error) slog.Level {
	level := slog.LevelDebug
	if d.Verdict == usher.Deny || len(d.Warnings) > 0 {
		level = slog.LevelInfo
	}
	for i := range d.Findings {
		switch f := &d.Findings[i]; {
		case f.Outcome == usher.WouldDeny, len(f.Exemptions) > 0:
			level = max(level, slog.LevelInfo)
		case f.Outcome == usher.Failed && f.Ignored:
			level = max(level, slog.LevelWarn)
		case f.Outcome == usher.Failed, f.Failure() != nil:
			level = slog.LevelError
		}
	}
	if err != nil {
		level = slog.LevelError
	}
	return level
}

func attrs(r *usher.Request, d usher.Decision, err error, took time.Duration) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 16), slog.String("uid", r.UID), slog.String("phase", string(r.Phase)))
	if r.Access != nil {
		attrs = accessAttrs(attrs, r)
	} else {
		attrs = objectAttrs(attrs, r)
	}
	attrs = append(attrs, slog.String("verdict", verdict(d, err)), slog.Duration("took", took))
	if r.Access == nil && api.IsPolicy(r.Kind) {
		attrs = append(attrs, slog.Bool("policyAdmission", true))
	}
	if r.DryRun {
		attrs = append(attrs, slog.Bool("dryRun", true))
	}
	if policies := policies(d.Findings); len(policies) > 0 {
		attrs = append(attrs, slog.Any("policies", policies))
	}
	if refusals := refusals(r, &d); len(refusals) > 0 {
		attrs = append(attrs, slog.Any("refused", list[refusal](refusals)))
	}
	if wouldDeny := wouldDeny(d.Findings); len(wouldDeny) > 0 {
		attrs = append(attrs, slog.Any("wouldDeny", wouldDeny))
	}
	if len(d.Warnings) > 0 {
		attrs = append(attrs, slog.Any("warnings", warnings(r, &d)))
	}
	if exemptions := exemptions(d.Findings); len(exemptions) > 0 {
		attrs = append(attrs, slog.Any("exemptions", exemptions))
	}
	if failed := failures(r, d.Findings); len(failed) > 0 {
		attrs = append(attrs, slog.Any("failed", list[failure](failed)))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", withhold.Error(r, err, confidential(d.Findings))))
	}
	return attrs
}

func confidential(findings []usher.Finding) bool {
	return slices.ContainsFunc(findings, func(f usher.Finding) bool { return f.Confidential })
}

func objectAttrs(attrs []slog.Attr, r *usher.Request) []slog.Attr {
	kind := r.Kind.Kind
	if r.Subresource != "" {
		kind += "/" + r.Subresource
	}
	attrs = append(attrs,
		slog.String("operation", string(r.Operation)),
		slog.String("kind", kind),
		slog.String("namespace", r.Namespace),
		slog.String("name", r.ObjectName()),
	)
	return userAttrs(attrs, &r.User)
}

// mostGroups limits how many groups of a user are logged.
const mostGroups = 32

// userAttrs are the names without which nobody can decide the request again.
func userAttrs(attrs []slog.Attr, u *usher.User) []slog.Attr {
	attrs = append(attrs, slog.String("user", u.Name))
	groups := u.Groups
	if more := len(groups) - mostGroups; more > 0 {
		groups = append(slices.Clone(groups[:mostGroups]), fmt.Sprintf("and %d more", more))
	}
	if len(groups) > 0 {
		attrs = append(attrs, slog.Any("groups", groups))
	}
	return attrs
}

func verdict(d usher.Decision, err error) string {
	switch {
	case err != nil:
		return "error"
	case d.Verdict == usher.NoOpinion:
		return "no opinion"
	}
	return string(d.Verdict)
}

// policies names the policies that did not merely look on.
func policies(findings []usher.Finding) []string {
	return names(findings, func(o usher.Outcome) bool {
		return o != usher.Passed && o != usher.Skipped && o != usher.WouldDeny && o != usher.Exempted
	})
}

// wouldDeny names the policies that would deny the request.
func wouldDeny(findings []usher.Finding) []string {
	return names(findings, func(o usher.Outcome) bool { return o == usher.WouldDeny })
}

// exemptions names the exemptions that applied, each with the policy from which it exempts.
func exemptions(findings []usher.Finding) []string {
	var names []string
	for i := range findings {
		for j := range findings[i].Exemptions {
			name := findings[i].Exemptions[j].PolicyRef.String() + ": " + findings[i].Policy.String()
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func names(findings []usher.Finding, wanted func(usher.Outcome) bool) []string {
	var names []string
	for i := range findings {
		f := &findings[i]
		if f.Written || f.Policy == (usher.PolicyRef{}) {
			// No policy decided this.
			continue
		}
		if name := f.Policy.String(); wanted(f.Outcome) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// A failure is a rule that failed.
type failure struct {
	Policy string `json:"policy"`
	Rule   string `json:"rule"`
	// Part and Validation are the place and the name of the part of the rule that failed, if that is known.
	Part       string `json:"part,omitempty"`
	Validation string `json:"validation,omitempty"`
	Error      string `json:"error"`
	Ignored    bool   `json:"ignored"`
}

func failures(r *usher.Request, findings []usher.Finding) []failure {
	var failed []failure
	secret := false
	for i := range findings {
		f := &findings[i]
		secret = secret || f.Confidential
		if err := f.Failure(); err != nil {
			one := failure{Policy: f.Policy.String(), Rule: f.Rule, Error: withhold.Error(r, err, secret), Ignored: f.Ignored}
			if at := slices.IndexFunc(f.Checks, func(c usher.Check) bool { return c.Failed }); at >= 0 {
				one.Part, one.Validation = f.Checks[at].Name, f.Checks[at].Validation
				one.Ignored = len(f.Checks[at].Actions) == 0
			}
			failed = append(failed, one)
		}
	}
	return failed
}

// String implements [fmt.Stringer].
func (f failure) String() string {
	return inWords(f.Policy, cmp.Or(f.Part, f.Rule), f.Validation, "", "failed: "+f.Error)
}
