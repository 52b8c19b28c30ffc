package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/door/admission"
	"github.com/usher-dev/usher/live"
	"github.com/usher-dev/usher/source/dir"
)

const bothPhases = `{apiVersion: usher.dev/v1alpha1, kind: ClusterObjectPolicy, metadata: {name: generated}, spec: {
	matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
	mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: "Object{data: Object.data{size: 'large'}}"}}],
	validations: [{expression: "object.data.size == 'small' && object.metadata.name != ''"}]}}`

// explainBoth explains both decisions about a request.
func explainBoth(ctx context.Context, decider *live.Live, request *usher.Request) (mutation, validation []byte, err error) {
	result, err := admission.Decide(ctx, decider, request)
	if err != nil {
		return nil, nil, err
	}
	mutation, err = decider.Explain(ctx, result.ForMutation, result.Mutation)
	if err != nil || result.ForValidation == nil { // It is nil if mutation denies.
		return mutation, nil, err
	}
	validation, err = decider.Explain(ctx, result.ForValidation, result.Validation)
	return mutation, validation, err
}

func TestExplainOfBothPhases(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "p.yaml"), []byte(bothPhases), 0o600); err != nil {
		t.Fatal(err)
	}
	decider := live.New(live.Options{InProcess: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = decider.Run(ctx, dir.New(folder)) }()
	if err := decider.WaitLoaded(ctx); err != nil {
		t.Fatal(err)
	}
	if problems := decider.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	request := &usher.Request{
		Operation: usher.Create, Namespace: "shop", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Object:   usher.RawObject([]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"a-","namespace":"shop"},"data":{"size":"small"}}`)),
	}
	mutation, validation, err := explainBoth(ctx, decider, request)
	if err != nil || !strings.Contains(string(mutation), `"phase":"mutate"`) || !strings.Contains(string(mutation), `"outcome":"changed"`) {
		t.Errorf("mutation: %s, %v", mutation, err)
	}
	for _, want := range []string{`"phase":"validate"`, `"text":"object.data.size","value":"large"`} {
		if !strings.Contains(string(validation), want) {
			t.Errorf("validation: %s, want %s", validation, want)
		}
	}
	// A request of one phase, and the decision of the other.
	result, err := admission.Decide(ctx, decider, request)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		request  *usher.Request
		decision usher.Decision
		err      string
	}{
		{result.ForMutation, result.Validation, "decides in the phase validate: the request is of the phase mutate"},
		{result.ForValidation, result.Mutation, "decides in the phase mutate: the request is of the phase validate"},
	} {
		text, err := decider.Explain(ctx, row.request, row.decision)
		if err == nil || !strings.Contains(fmt.Sprint(err), row.err) {
			t.Errorf("explained as %s, error %v, want %q", text, err, row.err)
		}
	}
}
