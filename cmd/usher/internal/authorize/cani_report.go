package authorize

import (
	"fmt"
	"io"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	"github.com/usher-dev/usher/internal/rule/authz"
)

// A canIReport is the answer, with everything that it depends on.
type canIReport struct {
	Request string     `json:"request"`
	User    usher.User `json:"user"`
	Allowed bool       `json:"allowed"`
	// Verdict is allow, deny or no opinion; HTTP is the status that the user gets.
	Verdict string `json:"verdict"`
	// RBACUnknown says that the answer is by policies alone.
	RBACUnknown bool          `json:"rbacUnknown,omitempty"`
	Stage       string        `json:"stage,omitempty"`
	Reason      string        `json:"reason,omitempty"`
	HTTP        int           `json:"http"`
	Stages      []stageReport `json:"stages"`
	// Passes are similar requests that would not be denied, or that would be allowed.
	Passes  []string       `json:"passes,omitempty"`
	Cluster *clusterAnswer `json:"cluster,omitempty"`
	// WhatIf says that the cluster may answer differently: policies or roles need not be its own.
	WhatIf bool `json:"whatIf,omitempty"`
}

type stageReport struct {
	Name    string `json:"name"`
	Asked   bool   `json:"asked"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// Rules are those of policies that match, NearMatches those that almost match.
	Rules       []ruleReport `json:"rules,omitempty"`
	NearMatches []ruleReport `json:"nearMatches,omitempty"`
}

type ruleReport struct {
	Policy string `json:"policy"`
	Tier   string `json:"tier"`
	Effect string `json:"effect"`
	Rule   string `json:"rule"`
	// Outcome is what a rule that matches contributes to the decision.
	Outcome string `json:"outcome,omitempty"`
	// Why gives details; for a rule that almost matches, what does not match.
	Why        string   `json:"why,omitempty"`
	Conditions []string `json:"conditions,omitempty"`
}

// A clusterAnswer is what an API server says.
type clusterAnswer struct {
	Allowed bool   `json:"allowed"`
	Denied  bool   `json:"denied,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// String is the answer in words.
func (c *clusterAnswer) String() string {
	says := map[bool]string{true: "allowed", false: "not allowed"}[c.Allowed]
	if c.Reason != "" {
		says += ": " + c.Reason
	}
	return says
}

// differs reports whether the API server answers differently.
func (r *canIReport) differs() bool { return r.Cluster != nil && r.Cluster.Allowed != r.Allowed }

// disputed reports whether it does although it should not.
func (r *canIReport) disputed() bool { return r.differs() && !r.WhatIf }

func verdictWord(v usher.Verdict) string {
	if v == usher.NoOpinion {
		return "no opinion"
	}
	return string(v)
}

// add reports the policies behind the answer of the stage: in one stage those that deny, in the
// other those that allow or abstain.
func (s *stageReport) add(x authzengine.Explanation) {
	belongs := func(r *authz.Rule) bool { return (r.Policy.Effect == authz.Deny) == (s.Name == denyStage) }
	for _, step := range x.Steps {
		if !belongs(step.Rule) {
			continue
		}
		reported := reportRule(step.Rule)
		reported.Outcome, reported.Why = string(step.Outcome), step.Why
		for _, e := range step.Evaluated {
			outcome := fmt.Sprintf("%s: %t", e.Condition.Name, e.Holds)
			if e.Err != nil {
				outcome = fmt.Sprintf("%s: %v", e.Condition.Name, e.Err)
			}
			reported.Conditions = append(reported.Conditions, outcome)
		}
		s.Rules = append(s.Rules, reported)
	}
	for _, near := range x.NearMatches {
		if belongs(near.Rule) {
			reported := reportRule(near.Rule)
			reported.Why = near.Mismatch
			s.NearMatches = append(s.NearMatches, reported)
		}
	}
}

func reportRule(r *authz.Rule) ruleReport {
	return ruleReport{Policy: policyName(r.Policy.Ref), Tier: r.Policy.Tier.String(), Effect: r.Policy.Effect.String(), Rule: r.Name}
}

// policyName returns the name of a policy as an argument for kubectl.
func policyName(ref usher.PolicyRef) string {
	if ref.Namespace != "" {
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
	return ref.Kind + "/" + ref.Name
}

func (r *canIReport) print(out io.Writer, p cli.Palette, explain bool) error {
	var b strings.Builder
	if r.disputed() {
		fmt.Fprintf(&b, "%s: %s\n", cli.Paint(p.Red, "THE CLUSTER ANSWERS DIFFERENTLY"), r.Cluster)
		b.WriteString("It may have policies in files (name them with --policies), other authorizers, or an answer that it remembers.\nFrom what is known here: ")
	}
	b.WriteString(r.headline(p) + "\n")
	if explain {
		fmt.Fprintf(&b, "%s by %s\n", r.Request, describeUser(r.User))
		for i, stage := range r.Stages {
			stage.print(&b, i+1, p)
		}
		for _, hint := range r.Passes {
			fmt.Fprintf(&b, "Would pass with: %s\n", hint)
		}
	}
	switch {
	case r.disputed(): // That came first.
	case r.differs():
		fmt.Fprintf(&b, "Note: the cluster, which may not have these policies and roles, says: %s\n", r.Cluster)
	case explain && r.Cluster != nil:
		fmt.Fprintf(&b, "The cluster says: %s\n", r.Cluster)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// headline is the answer in one line.
func (r *canIReport) headline(p cli.Palette) string {
	switch {
	case r.Allowed && r.Reason == "":
		return cli.Paint(p.Green, "ALLOWED") + " by " + r.Stage
	case r.Allowed:
		return cli.Paint(p.Green, "ALLOWED") + " by " + r.Stage + ": " + r.Reason
	case r.Verdict == string(usher.Deny):
		return cli.Paint(p.Red, "DENIED") + " by " + r.Stage + ": " + r.Reason
	case r.RBACUnknown:
		return cli.Paint(p.Red, "NOT ALLOWED") + " by a policy; whether RBAC allows it is not known (--rbac or --kubeconfig)"
	case r.Reason != "":
		return cli.Paint(p.Red, "NOT ALLOWED") + " by anybody: " + strings.ReplaceAll(r.Reason, "\n", "; ")
	}
	return cli.Paint(p.Red, "NOT ALLOWED") + " by anybody"
}

func (s *stageReport) print(b *strings.Builder, n int, p cli.Palette) {
	verdict := s.Verdict
	switch verdict {
	case string(usher.Allow):
		verdict = cli.Paint(p.Green, "ALLOW")
	case string(usher.Deny):
		verdict = cli.Paint(p.Red, "DENY")
	}
	switch {
	case !s.Asked && s.Verdict == "no opinion":
		verdict = "(not asked)"
	case !s.Asked:
		verdict = "(not asked; would " + s.Verdict + ")"
	}
	line := fmt.Sprintf("%2d %-15s %s", n, s.Name, verdict)
	if s.Reason != "" {
		line += "  " + s.Reason
	}
	b.WriteString(line + "\n")
	for _, r := range s.Rules {
		fmt.Fprintf(b, "     %s %s (tier %s) %s: %s%s\n", r.Effect, r.Policy, r.Tier, r.Rule, r.Outcome, because(r.Why))
		for _, condition := range r.Conditions {
			fmt.Fprintf(b, "       %s\n", condition)
		}
	}
	for _, r := range s.NearMatches {
		fmt.Fprintf(b, "     %s %s (tier %s) %s: %s\n", cli.Paint(p.Faint, "nearly: "+r.Effect), r.Policy, r.Tier, r.Rule, r.Why)
	}
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ", " + why
}
