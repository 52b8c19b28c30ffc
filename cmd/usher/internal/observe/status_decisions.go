package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/cluster"
	"github.com/usher-dev/usher/cmd/usher/internal/replica"
	"github.com/usher-dev/usher/cmd/usher/internal/served"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
	"github.com/usher-dev/usher/internal/rule"
	"github.com/usher-dev/usher/internal/trial/lockout"
)

const (
	// lastDecisions is of how many decisions of each replica status says which policies refuse and are slow.
	lastDecisions = 500
	// mostNotes is of how many policies it says the same.
	mostNotes = 3
	// decisionsTimeout is how long replicas may take to list decisions.
	decisionsTimeout = 5 * time.Second
	// fewRequests are too few for a statement about most requests.
	fewRequests = 20
	// leastRefused is how many requests a policy has refused that is to be looked at for that.
	leastRefused = 3
	// leastSlow is how many requests a policy was slow for that is to be looked at for that. The first ones of each phase
	// are slow at each of two replicas that have just started.
	leastSlow = 5
	// inForceWithin is how soon after it is edited a policy is in force.
	inForceWithin = time.Second
)

// A lookAt is a policy to look at, and the command that says more.
type lookAt struct {
	Policy usher.PolicyRef `json:"policy"`
	What   string          `json:"what"`
	Run    string          `json:"run"`
}

// decisionCounts are of the last decisions.
type decisionCounts struct {
	All    int `json:"all"`
	Denied int `json:"denied"`
	// Outdated counts those that are denied only by policies which the cluster does not have now, or by older versions.
	Outdated int `json:"outdated"`
	// Since is when the first of them was made; nil if there is none.
	Since *time.Time `json:"since,omitempty"`
}

// figures are of one policy as it is now, in the last decisions: what it refused, also among the requests of each
// phase, and how slow it was.
type figures struct {
	refused, slow int
	phases        map[string]int
	slowest       float64
	// most and of are how many requests it refused in the phase in which it refused most, of how many there since it
	// is as it is. Edited says that there are some from before.
	most, of int
	phase    string
	edited   bool
}

// share says how many requests a policy refused, of which: all, which are how many, or those of one phase.
func (one *figures) share(all int) string {
	which := ""
	if one.of < all {
		which = " to " + one.phase
	}
	if one.edited {
		return fmt.Sprintf("%d of the %s%s since it was written", one.most, cli.Count(one.of, "request", "requests"), which)
	}
	return fmt.Sprintf("%d of the last %s%s", one.most, cli.Count(one.of, "request", "requests"), which)
}

// decided asks replicas for the last decisions.
func (f *statusFlags) decided(ctx context.Context, r *statusReport) (last []served.Item) {
	// A replica that hangs accepts connections, and does not answer.
	ctx, cancel := context.WithTimeout(ctx, decisionsTimeout)
	defer cancel()
	set, err := f.replicas.Connect(ctx)
	var all []*replica.Replica
	if err == nil {
		all, err = set.Find(ctx)
	}
	if err == nil {
		last, _, err = (&served.Decisions{Last: lastDecisions}).ListAll(ctx, all)
	}
	if err != nil {
		r.unknownf("the last decisions, and which policies refuse or are slow: %v", err)
		return nil
	}
	r.Decisions = &decisionCounts{}
	return last
}

// count counts the last decisions, and says which policies of the cluster, which are all, refuse and are slow.
func (f *statusFlags) count(r *statusReport, last []served.Item, all []api.Policy) {
	c := counting{report: r, written: map[usher.PolicyRef]time.Time{}, since: map[usher.PolicyRef]time.Time{}, policies: map[usher.PolicyRef]*figures{}, phases: map[string][]time.Time{}}
	for i := range all {
		ref, at := compile.Ref(all[i].Object), writtenAt(all[i].Object)
		c.written[ref], c.since[ref] = at, at
		if created := all[i].Object.GetCreationTimestamp(); at.After(created.Time) {
			c.since[ref] = at.Add(inForceWithin)
		}
	}
	for i := range last {
		if d := last[i].Decision; d != nil {
			c.add(d)
		}
	}
	c.shares()
	f.notes(r, c.policies)
	c.headline(all)
}

// writtenAt returns when a policy was written last, other than its status.
func writtenAt(policy api.Object) time.Time {
	last := policy.GetCreationTimestamp().Time
	for _, entry := range policy.GetManagedFields() {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(last) {
			last = entry.Time.Time
		}
	}
	return last
}

// A counting counts decisions.
type counting struct {
	report *statusReport
	// written is when policies of the cluster were written last, and since is from when on they are in force as they are
	// now: in between, an older version may have been.
	written, since map[usher.PolicyRef]time.Time
	policies       map[usher.PolicyRef]*figures
	// phases are the times of the decisions of each, the oldest first.
	phases map[string][]time.Time
}

// current returns the figures of a policy that has not changed since a decision; else nil.
func (c *counting) current(policy usher.PolicyRef, d *recent.Decision) *figures {
	since, ok := c.since[policy]
	if d.Time.Before(since) || !ok && c.report.listed {
		return nil
	}
	if c.policies[policy] == nil {
		c.policies[policy] = &figures{phases: map[string]int{}}
	}
	return c.policies[policy]
}

// add counts a decision, which is later than those before.
func (c *counting) add(d *recent.Decision) {
	r := c.report
	c.phases[d.Phase] = append(c.phases[d.Phase], d.Time)
	r.LastDecision = d
	if r.Decisions.Since == nil {
		r.Decisions.Since = &d.Time
	}
	r.Decisions.All++
	if s := d.Slowest; s != nil {
		if one := c.current(s.Policy, d); one != nil {
			one.slow, one.slowest = one.slow+1, max(one.slowest, s.TookSeconds)
		}
	}
	if d.Verdict != string(usher.Deny) {
		return
	}
	r.Decisions.Denied++
	refused := map[usher.PolicyRef]bool{}
	for _, rule := range d.Rules {
		if rule.Outcome == usher.Rejected || rule.Outcome == usher.Failed && !rule.Ignored {
			refused[rule.Policy] = true
		}
	}
	outdated := len(refused) > 0
	for policy := range refused {
		if one := c.current(policy, d); one != nil {
			one.refused++
			one.phases[d.Phase]++
			outdated = false
		} else if at, ok := c.written[policy]; ok && !d.Time.Before(at) {
			outdated = false
		}
	}
	if outdated {
		r.Decisions.Outdated++
	}
}

// shares determines the share of requests that each policy refused. What was decided before it was in force does not
// count: a policy that has refused everything since is the reason for an outage, whatever was allowed before.
func (c *counting) shares() {
	for ref, one := range c.policies {
		for _, phase := range slices.Sorted(maps.Keys(one.phases)) {
			if n, times := one.phases[phase], c.phases[phase]; n > one.most {
				first, _ := slices.BinarySearchFunc(times, c.since[ref], time.Time.Compare)
				one.most, one.of, one.phase, one.edited = n, len(times)-first, phase, first > 0
			}
		}
	}
}

// headline says of a policy of the cluster that it refuses most requests, and how to have it decide nothing.
func (c *counting) headline(all []api.Policy) {
	for _, p := range most(c.policies, func(one *figures) float64 { return float64(one.refused) }) {
		if one := c.policies[p]; p.Namespace == "" && one.most >= leastRefused && 2*one.most > one.of {
			does := "refuses most requests,"
			if one.of < fewRequests {
				does = "refused"
			}
			c.report.refusesMost = fmt.Sprintf("%s %s %s", printable.Line(p.String()), does, one.share(c.report.Decisions.All))
			if i := slices.IndexFunc(all, func(policy api.Policy) bool { return compile.Ref(policy.Object) == p }); i >= 0 {
				after := slices.IndexFunc(c.report.LookAt, func(l lookAt) bool { return l.Policy == p })
				c.report.LookAt = slices.Insert(c.report.LookAt, after+1, lookAt{p, "to have it decide nothing while you look at it", suspending(all[i].Object, &p)})
			}
			return
		}
	}
}

// notes says what is to be looked at: the policies that refuse the most, and the slowest ones.
func (f *statusFlags) notes(r *statusReport, policies map[usher.PolicyRef]*figures) {
	refused := func(one *figures) float64 {
		if one.refused < leastRefused {
			return 0
		}
		return float64(one.refused)
	}
	for _, p := range most(policies, refused) {
		r.LookAt = append(r.LookAt, lookAt{p, "refused " + policies[p].share(r.Decisions.All),
			"usher watch --denied --explain --once --policy " + served.Policy(p) + served.In(p.Namespace) + argsOf(&f.replicas)})
	}
	slowest := func(one *figures) float64 {
		if one.slow < leastSlow {
			return 0
		}
		return one.slowest
	}
	for _, p := range most(policies, slowest) {
		took := time.Duration(policies[p].slowest * float64(time.Second)).Round(time.Millisecond)
		r.LookAt = append(r.LookAt, lookAt{p, fmt.Sprintf("slow: took up to %s, and %s or more of %d of the last %s", took, recent.SlowRule, policies[p].slow, cli.Count(r.Decisions.All, "request", "requests")),
			"usher watch --once --since 15m --slower-than " + recent.SlowRule.String() + served.In(p.Namespace) + argsOf(&f.replicas)})
	}
}

// argsOf returns the flags that are set, for another command line.
func argsOf(f *replica.Flags) string {
	var all strings.Builder
	for _, server := range f.Servers {
		all.WriteString(served.Flag("server", server))
	}
	for _, one := range [][2]string{{"ca-file", f.CAFile}, {"token-file", f.TokenFile}, {"service-account", f.ServiceAccount}, {"kubeconfig", f.Kubeconfig}, {"context", f.Context}} {
		all.WriteString(served.Flag(one[0], one[1]))
	}
	if f.Namespace != cluster.DefaultNamespace {
		all.WriteString(served.Flag("usher-namespace", f.Namespace))
	}
	return all.String()
}

// clusterFirst orders policies of the cluster before those of namespaces.
func clusterFirst(a, b usher.PolicyRef) int {
	return min(len(a.Namespace), 1) - min(len(b.Namespace), 1)
}

// most returns the policies with the highest figures, those of the cluster first: who writes the policies of a namespace
// does not decide which others are named.
func most(policies map[usher.PolicyRef]*figures, of func(*figures) float64) []usher.PolicyRef {
	all := slices.DeleteFunc(slices.Collect(maps.Keys(policies)), func(p usher.PolicyRef) bool { return of(policies[p]) == 0 })
	slices.SortFunc(all, func(a, b usher.PolicyRef) int {
		return cmp.Or(clusterFirst(a, b), cmp.Compare(of(policies[b]), of(policies[a])), strings.Compare(a.String(), b.String()))
	})
	return all[:min(len(all), mostNotes)]
}

// warned counts a policy with warnings, and keeps the gravest: that it keeps a cluster from recovering, or else the first.
func (r *statusReport) warned(ref usher.PolicyRef, problems []v1alpha1.PolicyProblem) {
	warns := func(p v1alpha1.PolicyProblem) bool { return p.Severity == string(rule.Warning) }
	first := slices.IndexFunc(problems, warns)
	if first < 0 {
		return
	}
	r.Policies.Warned++
	to := &r.warnings
	if i := slices.IndexFunc(problems, func(p v1alpha1.PolicyProblem) bool { return warns(p) && lockout.Is(p.What) }); i >= 0 {
		r.Policies.LockOut++
		first, to = i, &r.lockouts
	}
	*to = append(*to, lookAt{ref, printable.Line("warning: " + textOf(&problems[first])), "kubectl get " + served.Object(ref.Kind, ref.Namespace, ref.Name) + " -o jsonpath='{.status.problems}'"})
}

// worst returns the gravest warnings of some policies, those of the cluster first.
func (r *statusReport) worst() []lookAt {
	slices.SortStableFunc(r.warnings, func(a, b lookAt) int { return clusterFirst(a.Policy, b.Policy) })
	all := append(r.lockouts, r.warnings...)
	return all[:min(len(all), mostNotes)]
}
