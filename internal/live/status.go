package live

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/rule"
)

// A Status says which policies are in force. It is immutable.
type Status struct {
	// Generation counts the updates that changed something; it is 0 before the first.
	Generation int64 `json:"generation"`
	// Since is when this generation came into force.
	Since time.Time `json:"since"`
	// Policies counts the policies by kind, whether they are enforced or not.
	Policies map[string]int `json:"policies"`
	// Known counts the admission policies by kind that API servers enforce themselves, and their
	// bindings. They are not in force here.
	Known map[string]int `json:"known,omitempty"`
	// Rules counts the rules of policies in force, not Usher's built-in ones.
	Rules int `json:"rules"`
	// Problems are the problems of all policies, sorted, without what trying them found: [Problems] has both.
	Problems []rule.Problem `json:"problems,omitempty"`
	// Proofs counts the policies that need a proof, by its state.
	Proofs map[api.ProofState]int `json:"proofs,omitempty"`
	// OnLastGood are the policies whose newest version does not compile, so that an
	// older one is in force, and NotEnforced those of which no version ever compiled, or whose
	// newest one lacks a proof.
	OnLastGood  []usher.PolicyRef `json:"onLastGood,omitempty"`
	NotEnforced []usher.PolicyRef `json:"notEnforced,omitempty"`
	// Suspended are the policies that decide nothing, because their writers say so.
	Suspended []usher.PolicyRef `json:"suspended,omitempty"`
	// Surplus are the policies that are not in force, because their namespace exceeds the quota.
	// They are not compiled.
	Surplus []usher.PolicyRef `json:"surplus,omitempty"`
	// Pending are the policies whose newest version is not compiled yet. Until then, evaluations of
	// those without a last good version fail.
	Pending []usher.PolicyRef `json:"pending,omitempty"`
}

func (v *version) state() rule.State {
	p := rule.State{
		Policy: v.newest.Ref, Admission: isAdmission(v.newest.Policy), UID: uid(v.newest.Policy), Generation: v.newest.Policy.Object.GetGeneration(),
		Compiled: (v.good == &v.newest || v.withheld || v.suspended != "" && v.sound) && !v.pending, Pending: v.pending, Problems: v.newest.Problems, Slow: v.slow,
		NeedsProof: v.newest.Policy.Proof.State != api.NoProofNeeded, Unproven: v.newest.Policy.Proof.Why,
		Suspended: v.suspended, Action: v.action, Kinds: v.kinds,
	}
	if v.good != nil && (p.Compiled || v.good != &v.newest) {
		p.Enforced, p.EnforcedGeneration = true, v.good.Policy.Object.GetGeneration()
	}
	return p
}

// unusedPolicy returns the state of a policy that is not in force although it may compile.
func unusedPolicy(ref usher.PolicyRef, policy api.Policy, problem rule.Problem) rule.State {
	return rule.State{
		Policy: ref, Admission: isAdmission(policy), UID: uid(policy), Generation: policy.Object.GetGeneration(),
		Compiled: true, Problems: []rule.Problem{problem},
	}
}

func uid(policy api.Policy) types.UID {
	if policy.Position("").File != "" {
		return ""
	}
	return policy.Object.GetUID()
}

func isAdmission(policy api.Policy) bool {
	kind, ok := api.KindOf(policy.Object)
	return !ok || !kind.Authorizes
}

func sameObject(a, b rule.State) bool { return a.UID == b.UID && a.Generation == b.Generation }

func (s *Status) add(v *version) {
	s.Policies[v.newest.Ref.Kind]++
	if state := v.newest.Policy.Proof.State; state != api.NoProofNeeded {
		if s.Proofs == nil {
			s.Proofs = map[api.ProofState]int{}
		}
		s.Proofs[state]++
	}
	if v.pending {
		s.Pending = append(s.Pending, v.newest.Ref)
	}
	switch {
	case v.suspended != "":
		s.Suspended = append(s.Suspended, v.newest.Ref)
	case v.good == &v.newest:
	case v.good == nil:
		s.NotEnforced = append(s.NotEnforced, v.newest.Ref)
	default:
		s.OnLastGood = append(s.OnLastGood, v.newest.Ref)
	}
}

// Problems returns the problems of all policies, sorted: those of the status, and what trying the policies found.
func Problems(l *Live) []rule.Problem {
	current := l.current.Load()
	all := slices.Clone(current.status.Problems)
	for i := range current.policies {
		all = append(all, current.policies[i].Problems...)
	}
	rule.SortProblems(all)
	return slices.Compact(all)
}

// States returns the state of each policy, with all that [Problems] has of it: also what depends on other policies, facts
// and the cluster.
func States(l *Live) []rule.State {
	current := l.current.Load()
	states := slices.Clone(current.policies)
	at := make(map[usher.PolicyRef]int, len(states))
	told := map[usher.PolicyRef][]rule.Problem{}
	for i := range states {
		// Of policies with the same name, the last is the one that is used.
		ref := states[i].Policy
		at[ref], told[ref] = i, append(told[ref], states[i].Problems...)
	}
	for _, p := range current.status.Problems {
		i, known := at[p.Policy]
		if known && !slices.Contains(told[p.Policy], p) {
			states[i].Problems = append(slices.Clip(states[i].Problems), p)
		}
	}
	for i := range states {
		states[i].Problems = slices.Clone(states[i].Problems)
		rule.SortProblems(states[i].Problems)
	}
	return states
}

// Snapshot returns the state of the policies in force, with the problems that trying them found.
func Snapshot(l *Live) usher.Snapshot {
	status := l.Status()
	snapshot := usher.Snapshot{
		Generation: status.Generation,
		Since:      status.Since,
		Policies:   status.Policies,
		Known:      status.Known,
		Rules:      status.Rules,
		Problems:   map[string]int{},
		Pending:    len(status.Pending),
		Surplus:    len(status.Surplus),
		Suspended:  map[string]int{},
		Proofs:     map[string]int{},
	}
	for _, ref := range status.Suspended {
		snapshot.Suspended[ref.Kind]++
	}
	for state, policies := range status.Proofs {
		snapshot.Proofs[strings.ToLower(string(state))] = policies
	}
	for _, r := range l.Rules() {
		snapshot.InForce = append(snapshot.InForce, r.Policy)
	}
	for _, r := range l.Access().Rules() {
		snapshot.InForce = append(snapshot.InForce, r.Policy.Ref)
	}
	for _, p := range Problems(l) {
		snapshot.Problems[string(p.Severity)]++
		if p.Policy == (usher.PolicyRef{}) {
			snapshot.SourceErrors++
		}
	}
	return snapshot
}

// report logs what an update has changed: a problem when it appears and when it disappears.
func report(log *slog.Logger, last, next Status, took time.Duration) {
	policies := 0
	for _, n := range next.Policies {
		policies += n
	}
	log.Info("policies in force",
		"generation", next.Generation, "policies", policies, "rules", next.Rules,
		"errors", len(rule.Errors(next.Problems)), "warnings", len(next.Problems)-len(rule.Errors(next.Problems)),
		"took", took)
	before, now := problemSet(last.Problems), problemSet(next.Problems)
	for _, p := range next.Problems {
		if !before[p] {
			logProblem(log, p, next)
		}
	}
	for _, p := range last.Problems {
		if !now[p] {
			log.Info("policy problem resolved", append(place(p), slog.String("what", p.Text()))...)
		}
	}
}

func logProblem(log *slog.Logger, p rule.Problem, status Status) {
	level := slog.LevelWarn
	if p.Severity == rule.Error {
		level = slog.LevelError
	}
	attrs := append(place(p), slog.String("what", p.Text()))
	if p.Do != "" {
		attrs = append(attrs, slog.String("do", p.Do))
	}
	switch {
	case p.Pending:
		attrs = append(attrs, slog.Bool("pending", true))
	case slices.Contains(status.OnLastGood, p.Policy):
		attrs = append(attrs, slog.String("enforced", "last good version"))
	case slices.Contains(status.NotEnforced, p.Policy), slices.Contains(status.Suspended, p.Policy):
		attrs = append(attrs, slog.String("enforced", "no"))
	}
	log.Log(context.Background(), level, "policy problem", attrs...)
}

// place returns the position of a problem for the log, as far as it is known.
func place(p rule.Problem) []any {
	var attrs []any
	if p.Policy.Name != "" {
		attrs = append(attrs, slog.String("policy", p.Policy.String()))
	}
	if p.File != "" {
		attrs = append(attrs, slog.String("file", p.File))
		if p.Line > 0 {
			attrs = append(attrs, slog.Int("line", p.Line))
		}
		if p.Column > 0 {
			attrs = append(attrs, slog.Int("column", p.Column))
		}
	}
	if p.Field != "" {
		attrs = append(attrs, slog.String("field", p.Field))
	}
	return attrs
}

func problemSet(problems []rule.Problem) map[rule.Problem]bool {
	set := make(map[rule.Problem]bool, len(problems))
	for _, p := range problems {
		set[p] = true
	}
	return set
}

func sameProblems(a, b []rule.Problem) bool { return maps.Equal(problemSet(a), problemSet(b)) }

// written counts the rules that belong to policies.
func written(rules []rule.Rule) int {
	n := 0
	for i := range rules {
		if rules[i].Policy != (usher.PolicyRef{}) {
			n++
		}
	}
	return n
}
