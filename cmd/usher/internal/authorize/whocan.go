package authorize

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	authzengine "github.com/usher-dev/usher/internal/engine/authz"
	explain "github.com/usher-dev/usher/internal/explain/authz"
	authzindex "github.com/usher-dev/usher/internal/index/authz"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/rule/authz"
	simulate "github.com/usher-dev/usher/internal/simulate/authz"
)

func newWhoCan(s cli.Streams) *cobra.Command {
	var world worldFlags
	var target targetFlags
	var output cli.OutputFlag
	cmd := &cobra.Command{
		Use:   "who-can VERB RESOURCE[/NAME]",
		Short: "List who may do something",
		Long: `Who-can lists the users, groups and service accounts that RBAC or a policy allows a
request, on what conditions, and who of them is denied it nevertheless. Who is in a group
is not known here. Members of system:masters may do everything, also where no line says so.

Of subjects with a * in them it is not known whether they are denied: DENIED BY then lists
the policies that may. Below the list is whom policies deny the request: a user of the list
who is in such a group is denied it, too.

A RoleBinding counts for its own namespace as an object, too: with namespaces/NAME, those of
NAME are there, and with namespaces, those of every namespace. IF says for which one. It also
says for which names and namespaces alone a policy denies the request, or leaves it to other
authorizers (NoOpinion): for others, the subject may.

Where roles, bindings or policies cannot be read, the last lines begin with "incomplete" and
say who else may be able to. The exit status is 0 if somebody may by what could be read, 1 if
nobody, and 2 if nobody is found and the list is incomplete.`,
		Example: `  usher authz who-can delete pods -n shop -p policies/ --rbac rbac/
  usher authz who-can get secrets/db -n shop --kubeconfig ~/.kube/config
  usher authz who-can create pods --subresource exec -n shop -o json -p policies/ --rbac rbac/`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := world.load(cmd, s, target.in(&world))
			if err != nil {
				return err
			}
			r, err := target.request(args, usher.User{}, w)
			if err != nil {
				return err
			}
			report := whoReport{
				Request: describeRequest(r), Who: w.whoCan(cmd.Context(), r), Denied: w.denials(r), Unlisted: w.unlisted(r), Unknown: w.unread(r),
				RBACUnknown: w.rbacUnknown, refusable: isWrite(r),
			}
			report.Incomplete = len(report.Unlisted)+len(report.Unknown) > 0
			w.warn(cmd, s)
			err = output.Report(s.Out, report, func() error { return report.print(s.Out) })
			switch {
			case err != nil || slices.ContainsFunc(report.Who, func(who whoCan) bool { return who.Allowed }):
				return err
			case report.Incomplete:
				return errors.New("cannot tell whether somebody may: ask a user who may read all roles, bindings and policies")
			}
			return cli.ErrNegative
		},
	}
	world.register(cmd.Flags())
	target.register(cmd.Flags())
	output.Register(cmd, "text", "json", "yaml")
	return cmd
}

// whoCan lists the subjects for which RBAC or a policy allows a request. If it is for any Namespace, those
// who may do it with one, by what is bound in that, are there, too.
func (w *World) whoCan(ctx context.Context, r *usher.Request) []whoCan {
	all := w.allowed(ctx, r)
	if ofNamespaces(r) && r.Name == "" && r.Namespace == "" {
		for _, namespace := range w.namespaces() {
			one := *r
			one.Name, one.Namespace = namespace, namespace
			for _, who := range w.allowed(ctx, &one) {
				if who.within != "" {
					who.If = append(who.If, "only namespaces/"+namespace)
					all = append(all, who)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b whoCan) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Via, b.Via))
	})
	return slices.CompactFunc(all, func(a, b whoCan) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Via == b.Via })
}

// namespaces returns those in which something is bound, or has a policy.
func (w *World) namespaces() []string {
	all := w.RBAC.Namespaces()
	for _, rule := range w.rules {
		if rule.Own != "" {
			all = append(all, rule.Own)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// allowed lists the subjects for which RBAC or a policy allows a request, as often as one does.
func (w *World) allowed(ctx context.Context, r *usher.Request) []whoCan {
	var all []whoCan
	for _, grant := range w.RBAC.Granting(r) {
		all = append(all, boundBy(grant.Binding)...)
	}
	q := authz.QueryOf(r, nil)
	for _, one := range w.rules {
		if one.Policy.Effect != authz.Allow || !one.IsFor(&q) {
			continue
		}
		for _, who := range subjectsOf(one.Policy) {
			who.Via, who.If, who.within = rule.FullName(one.Policy.Ref), conditionsOf(one.Policy), one.Own
			all = append(all, who)
		}
	}
	rest := w.withoutParts(r)
	for i := range all {
		w.deny(ctx, r, rest, &all[i])
	}
	return all
}

// boundBy returns the subjects of a binding.
func boundBy(binding *simulate.Binding) []whoCan {
	var all []whoCan
	for _, subject := range binding.Subjects {
		who := whoCan{Kind: subject.Kind, Name: subject.Name, Via: binding.String(), within: binding.Namespace, role: binding.Role}
		if subject.Kind == rbacv1.ServiceAccountKind {
			who.Name = cmp.Or(subject.Namespace, binding.Namespace) + "/" + subject.Name
		}
		all = append(all, who)
	}
	return all
}

// unread lists the subjects that are bound to roles which could not be read.
func (w *World) unread(r *usher.Request) []whoCan {
	var all []whoCan
	for _, binding := range w.RBAC.Unread(r, nil) {
		all = append(all, boundBy(binding)...)
	}
	return all
}

// subjectsOf returns the subjects of a policy.
func subjectsOf(p *authz.Policy) []whoCan {
	var all []whoCan
	for _, subject := range p.Subjects {
		for _, user := range subject.Users {
			all = append(all, whoCan{Kind: "User", Name: user.String()})
		}
		for _, group := range subject.Groups {
			all = append(all, whoCan{Kind: "Group", Name: group.String()})
		}
		for _, account := range subject.ServiceAccounts {
			all = append(all, whoCan{Kind: "ServiceAccount", Name: account.String()})
		}
	}
	return all
}

// auditOnly is the condition of a policy that only reports.
const auditOnly = "in Audit mode: without effect"

// conditionsOf returns the conditions of a policy and its selectors.
func conditionsOf(p *authz.Policy) []string {
	var all []string
	if p.Audit {
		all = append(all, auditOnly)
	}
	if flags := explain.SelectorFlags(p); flags != "" {
		all = append(all, "with "+flags)
	}
	for i := range p.When {
		all = append(all, "when "+told(&p.When[i]))
	}
	for i := range p.Unless {
		all = append(all, "unless "+told(&p.Unless[i]))
	}
	if len(p.Excluded) > 0 {
		var names []string
		for _, who := range subjectsOf(&authz.Policy{Subjects: p.Excluded}) {
			names = append(names, who.Name)
		}
		all = append(all, "except "+strings.Join(names, ", "))
	}
	if !p.Until.IsZero() {
		all = append(all, "until "+p.Until.UTC().Format("2006-01-02T15:04:05Z"))
	}
	return all
}

// longestTold limits the length of an expression in a table.
const longestTold = 60

// told returns the name of a condition; of one whose name is only its place, the expression, if that is short.
func told(c *authz.Condition) string {
	if strings.HasPrefix(c.Name, "spec.") && len(c.Source) <= longestTold {
		return printable.Line(c.Source)
	}
	return c.Name
}

// userOf returns a user who matches the subject and nothing else; ok is false for patterns.
func (who *whoCan) userOf() (u usher.User, ok bool) {
	if strings.Contains(who.Name, "*") && who.Name != "*" {
		return u, false
	}
	switch who.Kind {
	case "User":
		u.Name = who.Name
	case "ServiceAccount":
		u.Name = "system:serviceaccount:" + strings.Replace(who.Name, "/", ":", 1)
	default:
		u.Groups = []string{who.Name}
		if who.Name == "*" {
			u.Groups = nil
		}
	}
	return user.Complete(u), true
}

// deny finds out whether the subject is denied a request that something allows. Rest is the world without the rules
// that deny a part of it.
func (w *World) deny(ctx context.Context, r *usher.Request, rest *World, who *whoCan) {
	u, known := who.userOf()
	asked := *r
	asked.User = u
	if !known {
		who.DeniedBy = w.mayDeny(&asked)
		who.Allowed = !slices.Contains(who.If, auditOnly)
		return
	}
	decision, err := w.Engine.Decide(ctx, &asked)
	if err != nil {
		return
	}
	left := ""
	for _, f := range decision.Findings {
		switch {
		case f.Outcome == usher.Rejected:
			who.DeniedBy = append(who.DeniedBy, rule.FullName(f.Policy))
		case decision.Verdict == usher.NoOpinion && who.role.Name == "" && w.effectOf(f.Policy) == authz.Abstain:
			// RBAC is another authorizer, to which it is left.
			left = rule.FullName(f.Policy)
		}
	}
	if (len(who.DeniedBy) > 0 || left != "") && len(rest.rules) < len(w.rules) {
		w.denyRest(ctx, r, rest, who, left)
		return
	}
	answer := simulate.Chain.Authorize(w.chain(), ctx, &asked)
	// A request that depends on conditions may be allowed for some.
	who.Allowed = len(who.DeniedBy) == 0 && left == "" && (answer.Verdict == usher.Allow || len(who.If) > 0) && !slices.Contains(who.If, auditOnly)
	if left != "" {
		who.If = append(who.If, "left to other authorizers by "+left)
	}
}

// denyRest finds out the same where policies deny the request, or leave it to other authorizers. A subject for whom these do
// so for a part is not denied: what is left decides.
func (w *World) denyRest(ctx context.Context, r *usher.Request, rest *World, who *whoCan, left string) {
	q := authz.QueryOf(r, nil)
	denied := who.DeniedBy
	who.DeniedBy = nil
	rest.deny(ctx, r, rest, who)
	mark := func(does, via string) {
		i := slices.IndexFunc(w.rules, func(one *authz.Rule) bool { return rule.FullName(one.Policy.Ref) == via && one.IsFor(&q) })
		if i < 0 || slices.Contains(who.DeniedBy, via) {
			return
		}
		if part := w.partOf(w.rules[i].Policy, &q); part != "" {
			who.If = append(who.If, does+" "+part+" by "+via)
		}
	}
	for _, via := range denied {
		mark("denied", via)
	}
	mark("left to other authorizers", left)
}

// effectOf returns the effect of a policy.
func (w *World) effectOf(policy usher.PolicyRef) authz.Effect {
	i := slices.IndexFunc(w.rules, func(one *authz.Rule) bool { return one.Policy.Ref == policy })
	if i < 0 {
		return authz.Allow
	}
	return w.rules[i].Policy.Effect
}

// denials lists the subjects of the policies that deny a request for at least one user.
func (w *World) denials(r *usher.Request) []whoCan {
	var all []whoCan
	q := authz.QueryOf(r, nil)
	for _, one := range w.rules {
		if one.Policy.Effect != authz.Deny || one.Policy.Audit || !one.IsFor(&q) {
			continue
		}
		via := rule.FullName(one.Policy.Ref)
		if slices.ContainsFunc(all, func(d whoCan) bool { return d.Via == via }) {
			continue
		}
		part := w.partOf(one.Policy, &q)
		for _, who := range subjectsOf(one.Policy) {
			who.Via, who.If = via, conditionsOf(one.Policy)
			if part != "" {
				who.If = append([]string{part}, who.If...)
			}
			all = append(all, who)
		}
	}
	return all
}

// part says for which names and namespaces alone a rule denies what is asked without one, or leaves it to other authorizers;
// empty if it does so with all of it. API servers do ask about collections, and about objects that have no name yet: these are
// denied as a whole.
func part(one *authz.Rule, q *authz.Query) string {
	if one.Policy.Effect == authz.Allow || q.NonResource || q.Verb.Extent != authz.One || authz.HasSelectors(q.Verb.Text) {
		return ""
	}
	var all []string
	if q.Name.Extent == authz.All && !one.Names.Any {
		all = append(all, "names "+one.Names.String())
	}
	if q.Namespace.Extent == authz.All && !one.Namespaces.Any {
		all = append(all, "namespaces "+one.Namespaces.String())
	}
	if len(all) == 0 {
		return ""
	}
	return printable.Line("for " + strings.Join(all, " in "))
}

// partOf says the same of all rules of a policy that are for q.
func (w *World) partOf(p *authz.Policy, q *authz.Query) string {
	var parts []string
	for _, one := range w.rules {
		if one.Policy != p || !one.IsFor(q) {
			continue
		}
		of := part(one, q)
		if of == "" {
			return ""
		}
		parts = append(parts, of)
	}
	return strings.Join(parts, " and ")
}

// withoutParts returns the world without the rules that deny only a part of what is asked.
func (w *World) withoutParts(r *usher.Request) *World {
	q := authz.QueryOf(r, nil)
	rest := *w
	rest.rules = slices.DeleteFunc(slices.Clone(w.rules), func(one *authz.Rule) bool { return one.IsFor(&q) && part(one, &q) != "" })
	if len(rest.rules) < len(w.rules) {
		rest.Engine = authzengine.New(authzindex.New(rest.rules), authzengine.Options{})
	}
	return &rest
}

// mayDeny returns the policies that deny a request for at least one user.
func (w *World) mayDeny(r *usher.Request) []string {
	var names []string
	for _, who := range w.denials(r) {
		if !slices.Contains(names, who.Via) {
			names = append(names, who.Via)
		}
	}
	return names
}
