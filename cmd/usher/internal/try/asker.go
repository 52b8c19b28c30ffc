package try

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// An asker makes the requests for which nothing else names a user.
type asker struct {
	// User is as whom a cluster authenticates the caller; nil if its user makes no request.
	User *usher.User `json:"user,omitempty"`

	// self asks the cluster for that; nil without one. Err is why it does not tell.
	self func(context.Context) (usher.User, error)
	err  error
}

// who returns the user whom the flags name, or as whom the cluster authenticates the caller; nobody if it does not tell.
func (a *asker) who(ctx context.Context, flags *user.Flags) (usher.User, error) {
	named, err := flags.User()
	if err != nil || !user.IsNobody(named) || a.self == nil {
		return named, err
	}
	if a.User == nil && a.err == nil {
		var self usher.User
		if self, a.err = a.self(ctx); a.err == nil {
			a.User = &self
		}
	}
	if a.User == nil {
		return usher.User{}, nil
	}
	return *a.User, nil
}

// print tells as whom requests were decided, if nothing but the kubeconfig names them.
func (a *asker) print(b *strings.Builder, p cli.Palette) {
	if a.User != nil {
		fmt.Fprintln(b, cli.Paint(p.Faint, "as "+a.whom()))
	}
}

// whom names the user of the kubeconfig.
func (a *asker) whom() string { return user.Describe(*a.User) + ", the user of the kubeconfig" }

// noteUser prints to s.Err that nobody makes a request for which a policy is that reads the user, or a user of whom
// no group is named one for which a policy is that goes by groups. Of those who are excluded nobody is one, as most
// users.
func (f *decideFlags) noteUser(cmd *cobra.Command, s cli.Streams, questions []Question) {
	if f.asker.err != nil {
		cli.Notef(cmd, s, "warning", "decided for nobody: %v: name a user with --as", f.asker.err)
		return
	}
	for _, q := range questions {
		object, err := q.Request.Target().Tree()
		nobody := user.IsNobody(q.Request.User)
		if err != nil || q.recorded || !nobody && !f.user.LacksGroups() {
			continue
		}
		target := targetOf(q.Request, object)
		i := slices.IndexFunc(f.set.Rules, func(r rule.Rule) bool {
			if r.Inspects || !r.Match.Matches(&target) && !r.Match.NearlyMatches(&target) {
				return false
			}
			return nobody && r.DependsOn(q.Request.Operation).Any(rule.OnUser) || !nobody && f.byGroups(r.Policy)
		})
		switch {
		case i < 0:
			continue
		case nobody:
			cli.Notef(cmd, s, "note", "decided for nobody: %s reads the user: name one with --as", f.set.Rules[i].Policy)
		default:
			cli.Notef(cmd, s, "note", "decided without groups of the user: %s goes by groups: name them with --as-group", f.set.Rules[i].Policy)
		}
		return
	}
}

// byGroups reports whether the subjects of a policy, or those whom it excludes, are groups besides the one of all users.
func (f *decideFlags) byGroups(policy usher.PolicyRef) bool {
	return slices.ContainsFunc(f.set.Compiled(), func(c compile.Compiled) bool {
		spec := c.ObjectSpec()
		return c.Ref == policy && spec != nil && slices.ContainsFunc(slices.Concat(spec.Subjects, spec.ExcludeSubjects), func(s v1alpha1.Subject) bool {
			return slices.ContainsFunc(s.Groups, func(group string) bool { return group != "system:authenticated" })
		})
	})
}
