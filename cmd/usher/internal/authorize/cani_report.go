package authorize

import (
	"fmt"
	"io"
	"slices"
	"strings"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	explain "github.com/usher-dev/usher/internal/explain/authz"
)

// A canIReport is the answer, with everything that it depends on.
type canIReport struct {
	Request string     `json:"request"`
	User    usher.User `json:"user"`
	// Allowed is the answer, as in the exit status: that of the cluster where it knows more.
	Allowed bool `json:"allowed"`
	// Verdict is allow, deny or no opinion, from what is known here; HTTP is the status that the user gets.
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
	// Partial says that roles, bindings or policies of the cluster could not be read.
	Partial bool `json:"partial,omitempty"`

	// refusable reports that policies about writes of objects may refuse the request.
	refusable bool
}

// notKnown is the verdict of a stage that may allow or deny by what could not be read.
const notKnown = "not known"

type stageReport struct {
	Name  string `json:"name"`
	Asked bool   `json:"asked"`
	// Verdict is allow, deny, no opinion or not known.
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	// Nearly are rules of RBAC that differ from the request in one thing.
	Nearly []string `json:"nearly,omitempty"`
	explain.Reasons
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
func (r *canIReport) differs() bool { return r.Cluster != nil && r.Cluster.Allowed != r.here() }

// here reports whether the request is allowed by what is known here.
func (r *canIReport) here() bool { return r.Verdict == string(usher.Allow) }

// disputed reports whether it does although it should not.
func (r *canIReport) disputed() bool { return r.differs() && !r.WhatIf && !r.Partial }

// deferred reports whether the API server's answer counts, as it knows what could not be read here.
func (r *canIReport) deferred() bool { return r.differs() && !r.WhatIf && r.Partial }

// unknown reports whether nobody knows the answer: not everything could be read, and the API server did not answer.
func (r *canIReport) unknown() bool { return r.Partial && r.Cluster == nil && !r.WhatIf }

// ask has the API server answer, too.
func (r *canIReport) ask(answer *clusterAnswer) {
	r.Cluster = answer
	if r.deferred() {
		r.Allowed = answer.Allowed
	}
}

func (r *canIReport) print(out io.Writer, p cli.Palette, explain bool) error {
	var b strings.Builder
	if r.disputed() {
		fmt.Fprintf(&b, "%s: %s\n", cli.Paint(p.Red, "THE CLUSTER ANSWERS DIFFERENTLY"), r.Cluster)
		b.WriteString("It may not ask Usher (see 'usher status'), or have policies in files (name them with --policies), other authorizers, or an answer that it remembers.\nFrom what is known here: ")
	}
	if r.deferred() {
		says := map[bool]string{true: cli.Paint(p.Green, "ALLOWED"), false: cli.Paint(p.Red, "NOT ALLOWED")}[r.Cluster.Allowed]
		if r.Cluster.Reason != "" {
			says += ": " + r.Cluster.Reason
		}
		fmt.Fprintf(&b, "%s (as the cluster answers)\nFrom what you may read: ", says)
	}
	if r.unknown() {
		fmt.Fprintf(&b, "%s: not everything that decides could be read, and the cluster did not answer\nFrom what you may read: ", cli.Paint(p.Yellow, "NOT KNOWN"))
	}
	b.WriteString(r.headline(p) + "\n")
	if explain {
		fmt.Fprintf(&b, "%s by %s\n", r.Request, user.Describe(r.User))
		for i, stage := range r.Stages {
			stage.print(&b, i+1, p)
		}
		for _, hint := range r.Passes {
			fmt.Fprintf(&b, "Would pass with: %s\n", hint)
		}
	}
	switch {
	case r.disputed(), r.deferred(): // That came first.
	case r.differs():
		fmt.Fprintf(&b, "Note: the cluster, which may not have these policies and roles, says: %s\n", r.Cluster)
	case explain && r.Cluster != nil:
		fmt.Fprintf(&b, "The cluster says: %s\n", r.Cluster)
	}
	if r.refusable && r.Allowed {
		b.WriteString(refusableNote)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

const refusableNote = "Note: admission policies may still refuse it: see 'usher decide --from-cluster', for a deletion with --operation DELETE\n"

// isWrite reports whether API servers ask admission policies about a request.
func isWrite(r *usher.Request) bool {
	return !r.Access.NonResource && slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, r.Access.Verb)
}

// headline is the answer in one line.
func (r *canIReport) headline(p cli.Palette) string {
	switch {
	case r.here() && r.Reason == "":
		return cli.Paint(p.Green, "ALLOWED") + " by " + r.Stage
	case r.here():
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
	for _, says := range s.Nearly {
		fmt.Fprintf(b, "     %s %s\n", cli.Paint(p.Faint, "nearly:"), says)
	}
	s.Reasons.Print(b, "     ", p)
}
