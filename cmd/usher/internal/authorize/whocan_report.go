package authorize

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	rbacv1 "k8s.io/api/rbac/v1"
)

type whoReport struct {
	Request string   `json:"request"`
	Who     []whoCan `json:"who"`
	// Denied are the subjects of policies that deny it.
	Denied []whoCan `json:"denied,omitempty"`
	// Incomplete says that there may be others, or other denials: Unlisted are the kinds that could not be listed, Unknown
	// the subjects that are bound to roles which could not be read.
	Incomplete bool     `json:"incomplete,omitempty"`
	Unlisted   []string `json:"unlisted,omitempty"`
	Unknown    []whoCan `json:"unknown,omitempty"`
	// RBACUnknown says that the answer is by policies alone.
	RBACUnknown bool `json:"rbacUnknown,omitempty"`
	// refusable reports that policies about writes of objects may refuse the request.
	refusable bool
}

// A whoCan is a subject for which RBAC or a policy allows the request.
type whoCan struct {
	// Kind is User, Group or ServiceAccount; Name may be a pattern.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Via is what allows the request, or denies it, If its conditions.
	Via string   `json:"via"`
	If  []string `json:"if,omitempty"`
	// DeniedBy are policies that deny it.
	DeniedBy []string `json:"deniedBy,omitempty"`
	// Allowed reports whether the request is allowed in the end.
	Allowed bool `json:"allowed"`
	// within is the namespace of what allows the request, role what it binds.
	within string
	role   rbacv1.RoleRef
}

func (r *whoReport) print(out io.Writer) error {
	if err := r.printWho(out); err != nil {
		return err
	}
	if len(r.Unlisted) > 0 {
		fmt.Fprintf(out, "incomplete: you may not list %s: by these, others may be able to, or somebody above is denied it\n", strings.Join(r.Unlisted, ", "))
	}
	if len(r.Unknown) == 0 {
		return nil
	}
	var roles []string
	for _, who := range r.Unknown {
		if name := who.role.Kind + " " + who.role.Name; !slices.Contains(roles, name) {
			roles = append(roles, name)
		}
	}
	_, err := fmt.Fprintf(out, "incomplete: roles could not be read, subjects bound to them may be able to as well: %s\n", strings.Join(roles, ", "))
	return err
}

// nobody is the answer where nobody is found.
func (r *whoReport) nobody() string {
	switch {
	case r.RBACUnknown:
		return "No policy allows anybody to " + r.Request + "; whether RBAC does is not known (--rbac or --kubeconfig)."
	case r.Incomplete:
		return "By what you may read, nobody may " + r.Request + ", besides system:masters."
	}
	return "Nobody may " + r.Request + ", besides system:masters."
}

func (r *whoReport) printWho(out io.Writer) error {
	if len(r.Who) == 0 {
		_, err := fmt.Fprintln(out, r.nobody())
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SUBJECT\tVIA\tIF\tDENIED BY")
	for _, who := range r.Who {
		fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\n", who.Kind, who.Name, who.Via, dash(strings.Join(who.If, "; ")), dash(strings.Join(who.DeniedBy, ", ")))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(r.Denied) > 0 {
		fmt.Fprintln(out, "\nDenied, also to those above who are in such a group:")
		fmt.Fprintln(table, "SUBJECT\tBY\tIF")
	}
	for _, who := range r.Denied {
		fmt.Fprintf(table, "%s %s\t%s\t%s\n", who.Kind, who.Name, who.Via, dash(strings.Join(who.If, "; ")))
	}
	if err := table.Flush(); err != nil || !r.refusable {
		return err
	}
	_, err := io.WriteString(out, refusableNote)
	return err
}

func dash(text string) string { return cmp.Or(text, "-") }
