// Package trial tries policies on sample objects of the kinds that they select: the minimal object
// that an API server accepts, and objects with every field. It creates requests and reads
// decisions, and evaluates nothing itself. Its findings are warnings about the effects of a policy.
// Of admission policies it also checks the types of expressions.
package trial

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/kind"
	"github.com/usher-dev/usher/internal/lang/cel/typecheck"
	"github.com/usher-dev/usher/internal/overrun"
	"github.com/usher-dev/usher/internal/rule"
)

// Options configure what policies are tried on. The zero value works.
type Options struct {
	// Kinds returns the existing kinds, given the recorded ones of Kubernetes itself. The set has the
	// schemas of the named kinds, if they are available. Nil means the recorded kinds.
	Kinds func(ctx context.Context, recorded *kind.Set, of []schema.GroupVersionKind) *kind.Set
	// Objects are tried, too, each by the rules that select its kind.
	Objects []map[string]any
	// Readable returns an error that says why the facts that policies read of a kind cannot be read.
	// Nil disables that check.
	Readable func(ctx context.Context, of schema.GroupVersionKind) error
	// Overruns has policies of namespaces that are tried take turns with those that decide. Nil means that
	// nothing is decided meanwhile.
	Overruns *overrun.Watch
}

// A Trial tries policies. It is safe for concurrent use.
type Trial struct {
	options Options
	// recorded reads the recorded kinds once, when first needed.
	recorded func() *kind.Set
	types    *typecheck.Checker
}

// New returns a trial. Keep it: it reads the recorded kinds once.
func New(o Options) *Trial {
	if o.Overruns == nil {
		o.Overruns = overrun.New(overrun.Options{})
	}
	return &Trial{options: o, recorded: sync.OnceValue(kind.Recorded), types: typecheck.New()}
}

// A Report has the findings, and what was not tried.
type Report struct {
	// Problems have no positions in files. What fails for all objects of the known kinds is a [rule.Mistake].
	Problems []rule.Problem
	// Skipped says which kinds were not tried, and why.
	Skipped []string
	// NoSuchKind says that the cluster has none of the kinds that the policy selects; "" if it has
	// one, or if the kinds are not those of a cluster.
	NoSuchKind string
	// MatchesNothing says why the policy is for no request about the kinds that it selects, which the cluster has; else
	// "".
	MatchesNothing string
	// Unsettled says that a later try may have another result, because kinds or rights may change.
	Unsettled bool
	// Cut says that the time was over before everything was tried.
	Cut bool
	// Slowest is the slowest rule of those that were tried.
	Slowest Slowest

	// advised names a custom kind of a cluster by whose schema types in expressions are wrong; "" if there is none.
	advised string
	// schemas are those of custom kinds by which it was tried: see [Trial.Outdated].
	schemas map[schema.GroupVersionKind]*kind.Schema
}

// Same reports whether both say the same, whatever the schemas by which the policy was tried, and how long it took.
func (r Report) Same(other Report) bool {
	r.schemas, other.schemas = nil, nil
	r.Slowest, other.Slowest = Slowest{}, Slowest{}
	return reflect.DeepEqual(r, other)
}

// Problems returns the problems for the author of a policy, including what was not tried.
func (t *Trial) Problems(ctx context.Context, c compile.Compiled) []rule.Problem {
	result := t.Try(ctx, c)
	result.Problems = append(result.Problems, result.Late(&c)...)
	if of := result.advised; of != "" {
		result.Problems = append(result.Problems, rule.Problem{
			Policy: c.Ref, Severity: rule.Warning, What: "types in expressions are checked by the schema of " + of + " that the API server published last: it publishes a changed definition some seconds later",
			Do: "if the definition has just changed, write the policy again",
		})
	}
	for _, skipped := range result.Skipped {
		result.Problems = append(result.Problems, rule.Problem{Policy: c.Ref, Severity: rule.Warning, What: "not tried on " + skipped})
	}
	return result.Problems
}

// Try tries each rule of a policy, of a suspended one those that it would have in force. It stops when ctx is
// done, and reports what it has found until then.
func (t *Trial) Try(ctx context.Context, c compile.Compiled) (result Report) {
	defer result.catch()
	if c.Resumed != nil {
		c = *c.Resumed
	}
	typed := c.Typed()
	kinds := kindsRead(c)
	set := t.find(ctx, &c, kinds)
	if len(c.Rules) > 0 && typed == nil {
		result.Problems = selectorProblems(set, c.Rules[0].Match.Selectors)
		unreadable := t.unreadable(ctx, set, c)
		result.NoSuchKind = noSuchKind(set, c.Rules[0].Match.Selectors)
		result.Unsettled = len(unreadable) > 0 || missesKind(set, kinds)
		result.Problems = append(result.Problems, unreadable...)
		result.Skipped = skipped(set, c.Rules[0].Match.Selectors, t.options.Objects)
	}
	result.schemas = t.schemas(set, typed, kinds)
	result.Problems = append(result.Problems, textProblems(set, c)...)
	result.Problems = append(result.Problems, t.accessProblems(ctx, set, c)...)
	for _, m := range narrowing(&c) {
		if ctx.Err() != nil {
			break
		}
		wrong, _ := resourceProblems(set, m)
		result.Problems, result.Unsettled = append(result.Problems, wrong...), result.Unsettled || len(wrong) > 0
	}
	words := wordsOf(api.Spec(c.Policy.Object))
	refuses := refusesAll(ctx, &c)
	result.Problems = append(result.Problems, refuses...)
	if typed != nil {
		t.tryTyped(ctx, set, &c, words, &result)
	}
	for i := range c.Rules {
		if typed != nil {
			// Its rules have been tried.
			break
		}
		r := &c.Rules[i]
		reads := useProblems(set, r)
		result.Problems = append(result.Problems, reads...)
		told := slices.ContainsFunc(c.Problems, func(p rule.Problem) bool { return strings.HasPrefix(p.Field, r.Name) })
		result.Problems = append(result.Problems, t.tryRule(ctx, set, r, words, explained{slowest: &result.Slowest, reads: len(reads) > 0, step: told, refuses: slices.ContainsFunc(refuses, func(p rule.Problem) bool { return p.Field == r.Name })})...)
	}
	consequence := consequenceOf(&c)
	for i := range result.Problems {
		problem := c.Place(result.Problems[i])
		problem.What = strings.Replace(problem.What, refused, consequence, 1)
		result.Problems[i] = problem
	}
	result.Cut = ctx.Err() != nil
	result.Unsettled = result.Unsettled || result.Cut
	rule.SortProblems(result.Problems)
	result.Problems = slices.CompactFunc(result.Problems, func(a, b rule.Problem) bool { return a == b })
	return result
}

// catch has a panic not keep a policy from being written: the findings are only advice. It is deferred itself.
func (r *Report) catch() {
	if panicked := recover(); panicked != nil {
		r.Skipped = append(r.Skipped, fmt.Sprintf("everything, because the trial panicked: %v; report this as a defect", panicked))
	}
}

// refused is what problems say of requests on which a rule fails.
const refused = "would be refused, because the rule fails"

// consequenceOf returns what to say instead, since a policy that only warns refuses nothing when it fails.
func consequenceOf(c *compile.Compiled) string {
	action := c.Action()
	switch {
	case action == "" || strings.Contains(action, "Deny") || strings.Contains(action, "Mutate"):
		return refused
	case strings.Contains(action, "Warn"):
		return "would be warned of, because the rule fails"
	default:
		return "would be noted in the audit log, because the rule fails"
	}
}

// find returns the existing kinds, with the schemas of those that a policy selects or reads. What the
// policy names and does not exist is looked for again.
func (t *Trial) find(ctx context.Context, c *compile.Compiled, kinds []schema.GroupVersionKind) *kind.Set {
	if t.options.Kinds == nil {
		return t.recorded()
	}
	set := t.options.Kinds(ctx, t.recorded(), kinds)
	var more []schema.GroupVersionKind
	if typed := c.Typed(); typed != nil {
		more = t.lacking(set, typed.Matches())
	}
	for _, m := range narrowing(c) {
		more = append(more, absent(set, m.ResourceMatch)...)
	}
	if len(more) > 0 {
		set = t.options.Kinds(ctx, t.recorded(), slices.Concat(kinds, more))
	}
	return set
}

// tryTyped tries a policy whose expressions have types.
func (t *Trial) tryTyped(ctx context.Context, set *kind.Set, c *compile.Compiled, words words, result *Report) {
	p := c.Typed()
	wrong, nothing := resourceProblems(set, constraints(c))
	result.Problems = append(result.Problems, wrong...)
	switch {
	case !set.Complete:
	case selectsOthers(c):
		result.MatchesNothing = "no namespaceSelector of it selects the namespace " + c.Ref.Namespace + ", in which it is, and a policy of a namespace is for no other"
	case constraints(c).exists(set):
		result.MatchesNothing = nothing
	default:
		result.NoSuchKind = nothing
	}
	result.Problems = append(result.Problems, fieldPathProblems(set, c, p.Matches())...)
	result.Problems = append(result.Problems, mergedLists(set, c, p.Matches())...)
	problems, skipped := t.typeProblems(ctx, set, p, len(wrong) > 0)
	custom := t.custom(set, p.Matches())
	if len(problems) > 0 && len(custom) > 0 && set.Complete {
		apiVersion, name := custom[0].ToAPIVersionAndKind()
		result.advised = name + " in " + apiVersion
	}
	problems = append(problems, t.nameProblems(c, p)...)
	noKind := dataProblems(set, c)
	result.Problems = append(result.Problems, noKind...)
	if len(problems) == 0 && len(rule.Errors(noKind)) == 0 {
		// What is said of types explains what requests would come to.
		problems = t.tryAdmission(ctx, set, c, words, &result.Slowest)
	}
	result.Problems, result.Skipped = append(result.Problems, problems...), append(result.Skipped, skipped...)
	result.Unsettled = result.Unsettled || len(wrong)+len(skipped)+len(noKind) > 0 || len(problems) > 0 && len(custom) > 0
}

// selectsOthers reports whether a policy of a namespace selects other namespaces only, by their names.
func selectsOthers(c *compile.Compiled) bool {
	return c.Ref.Namespace != "" && len(c.Rules) > 0 && !c.Rules[0].Match.Namespaces.Has(c.Ref.Namespace)
}

// kindsRead returns the kinds that a policy selects, and those that it reads.
func kindsRead(c compile.Compiled) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for i := range c.Rules {
		kinds = append(kinds, kindsOf(c.Rules[i].Match.Selectors)...)
		for _, use := range usesOf(&c.Rules[i]) {
			kinds = append(kinds, use.Kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return slices.DeleteFunc(slices.Compact(kinds), schema.GroupVersionKind.Empty)
}

// kindsOf returns the kinds that selectors name.
func kindsOf(selectors []rule.Selector) []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for i := range selectors {
		if of := schema.FromAPIVersionAndKind(selectors[i].APIVersion, selectors[i].Kind); !slices.Contains(kinds, of) {
			kinds = append(kinds, of)
		}
	}
	return kinds
}

// missesKind reports whether one of the kinds may come later.
func missesKind(set *kind.Set, kinds []schema.GroupVersionKind) bool {
	return slices.ContainsFunc(kinds, func(of schema.GroupVersionKind) bool { return set.Schema(of) == nil })
}

// noSuchKind returns a message if a cluster has none of the kinds, and "" otherwise.
func noSuchKind(set *kind.Set, selectors []rule.Selector) string {
	kinds := kindsOf(selectors)
	if !set.Complete || len(kinds) == 0 || slices.ContainsFunc(kinds, set.Has) {
		return ""
	}
	apiVersion, name := kinds[0].ToAPIVersionAndKind()
	if p, unknown := unknownKind(set, kinds[0]); unknown && len(kinds) == 1 {
		return fmt.Sprintf("the cluster has no kind %s in %s; %s", name, apiVersion, p.Do)
	}
	return fmt.Sprintf("the cluster has none of the kinds that the policy selects, such as %s in %s", name, apiVersion)
}

// skipped returns which kinds have neither a schema nor a given object.
func skipped(set *kind.Set, selectors []rule.Selector, given []map[string]any) []string {
	var texts []string
	for _, of := range kindsOf(selectors) {
		if set.Schema(of) != nil || of.Kind == "" || of.Version == "" || strings.Contains(of.Kind+of.Version, "*") || slices.ContainsFunc(given, func(o map[string]any) bool { return kindOf(o) == of }) {
			continue
		}
		if _, unknown := unknownKind(set, of); unknown {
			continue
		}
		apiVersion, name := of.ToAPIVersionAndKind()
		texts = append(texts, fmt.Sprintf("objects of kind %s in %s: their schema is not known", name, apiVersion))
	}
	return texts
}

func kindOf(object map[string]any) schema.GroupVersionKind {
	apiVersion, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	return schema.FromAPIVersionAndKind(apiVersion, name)
}

// unreadable warns of kinds that the policy reads and the server may not.
func (t *Trial) unreadable(ctx context.Context, set *kind.Set, c compile.Compiled) []rule.Problem {
	if t.options.Readable == nil {
		return nil
	}
	do := "give Usher the right to get, list and watch them: see docs/install.md"
	if c.Ref.Namespace != "" {
		do = "ask who administers the cluster to " + do
	}
	var problems []rule.Problem
	asked := map[schema.GroupVersionKind]bool{}
	for i := range c.Rules {
		for _, use := range usesOf(&c.Rules[i]) {
			if use.Of != rule.OtherObject || asked[use.Kind] || !set.Has(use.Kind) {
				continue
			}
			asked[use.Kind] = true
			if err := t.options.Readable(ctx, use.Kind); err != nil {
				problems = append(problems, rule.Problem{
					Severity: rule.Warning, Field: fieldOf(&c.Rules[i], strings.TrimSuffix(use.Field, ".path")+".k8s"),
					What: fmt.Sprintf("every request that the rule is for fails, because %v", err),
					Do:   do,
				})
			}
		}
	}
	return problems
}

// usesOf returns what the steps of a rule declare to read.
func usesOf(r *rule.Rule) []rule.Use {
	var all []rule.Use
	for _, s := range r.Steps {
		if traced, ok := s.Program.(rule.Traced); ok {
			all = append(all, traced.Uses()...)
		}
	}
	return all
}

// editsOf returns the paths that the steps of a rule declare to change.
func editsOf(r *rule.Rule) []path {
	var all []path
	for _, s := range r.Steps {
		if writer, ok := s.Program.(interface{ Pointers() []string }); ok {
			for _, pointer := range writer.Pointers() {
				all = append(all, pathOf(pointer))
			}
		}
	}
	return all
}

// fieldOf returns the path in the policy of a field of a rule.
func fieldOf(r *rule.Rule, field string) string {
	switch {
	case field == "":
		return r.Name
	case strings.HasPrefix(r.Name, "spec.overrideRules"):
		return r.Name + ".overriders." + field
	}
	return r.Name + "." + field
}
