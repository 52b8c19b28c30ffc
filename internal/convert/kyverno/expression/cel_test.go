package expression_test

import (
	"sync"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/usher-dev/usher/internal/lang/cel"
)

var environmentOnce = sync.OnceValues(func() (*cel.Environment, error) {
	return cel.Kubernetes(environment.VersionedOptions{EnvOptions: []celgo.EnvOption{
		celgo.Variable("object", celgo.DynType), celgo.Variable("oldObject", celgo.DynType), celgo.Variable("request", celgo.DynType),
		celgo.Variable("variables", celgo.DynType),
	}})
})

// compiles compiles an expression.
func compiles(t *testing.T, text string) {
	t.Helper()
	env, err := environmentOnce()
	if err != nil {
		t.Fatal(err)
	}
	if _, issues := env.Env.Compile(text); issues.Err() != nil {
		t.Errorf("%s\n%v", text, issues.Err())
	}
}
