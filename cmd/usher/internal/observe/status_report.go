package observe

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
	usherv1alpha1 "github.com/usher-dev/usher/api/usher/v1alpha1"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/observe/recent"
	"github.com/usher-dev/usher/internal/printable"
)

// unknown is what is printed in place of what the user has no right to ask.
const unknown = "not known"

// failsOpen is what cannot be told of authorization, and where it can be read.
const failsOpen = "whether API servers fail open where Usher does not answer authorization webhooks: failurePolicy in the file of their --authorization-config says it (NoOpinion: what a Deny is for passes if RBAC allows it), and apiserver_authorization_webhook_evaluations_fail_open_total of their /metrics how often they did"

// mostProblems limits how many problems are printed: those of the cluster come first.
const mostProblems = 50

// print prints a report, the answer first.
func (r *statusReport) print(out io.Writer) error {
	answer := r.answer()
	if r.refusesMost != "" && !r.unanswered() {
		answer += "; " + r.refusesMost
	}
	if policies := r.undecided(); policies != "" && r.unanswered() {
		answer += "; " + policies + ": what they deny passes if RBAC allows it, or is an internal error"
	}
	if len(r.NamespaceProblems) > 0 {
		answer += fmt.Sprintf("; policies of namespaces have %s of their own", cli.Count(len(r.NamespaceProblems), "problem", "problems"))
	}
	rows := r.rows()
	if r.tenant != "" {
		rows = slices.DeleteFunc(rows, func(row string) bool { return strings.HasSuffix(row, "  "+unknown) })
	}
	lines := append([]string{answer}, rows...)
	lines = append(lines, listed("problem: ", r.Problems)...)
	var ofNamespaces []string
	for i := range r.LookAt {
		l := &r.LookAt[i]
		line := fmt.Sprintf("look at: %s: %s\n  %s", printable.Line(l.Policy.String()), l.What, l.Run)
		if l.Policy.Namespace != "" {
			ofNamespaces = append(ofNamespaces, line)
			continue
		}
		lines = append(lines, line)
	}
	lines = append(append(lines, listed("problem of a namespace: ", r.NamespaceProblems)...), ofNamespaces...)
	for _, what := range r.Unknown {
		lines = append(lines, "not known: "+what)
	}
	_, err := io.WriteString(out, strings.Join(lines, "\n")+"\n")
	return err
}

// answer is the answer in one line.
func (r *statusReport) answer() string {
	if without := r.notAsked(); without != "" {
		return "nothing is enforced" + r.since() + ": " + without
	}
	switch {
	case r.unanswered() && r.refuses && r.admits():
		return "writes of " + some(r.Refused) + " are refused, others are admitted unchecked: API servers get no answer of Usher"
	case r.unanswered() && r.refuses:
		return "writes of " + some(r.Refused) + " are refused: API servers get no answer of Usher"
	case r.partly():
		return "not everything is enforced: a part of Usher is not registered"
	case r.unanswered():
		return "nothing is enforced: API servers get no answer of Usher"
	case r.tenant != "":
		return fmt.Sprintf("as a user of one namespace you see the policies of namespace %s, and not whether the cluster is protected", printable.Line(r.tenant))
	case !r.Protected:
		return r.unprotected()
	case len(r.unverified) > 0:
		return fmt.Sprintf("whether %s enforced is not known", cli.Count(len(r.unverified), "policy is", "policies are"))
	case r.Calls != callsSeen && len(r.Replicas) == 0:
		return "it cannot be told whether the cluster is protected"
	case r.listed && r.Policies.All == 0:
		if r.Calls != callsSeen {
			return "no policies yet"
		}
		return "API servers call Usher: no policies yet"
	}
	return "the cluster is protected as its policies say"
}

// notAsked says what is missing if API servers ask no webhook, and what switches Usher on again; else "".
func (r *statusReport) notAsked() string {
	switch {
	case r.absent && r.uninstalled:
		return "Usher was uninstalled; policies are in force again when it is installed (docs/install.md)"
	case r.absent && r.judged:
		return "no replica runs, and no webhook configurations exist: Usher was ended, or is not installed; start it, and it registers"
	case r.absent:
		return "Usher is not installed (docs/install.md says how)"
	case !r.unregistered || r.unread || len(r.Webhooks) > 0:
		return ""
	case r.noReplica:
		return "the webhook configurations are missing, and no replica is ready; the next one that starts registers them"
	}
	return "the webhook configurations are missing" + r.soon()
}

// partly says that one of two webhook configurations is missing, and a replica runs.
func (r *statusReport) partly() bool {
	return r.unregistered && !r.noReplica && len(r.Webhooks) > 0
}

// unprotected is the answer if there are problems. A policy that fails on requests is enforced.
func (r *statusReport) unprotected() string {
	n := len(r.Problems)
	ofPolicies, fails := true, true
	for i := range r.Problems {
		p := &r.Problems[i]
		ofPolicies = ofPolicies && p.Policy != nil
		fails = fails && p.Policy != nil && strings.HasPrefix(p.What, failing)
	}
	switch {
	case fails:
		return cli.Count(n, "policy fails", "policies fail") + " on requests"
	case ofPolicies && r.Policies.Enforced == r.Policies.All:
		return "all policies are enforced, with " + cli.Count(n, "problem", "problems")
	}
	return "not everything is enforced: " + cli.Count(n, "problem", "problems")
}

// listed returns a line for each problem, and one for all policies of which the same is said.
func listed(title string, problems []statusProblem) (lines []string) {
	policies := map[string][]string{}
	for i := range problems {
		if p := &problems[i]; p.Policy != nil {
			policies[p.What] = append(policies[p.What], p.Policy.String())
		}
	}
	for i := range problems {
		p := &problems[i]
		line := title + p.What
		if p.Policy != nil {
			same := policies[p.What]
			switch {
			case len(same) == 0:
				continue
			case len(same) == 1:
				line = title + same[0] + ": " + p.What
			default:
				line = fmt.Sprintf("%s%d policies: %s (%s)", title, len(same), p.What, some(same))
			}
			delete(policies, p.What)
		}
		if len(lines) == mostProblems {
			return append(lines, "and more: -o json lists all")
		}
		lines = append(lines, line)
	}
	return lines
}

// rows returns what was found out about each part.
func (r *statusReport) rows() []string {
	calls := map[string]string{callsSeen: "API servers call Usher", callsMissing: "API servers do not call Usher", callsUnknown: unknown}
	replicas, webhooks := r.running()
	webhooks += r.without()
	last, decisions := unknown, unknown
	if d := r.Decisions; d != nil && d.Since != nil {
		decisions = fmt.Sprintf("%d of the last %d denied, since %s", d.Denied, d.All, d.Since.UTC().Format(time.RFC3339))
		if d.Outdated > 0 {
			decisions += fmt.Sprintf("; %d of them by policies that are gone or have been edited since", d.Outdated)
		}
	} else if d != nil {
		last, decisions = "none", "none since the replicas started"
	}
	if d := r.LastDecision; d != nil {
		last = lastDecision(d)
	}
	if r.Unsent != nil {
		webhooks += "\n                 " + printable.Line(r.Unsent.String())
	}
	policies := r.counts()
	if len(r.failOpen) > 0 {
		policies += "\n                 " + failOpenText(r.failOpen)
	}
	if len(r.Excluded) > 0 {
		policies += "\n                 " + excludedText(r.Excluded)
	}
	return []string{
		"  calls          " + calls[r.Calls],
		"  replicas       " + replicas,
		"  webhooks       " + webhooks,
		"  policies       " + policies,
		"  decisions      " + decisions,
		"  last decision  " + printable.Line(last),
	}
}

// lastDecision is a decision in a few words.
func lastDecision(d *recent.Decision) string {
	return fmt.Sprintf("%s: %s %s %s", d.Time.UTC().Format(time.RFC3339), d.Verdict, d.Operation, what(d))
}

// counts says how many policies there are, and what is the matter with them.
func (r *statusReport) counts() string {
	p := &r.Policies
	counts := fmt.Sprintf("%d of %d enforced, %d failing, %d unproven, %d suspended", p.Enforced, p.All, p.Failing, p.Unproven, p.Suspended)
	switch {
	case r.unanswered() && r.partly():
		counts = fmt.Sprintf("%d, of which Usher enforces only what the webhooks that are left are for: what their status says is old", p.All)
	case r.unanswered():
		counts = fmt.Sprintf("%d, none of which Usher enforces now: what their status says is old", p.All)
	}
	if p.Unverified > 0 {
		counts += fmt.Sprintf("; %d of which it is not known", p.Unverified)
	}
	if p.Warned > 0 {
		counts += fmt.Sprintf("; %d with warnings", p.Warned)
	}
	if p.LockOut > 0 {
		counts += fmt.Sprintf(", %d of which may keep the cluster from recovering", p.LockOut)
	}
	switch {
	case !r.listed && p.All == 0:
		return unknown
	case !r.listed:
		counts += "; of other kinds it is not known"
	}
	return counts
}

// failOpenText names policies that let pass what they fail on.
func failOpenText(refs []usher.PolicyRef) string {
	var all []string
	for i := range refs {
		all = append(all, refs[i].String())
	}
	return cli.Count(len(all), "policy lets pass what it fails on", "policies let pass what they fail on") + ": " + printable.Line(some(all))
}

// running returns how many replicas and webhooks there are.
func (r *statusReport) running() (replicas, webhooks string) {
	ready, silent := 0, []string(nil)
	for i := range r.Replicas {
		one := &r.Replicas[i]
		if one.Ready {
			ready++
		}
		if one.Silent != "" {
			silent = append(silent, printable.Line(one.Name)+" "+one.Silent)
		}
	}
	replicas = fmt.Sprintf("%d of %d ready", ready, len(r.Replicas))
	if len(silent) > 0 {
		replicas += " (" + some(silent) + ")"
	}
	if r.unseen {
		replicas = unknown
	}
	webhooks = cli.Count(len(r.Webhooks), "entry", "entries")
	if r.unread && len(r.Webhooks) == 0 {
		webhooks = unknown
	} else if r.unread {
		webhooks = "at least " + webhooks
	}
	return replicas, webhooks
}

// without says what API servers do without an answer.
func (r *statusReport) without() string {
	var open, closed, does []string
	for _, w := range r.Webhooks {
		if w.FailsOpen {
			open = append(open, w.Name)
		} else {
			closed = append(closed, w.Name)
		}
	}
	if len(closed) > 0 {
		does = append(does, "refuse the requests of "+strings.Join(closed, ", ")+" (Fail)")
	}
	if len(open) > 0 {
		does = append(does, "admit those of "+strings.Join(open, ", ")+" (Ignore)")
	}
	if len(does) == 0 {
		return ""
	}
	return "; without an answer of Usher, API servers " + strings.Join(does, ", and ")
}

// said keeps of the status of a policy since when no server enforces it or is asked, and why.
func (r *reach) said(enforced *metav1.Condition) {
	r.judged = r.judged || enforced != nil
	if enforced == nil || !slices.Contains([]string{v1alpha1.ReasonUninstalled, v1alpha1.ReasonNoServer, v1alpha1.ReasonNotCalled}, enforced.Reason) {
		return
	}
	r.uninstalled = r.uninstalled || enforced.Reason == v1alpha1.ReasonUninstalled
	if at := enforced.LastTransitionTime.Time; at.After(r.withdrawn) {
		r.withdrawn = at
	}
}

// counted counts a policy if it decides requests to authorize while Usher answers.
func (r *reach) counted(policy api.Object, spec map[string]any) {
	if kind, ok := api.KindOf(policy); ok && kind.Authorizes && spec["enforcement"] != string(usherv1alpha1.EnforcementAudit) && !api.Suspended(policy) {
		r.authorizing++
	}
}

// undecided says how many authorization policies decide nothing, since no replica answers; "" for none.
func (r *reach) undecided() string {
	if r.authorizing == 0 || !r.noReplica {
		return ""
	}
	return cli.Count(r.authorizing, "authorization policy decides", "authorization policies decide") + " nothing"
}

// since says since when, as far as the status of policies says, nothing is enforced.
func (r *reach) since() string {
	if r.withdrawn.IsZero() {
		return ""
	}
	return " since " + r.withdrawn.UTC().Format(time.RFC3339)
}

// soon says when what is missing is registered again.
func (r *reach) soon() string {
	if r.noReplica {
		return ""
	}
	for _, one := range r.broken {
		if slices.ContainsFunc(one.parts, func(part string) bool { return strings.HasPrefix(part, "registration") }) {
			return "; replicas fail to register: if that right was taken from them (docs/3am.md), helm upgrade gives it back"
		}
	}
	return "; a replica that runs registers within half a minute"
}
