package judge_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/judge"
	"github.com/usher-dev/usher/internal/compile"
	"github.com/usher-dev/usher/internal/rule"
)

// A stuck program does not heed its context.
type stuck struct{ end chan struct{} }

// Run implements [rule.Program].
func (s stuck) Run(context.Context, *rule.Input) (rule.Outcome, error) {
	<-s.end
	return rule.Outcome{}, nil
}

// String implements [rule.Program].
func (stuck) String() string { return "stuck" }

// ReadPaths implements [rule.Selective].
func (stuck) ReadPaths() (object, old *usher.Paths) { return nil, nil }

// DependsOn implements [rule.Dependent].
func (stuck) DependsOn(usher.Operation) rule.Dependencies { return 0 }

// TestPoliciesThatNeverEnd are errors about the object, and the judgement of it ends in time.
func TestPoliciesThatNeverEnd(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reason  string
		timeout time.Duration
		want    []string
		fails   bool
	}{
		{"the time of the rule is over", 10 * time.Second, []string{"p error took too long: overran its time of 1s", "q fail no host network"}, false},
		{"the time of the object is over", 500 * time.Millisecond, nil, true},
	} {
		t.Run(row.reason, func(t *testing.T) {
			t.Parallel()
			policies := compiled(t, objectPolicy("p", "CREATE", "pods", "  validations: [{expression: 'true'}]")+
				objectPolicy("q", "CREATE", "pods", fmt.Sprintf("  validations: [{expression: '%s', message: no host network}]", hostNetwork)))
			var object map[string]any
			if err := yaml.Unmarshal([]byte(onHost), &object); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				defer close(end)
				policies[0].Rules = slices.Clone(policies[0].Rules)
				policies[0].Rules[0].Steps = []rule.Step{{Program: stuck{end}}}
				ctx, cancel := context.WithTimeout(t.Context(), row.timeout)
				defer cancel()
				began := time.Now()
				saids, err := judge.New(compile.Order(policies), judge.Options{}).Plan(kind("", "pods", "Pod", true)).Judge(ctx, object, nil)
				if took := time.Since(began); took > row.timeout+100*time.Millisecond || (err != nil) != row.fails {
					t.Errorf("it took %s, %v", took, err)
				}
				var got []string
				for _, said := range saids {
					for i := range said.Results {
						got = append(got, fmt.Sprint(said.Policy.Name, " ", said.Results[i].Status, " ", said.Results[i].Message))
					}
				}
				if diff := cmp.Diff(row.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}
