package try

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
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

// noteNobody prints to s.Err that nobody makes a request for which a policy is that reads the user. Of
// those who are excluded nobody is one, as most users.
func (f *decideFlags) noteNobody(cmd *cobra.Command, s cli.Streams, questions []Question) {
	if f.asker.err != nil {
		cli.Notef(cmd, s, "warning", "decided for nobody: %v: name a user with --as", f.asker.err)
		return
	}
	for _, q := range questions {
		object, err := q.Request.Target().Tree()
		if err != nil || q.recorded || !user.IsNobody(q.Request.User) {
			continue
		}
		target := targetOf(q.Request, object)
		i := slices.IndexFunc(f.set.Rules, func(r rule.Rule) bool {
			return !r.Inspects && (r.Match.Matches(&target) || r.Match.NearlyMatches(&target)) &&
				r.DependsOn(q.Request.Operation).Any(rule.OnUser)
		})
		if i >= 0 {
			cli.Notef(cmd, s, "note", "decided for nobody: %s reads the user: name one with --as", f.set.Rules[i].Policy)
			return
		}
	}
}
