package authorize

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/cmd/usher/internal/user"
	"github.com/usher-dev/usher/internal/rule/authz"
)

func newAuthzDiff(s cli.Streams) *cobra.Command {
	var output cli.OutputFlag
	var color cli.ColorFlag
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what an edit of policies changes",
		Long: `Diff compares the authorization policies in two files or folders: which rules came and
went, and which requests are answered differently. The requests are those that the rules
of both sides speak of, for the users that they speak of and for somebody else; where a
rule has a *, one text in its place is tried.

The exit status is 0 if all answers are the same, and 1 if not.`,
		Example: `  usher authz diff old-policies/ policies/
  git worktree add ../old HEAD && usher authz diff ../old/policies policies`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var sides [2]*World
			for i, path := range paths {
				sides[i] = &World{}
				set, err := readPolicySet(cmd, s, []string{path}, sides[i])
				if err != nil {
					return err
				}
				sides[i].enforce(set.Policies)
				sides[i].warn(cmd, s)
			}
			report, err := compareWorlds(cmd.Context(), sides[0], sides[1])
			if err != nil {
				return err
			}
			err = output.Report(s.Out, report, func() error { return report.print(s.Out, color.Palette(s.Out)) })
			if err == nil && len(report.Answers) > 0 {
				return cli.ErrNegative
			}
			return err
		},
	}
	output.Register(cmd, "text", "json", "yaml")
	color.Register(cmd)
	return cmd
}

type diffReport struct {
	// Removed and Added are rules, in one line each.
	Removed []string       `json:"removed"`
	Added   []string       `json:"added"`
	Answers []answerChange `json:"answers"`
	// Asked is how many requests were compared; Complete reports whether these were all of them.
	Asked    int  `json:"asked"`
	Complete bool `json:"complete"`
}

// An answerChange is a request whose answer differs.
type answerChange struct {
	User    usher.User `json:"user"`
	Request string     `json:"request"`
	Old     string     `json:"old"`
	New     string     `json:"new"`
	Reason  string     `json:"reason,omitempty"`
}

// maxProbes bounds the requests that are compared: comparing that many takes a second.
const maxProbes = 200_000

func compareWorlds(ctx context.Context, before, after *World) (*diffReport, error) {
	report := &diffReport{Removed: []string{}, Added: []string{}, Answers: []answerChange{}, Complete: true}
	old, now := ruleLines(before), ruleLines(after)
	for _, line := range old {
		if !slices.Contains(now, line) {
			report.Removed = append(report.Removed, line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			report.Added = append(report.Added, line)
		}
	}
	rules := slices.Concat(before.rules, after.rules)
	targets := probeTargets(rules)
	for _, u := range probeUsers(rules) {
		for _, target := range targets {
			if report.Asked == maxProbes {
				report.Complete = false
				return report, nil
			}
			report.Asked++
			r := *target
			r.User = u
			if err := report.ask(ctx, before, after, &r); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// ask compares one answer.
func (d *diffReport) ask(ctx context.Context, before, after *World, r *usher.Request) error {
	old, err := before.Engine.Decide(ctx, r)
	if err != nil {
		return err
	}
	now, err := after.Engine.Decide(ctx, r)
	if err != nil {
		return err
	}
	if old.Verdict == now.Verdict {
		return nil
	}
	change := answerChange{User: r.User, Request: describeRequest(r), Old: verdictWord(old.Verdict), New: verdictWord(now.Verdict), Reason: now.Message}
	if change.Reason == "" {
		change.Reason = "no longer " + old.Message
	}
	d.Answers = append(d.Answers, change)
	return nil
}

// ruleLines returns the rules, each with the subjects and conditions of its policy.
func ruleLines(w *World) []string {
	var lines []string
	for _, r := range w.rules {
		var who []string
		for _, subject := range subjectsOf(r.Policy) {
			who = append(who, subject.Kind+" "+subject.Name)
		}
		line := r.String() + " for " + strings.Join(who, ", ")
		if conditions := conditionsOf(r.Policy); len(conditions) > 0 {
			line += " (" + strings.Join(conditions, "; ") + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// probeUsers returns the users that rules name, and one that no rule names.
func probeUsers(rules []*authz.Rule) []usher.User {
	users := []usher.User{user.Complete(usher.User{Name: "somebody-else"})}
	known := map[string]bool{}
	for _, r := range rules {
		for _, who := range append(subjectsOf(r.Policy), subjectsOf(&authz.Policy{Subjects: r.Policy.Excluded})...) {
			who.Name = sample(who.Name)
			u, _ := who.userOf()
			if key := u.Name + "\x00" + strings.Join(u.Groups, ","); !known[key] {
				known[key] = true
				users = append(users, u)
			}
		}
	}
	return users
}

// sample returns a text that matches a pattern.
func sample(pattern string) string { return strings.ReplaceAll(pattern, "*", "sample") }

// probeTargets returns the requests that rules are about, without duplicates.
func probeTargets(rules []*authz.Rule) []*usher.Request {
	var all []*usher.Request
	known := map[string]bool{}
	add := func(r *usher.Request) {
		key := describeRequest(r)
		if !known[key] {
			known[key] = true
			all = append(all, r)
		}
	}
	for _, r := range rules {
		for _, verb := range examples(&r.Verbs, "get", "list", "delete") {
			if r.URLs != nil {
				for _, path := range examples(r.URLs, "/") {
					add(&usher.Request{Phase: usher.Authorize, Access: &usher.Access{Verb: verb, NonResource: true, Path: path}})
				}
				continue
			}
			resourceProbes(r, verb, add)
		}
	}
	return all
}

func resourceProbes(r *authz.Rule, verb string, add func(*usher.Request)) {
	namespaces := examples(&r.Namespaces, "default", "")
	if r.Own != "" {
		namespaces = []string{r.Own}
	}
	for _, group := range examples(&r.Groups, "", "apps") {
		for _, resource := range r.Resources {
			name, sub, _ := strings.Cut(resource.String(), "/")
			if resource.Every || name == "*" {
				name = "pods"
			}
			if sub == "*" {
				sub = "status"
			}
			for _, namespace := range namespaces {
				for _, object := range append(examples(&r.Names, "sample"), "") {
					add(&usher.Request{
						Phase: usher.Authorize, Resource: schema.GroupVersionResource{Group: group, Resource: name},
						Subresource: sub, Namespace: namespace, Name: object, Access: &usher.Access{Verb: verb},
					})
				}
			}
		}
	}
}

// examples returns texts of a set, or others if the set contains everything.
func examples(s *authz.Set, others ...string) []string {
	if s.Any {
		return others
	}
	var all []string
	for _, pattern := range s.Patterns {
		all = append(all, sample(pattern.String()))
	}
	return all
}

func (d *diffReport) print(out io.Writer, p cli.Palette) error {
	const most = 100
	var b strings.Builder
	for _, line := range d.Removed {
		b.WriteString(cli.Paint(p.Red, "- "+line) + "\n")
	}
	for _, line := range d.Added {
		b.WriteString(cli.Paint(p.Green, "+ "+line) + "\n")
	}
	for i, a := range d.Answers {
		if i == most {
			fmt.Fprintf(&b, "… and %d more: see -o json\n", len(d.Answers)-most)
			break
		}
		fmt.Fprintf(&b, "%s: %s: %s -> %s: %s\n", describeUser(a.User), a.Request, a.Old, cli.Paint(p.Bold, a.New), a.Reason)
	}
	fmt.Fprintf(&b, "%s compared, %s differently answered\n", cli.Count(d.Asked, "request", "requests"), cli.Count(len(d.Answers), "is", "are"))
	if !d.Complete {
		b.WriteString("There are more requests than were compared.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
