package engine_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/fact"
	"github.com/usher-dev/usher/internal/engine"
	"github.com/usher-dev/usher/internal/rule"
)

// A library resolves facts by the name of an object and notes who was asked for.
type library struct {
	asked []string
}

func (l *library) Resolve(_ context.Context, ref fact.Ref) (any, error) {
	name := ref.(*fact.Object).Name
	l.asked = append(l.asked, name)
	if name == "gone" {
		return nil, errors.New("not found")
	}
	return "value of " + name, nil
}

func TestFacts(t *testing.T) {
	t.Parallel()
	endless := program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
		for i := 0; ; i++ {
			if _, err := in.Facts.Value(configMap(strconv.Itoa(i))); err != nil {
				return rule.Outcome{}, err
			}
		}
	})
	stubborn := fail(&fact.Missing{Ref: configMap("a")})
	two := program(func(ctx context.Context, in *rule.Input) (rule.Outcome, error) {
		if _, err := in.Facts.Value(configMap("a")); err != nil {
			return rule.Outcome{}, err
		}
		return ask(configMap("b"))(ctx, in)
	})
	tests := []struct {
		reason  string
		facts   fact.Resolver
		options engine.Options
		rules   []rule.Rule
		want    string
		asked   []string
	}{
		{
			reason: "a program is run again with the fact that it asked for",
			rules:  []rule.Rule{one("p", ask(configMap("a")))},
			want:   "value of a", asked: []string{"a"},
		},
		{
			reason: "it may ask for one after the other",
			rules:  []rule.Rule{one("p", two)},
			want:   "value of b", asked: []string{"a", "b"},
		},
		{
			reason: "a request gets a fact once, for all its rules",
			rules:  []rule.Rule{one("p", ask(configMap("a"))), one("q", ask(configMap("a")))},
			want:   "value of a; value of a", asked: []string{"a"},
		},
		{
			reason: "an error names the rule and the fact, and is remembered too",
			rules:  []rule.Rule{one("p", ask(configMap("gone"))), one("q", ask(configMap("gone")))},
			want: "fake: fact v1 ConfigMap shop/gone: not found (P p spec.rules[0]); " +
				"fake: fact v1 ConfigMap shop/gone: not found (P q spec.rules[0])", asked: []string{"gone"},
		},
		{
			reason:  "there is a limit to what a rule may ask for, not to what a request may",
			options: engine.Options{MaxFacts: 2},
			rules:   []rule.Rule{one("p", endless), one("q", ask(configMap("x"))), one("r", two)},
			want:    "fake: asked for more than 2 facts, the next being v1 ConfigMap shop/2 (P p spec.rules[0]); value of x; value of b",
			asked:   []string{"0", "1", "x", "a", "b"},
		},
		{
			reason:  "the limit counts for all steps of a rule",
			options: engine.Options{MaxFacts: 1}, rules: []rule.Rule{one("p", program(func(_ context.Context, in *rule.Input) (rule.Outcome, error) {
				_, err := in.Facts.Value(configMap("a"))
				return rule.Outcome{}, err
			}), ask(configMap("b")))},
			want:  "fake: asked for more than 1 facts, the next being v1 ConfigMap shop/b (P p spec.rules[0])",
			asked: []string{"a"},
		},
		{
			reason: "a program that does not take the answer fails",
			rules:  []rule.Rule{one("p", stubborn)},
			want:   "fake: asked again for the fact v1 ConfigMap shop/a, which is known (P p spec.rules[0])", asked: []string{"a"},
		},
		{
			reason: "there is nobody to ask",
			facts:  nil,
			rules:  []rule.Rule{one("p", ask(configMap("a")))},
			want:   "fake: fact v1 ConfigMap shop/a: nothing here resolves facts: in Go, set live.Options.Facts (P p spec.rules[0])",
		},
		{
			reason: "a resolver that panics is the failure of the rule",
			facts:  fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { panic("ouch") }),
			rules:  []rule.Rule{one("p", ask(configMap("a"))), one("q", deny("no"))},
			want:   "fake: panicked: ouch (P p spec.rules[0]); no",
		},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			l := &library{}
			if tt.facts == nil && tt.asked != nil {
				tt.facts = l
			}
			got := decide(t, newEngine(usher.Validate, tt.options, tt.facts, tt.rules...), request(usher.Validate, usher.Create))
			if got.Message != tt.want {
				t.Errorf("message\n%s, want\n%s", got.Message, tt.want)
			}
			if diff := cmp.Diff(tt.asked, l.asked); diff != "" {
				t.Errorf("asked: -want +got:\n%s", diff)
			}
		})
	}
}

func TestRequestsDoNotShareFacts(t *testing.T) {
	t.Parallel()
	l := &library{}
	e := newEngine(usher.Validate, engine.Options{}, l, one("p", ask(configMap("a"))))
	decide(t, e, request(usher.Validate, usher.Create))
	decide(t, e, request(usher.Validate, usher.Create))
	if diff := cmp.Diff([]string{"a", "a"}, l.asked); diff != "" {
		t.Errorf("asked: -want +got:\n%s", diff)
	}
}

func TestAFactHasTheTimeOfTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := fact.ResolverFunc(func(ctx context.Context, _ fact.Ref) (any, error) {
			select {
			case <-time.After(3 * time.Second):
				return "late", nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		e := newEngine(usher.Validate, engine.Options{RuleTimeout: time.Second}, slow, one("p", ask(configMap("a"))))
		if got := decide(t, e, request(usher.Validate, usher.Create)); got.Message != "late" {
			t.Errorf("got %q: what a fact takes is not the program's time", got.Message)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		d, err := e.Decide(ctx, request(usher.Validate, usher.Create))
		if want := "fake: took too long: the request's time of 2s is over (P p spec.rules[0])"; err != nil || d.Verdict != usher.Deny || d.Message != want {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// A rule that reads a Secret is told from the others, also when another rule had it fetched.
func TestFindingsTellWhoHasReadASecret(t *testing.T) {
	t.Parallel()
	secret := &fact.Object{APIVersion: "v1", Kind: "Secret", Namespace: "shop", Name: "a"}
	e := newEngine(usher.Validate, engine.Options{}, &library{}, one("p", ask(secret)), one("q", ask(configMap("a"))), one("r", ask(secret)))
	var got []bool
	for _, f := range decide(t, e, request(usher.Validate, usher.Create)).Findings {
		got = append(got, f.Confidential)
	}
	if diff := cmp.Diff([]bool{true, false, true}, got); diff != "" {
		t.Errorf("confidential: -want +got:\n%s", diff)
	}
}

// A dry run has no side effects: requests that may have some are not made for it.
func TestDryRunsMakeNoUnsafeRequests(t *testing.T) {
	t.Parallel()
	call := func(method string) program {
		return ask(&fact.HTTP{Method: method, URL: "https://cmdb.example/teams"})
	}
	const refused = "fake: fact POST https://cmdb.example/teams: not requested in a dry run: only GET and HEAD have no side effects (P p spec.rules[0])"
	for _, tt := range []struct {
		reason string
		method string
		dryRun bool
		want   string
		asked  int
	}{
		{"a request that is kept may have side effects", "POST", false, "answer", 1},
		{"a dry run may not", "POST", true, refused, 0},
		{"a GET has none", "GET", true, "answer", 1},
	} {
		asked := 0
		facts := fact.ResolverFunc(func(context.Context, fact.Ref) (any, error) { asked++; return "answer", nil })
		r := request(usher.Validate, usher.Create)
		r.DryRun = tt.dryRun
		got := decide(t, newEngine(usher.Validate, engine.Options{}, facts, one("p", call(tt.method))), r)
		if got.Message != tt.want || asked != tt.asked {
			t.Errorf("%s: message %q after %d requests, want %q after %d", tt.reason, got.Message, asked, tt.want, tt.asked)
		}
	}
}

// A rule that is bound to a namespace does not see what others may read, not even if it was read
// for the same request.
func TestBoundRulesSeeNoFactsOfOthers(t *testing.T) {
	t.Parallel()
	bound := func(name string, reads ...fact.Read) rule.Rule {
		r := one(name, ask(configMap("a")))
		r.Facts = &fact.Bounds{Namespace: "shop", Reads: reads}
		return r
	}
	free := one("p", ask(configMap("a")))
	reads := fact.Read{APIVersion: "v1", Kind: "ConfigMap"}
	got := decide(t, newEngine(usher.Validate, engine.Options{}, &library{}, free, bound("q"), bound("r", reads)), request(usher.Validate, usher.Create))
	var failed []string
	for _, f := range got.Findings {
		if f.Err != nil {
			failed = append(failed, f.Policy.Name+": "+f.Err.Error())
		}
	}
	want := []string{"q: fake: fact v1 ConfigMap shop/a: a policy of namespace shop does not read objects of the kind ConfigMap this way"}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("failed: -want +got:\n%s", diff)
	}
}
