package authorize

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func newWhatCan(s cli.Streams) *cobra.Command {
	var world worldFlags
	var who user.Flags
	var scope scopeFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "what-can --as USER",
		Short: "List what a user may do, and is denied",
		Long: `What-can lists the rules of RBAC and of policies that are for a user: what they allow,
deny, or leave to others, and on what conditions. What denies comes first, since it wins.

The roles bound in the namespace of -n, or of the kubeconfig's context, are there, too; with
-A only what counts in all namespaces. Conditions are not decided: IF has them. The exit status is 0 if there is
something that the user may do, and 1 if not.`,
		Example: `  usher authz what-can --as jane --as-group devs -p policies/ --rbac rbac/
  usher authz what-can --as system:serviceaccount:ci:builder -n shop --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !who.Given() {
				return &cli.UsageError{Command: cmd.CommandPath(), Err: errors.New("whose rights? name a user with --as, or a group with --as-group")}
			}
			u, err := who.User()
			if err != nil {
				return err
			}
			namespace := scope.in(&world)
			w, err := world.load(cmd, s, namespace)
			if err != nil {
				return err
			}
			report := whatReport{User: u, Rules: w.whatCan(&u, namespace)}
			scope.tell(w)
			w.warn(cmd, s)
			err = output.Report(s.Out, report, func() error { return report.print(s.Out) })
			if err == nil && !slices.ContainsFunc(report.Rules, func(r whatCan) bool { return r.Effect == authz.Allow.String() }) {
				return cli.ErrNegative
			}
			return err
		},
	}
	world.register(cmd.Flags())
	who.Register(cmd.Flags())
	scope.register(cmd.Flags())
	output.Register(cmd, "text", "json", "yaml")
	return cmd
}

type whatReport struct {
	User  usher.User `json:"user"`
	Rules []whatCan  `json:"rules"`
}

// A whatCan is one rule for a user.
type whatCan struct {
	Effect     string   `json:"effect"`
	Verbs      []string `json:"verbs"`
	Resources  []string `json:"resources,omitempty"`
	Paths      []string `json:"paths,omitempty"`
	Names      []string `json:"names,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Via        string   `json:"via"`
	If         []string `json:"if,omitempty"`
}

func (w *World) whatCan(u *usher.User, namespace string) []whatCan {
	var all []whatCan
	q := authz.QueryOf(&usher.Request{Phase: usher.Authorize, User: *u, Access: &usher.Access{NonResource: true}}, nil)
	for _, rule := range w.rules {
		if rule.Policy.Concerns(&q) {
			all = append(all, whatOf(rule))
		}
	}
	slices.SortStableFunc(all, func(a, b whatCan) int { return cmp.Compare(effectOrder(a.Effect), effectOrder(b.Effect)) })
	for _, grant := range w.RBAC.Held(u, namespace) {
		what := whatCan{
			Effect: authz.Allow.String(), Verbs: grant.Rule.Verbs, Names: grant.Rule.ResourceNames, Paths: grant.Rule.NonResourceURLs,
			Via: grant.Binding.String(),
		}
		if grant.Binding.Namespace != "" {
			what.Namespaces = []string{grant.Binding.Namespace}
		}
		for _, group := range grant.Rule.APIGroups {
			for _, resource := range grant.Rule.Resources {
				what.Resources = append(what.Resources, inGroup(resource, group))
			}
		}
		all = append(all, what)
	}
	return all
}

func effectOrder(effect string) int {
	return slices.Index([]string{authz.Deny.String(), authz.Abstain.String(), authz.Allow.String()}, effect)
}

func whatOf(r *authz.Rule) whatCan {
	what := whatCan{Effect: r.Policy.Effect.String(), Verbs: texts(&r.Verbs), Via: rule.FullName(r.Policy.Ref), If: conditionsOf(r.Policy)}
	if r.URLs != nil {
		what.Paths = texts(r.URLs)
		return what
	}
	for _, group := range texts(&r.Groups) {
		for _, resource := range r.Resources {
			what.Resources = append(what.Resources, inGroup(resource.String(), group))
		}
	}
	if !r.Names.Any {
		what.Names = texts(&r.Names)
	}
	switch {
	case r.Own != "":
		what.Namespaces = []string{r.Own}
	case !r.Namespaces.Any:
		what.Namespaces = texts(&r.Namespaces)
	}
	return what
}

func texts(s *authz.Set) []string {
	if s.Any {
		return []string{"*"}
	}
	var all []string
	for _, pattern := range s.Patterns {
		all = append(all, pattern.String())
	}
	return all
}

// inGroup is a resource with its group: deployments.apps/scale.
func inGroup(resource, group string) string {
	if group == "" || group == "*" && resource == "*" {
		return resource
	}
	name, sub, _ := strings.Cut(resource, "/")
	if sub != "" {
		sub = "/" + sub
	}
	return name + "." + group + sub
}

func (r *whatReport) print(out io.Writer) error {
	if len(r.Rules) == 0 {
		_, err := fmt.Fprintf(out, "Nothing is for %s.\n", user.Describe(r.User))
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EFFECT\tVERBS\tWHAT\tNAMES\tNAMESPACES\tVIA\tIF")
	list := func(texts []string) string { return dash(strings.Join(texts, ",")) }
	for _, rule := range r.Rules {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", rule.Effect, list(rule.Verbs), list(append(slices.Clone(rule.Resources), rule.Paths...)),
			list(rule.Names), list(rule.Namespaces), rule.Via, dash(strings.Join(rule.If, "; ")))
	}
	return table.Flush()
}
